"""The four tables of transitions: complete, left at their ends alone, and refusing every other pair with a story."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from executor.errors import InvalidTransitionError
from executor.records import ContainerState
from yarnopp_cli.records.reports import NodeState, YarnApplicationState
from yarnopp_cli.resourcemanager import lives

from .rm_harness import Cluster, asks, status

TABLES: dict[str, tuple[Any, type, type, set[Any]]] = {
    # table, states, events, states that nobody is ever in
    "application": (
        lives.APPLICATIONS,
        YarnApplicationState,
        lives.AppEvent,
        {YarnApplicationState.NEW_SAVING},
    ),
    "attempt": (lives.ATTEMPTS, lives.AttemptState, lives.AttemptEvent, set()),
    "container": (lives.CONTAINERS, lives.Phase, lives.ContainerEvent, set()),
    "node": (lives.NODES, NodeState, lives.NodeEvent, {NodeState.REBOOTED}),
}
ENDS = {"FINISHED", "FAILED", "KILLED", "DONE", "PREEMPTED", "LOST"}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_row_and_a_meaning_for_each_state_and_knows_each_event(name: str) -> None:
    table, states, events, unused = TABLES[name]
    assert set(table.rows) == set(table.meanings) == set(states) - unused
    assert {event for row in table.rows.values() for event in row} == set(events)


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_and_only_ends_are_never_left(name: str) -> None:
    table = TABLES[name][0]
    first = next(iter(table.rows))
    assert {state for row in table.rows.values() for state in row.values()} | {first} == set(table.rows)
    ends = ENDS - {"LOST"} if name == "node" else ENDS  # a lost node may come back
    assert {state.value for state, row in table.rows.items() if not row} == ends & {
        s.value for s in table.rows
    }


def an_entity(cluster: Cluster, name: str) -> Any:
    node = cluster.node()
    master = cluster.master()
    [container] = master.allocate(asks(1)).allocated
    node.beat(status(container, ContainerState.RUNNING))
    context = cluster.context
    app = context.live[master.app_id]
    found = {"application": app, "attempt": app.attempt, "node": context.nodes[node.name]}
    return found.get(name) or context.live_containers[container.id]


@pytest.mark.parametrize("name", TABLES)
def test_whatever_is_not_in_the_table_is_refused_and_the_refusal_tells_the_story(name: str) -> None:
    table, _, events, _ = TABLES[name]
    entity = an_entity(Cluster(), name)
    field = "phase" if name == "container" else "state"
    for state, event in product(table.rows, events):
        if event in table.rows[state]:
            continue
        setattr(entity, field, state)
        with pytest.raises(InvalidTransitionError) as refusal:
            entity.move(event, 7.5)
        assert getattr(entity, field) is state
        assert entity.story and f"{entity.story[-1]}" in str(refusal.value)
        assert f"is {state.value}, which cannot take {event.value}" in str(refusal.value)


def test_states_change_by_the_context_alone() -> None:
    """No module but the entities' own assigns a state, and none but the context calls their ``move``."""
    folder = Path(lives.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Attribute) and found.attr in ("state", "phase"):
                assigned = isinstance(found.ctx, ast.Store)
                assert not assigned or path.name == "entities.py", f"{path.name}:{found.lineno}"
            if isinstance(found, ast.Attribute) and found.attr == "move":
                called_on = ast.unparse(found.value)
                allowed = called_on in ("self._rm", "queues")
                assert allowed or path.name == "context.py", f"{path.name}:{found.lineno}: {called_on}.move"
