"""What all commands about containers share: everything about some of them, and waiting until they are as wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import EXIT_TIMEOUT, InvalidStateError, YoppError
from ...records.reports import ContainerReport
from ...views import containers as view
from ...views.containers import CONTAINERS
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient

_LIMITS_UNTOLD = "not known: YARN's REST API does not tell them"


def show_details(
    session: Session,
    found: Sequence[ContainerReport],
    besides: Callable[[ContainerReport], dict[str, Any]] | None = None,
) -> None:
    """Print everything about these containers in the form chosen, with what their nodes hold them to; ``besides`` goes
    under ``yopp`` in documents.
    """
    printer, now = session.printer, session.now_ms
    if session.yarn is not None:
        session.details(CONTAINERS, found, fields=lambda one: _without_limits(view.fields(one, now)))
        return
    client = session.client
    facts = client.node_facts(client.nodes(), found) if printer.is_json or printer.for_people else {}

    def document(one: ContainerReport) -> dict[str, Any]:
        made = view.document(one, now, facts.get(one.node_id))
        if besides is not None:
            made["yopp"].update(besides(one))
        return made

    session.details(
        CONTAINERS,
        found,
        document=document,
        fields=lambda one: view.fields(one, now, facts.get(one.node_id)),
    )


def _without_limits(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, _LIMITS_UNTOLD if name == "Limits" else value) for name, value in pairs]


def live(report: ContainerReport) -> ContainerReport:
    """The report of a container that lives. Raises InvalidStateError for another."""
    if not view.is_live(report):
        raise InvalidStateError(
            f"{report.container_id} has ended",
            because=view.exit_text(report),
            hint="`yopp ps` shows what lives",
        )
    return report


def await_containers(
    client: LocalClient,
    named: Sequence[str],
    condition: Callable[[ContainerReport], bool],
    bound: float,
    what: str,
    why: Callable[[str], str] | None = None,
) -> list[ContainerReport]:
    """Ask again and again, ever more slowly, until ``condition`` holds for all. YoppError (exit 124) in the
    end, with what ``why`` says of the first for which it does not.
    """
    deadline = time.monotonic() + bound
    pause = 0.01
    while True:
        reports = [client.container(one) for one in named]
        waiting = [one.container_id for one in reports if not condition(one)]
        if not waiting:
            return reports
        if time.monotonic() >= deadline:
            raise YoppError(
                f"{', '.join(waiting)} did not {what} within {bound:g} s",
                because=why(waiting[0]) if why is not None else "the time that was given to it has passed",
                hint="look at it with `yopp container status`; --timeout waits longer",
                exit_code=EXIT_TIMEOUT,
            )
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.25)
