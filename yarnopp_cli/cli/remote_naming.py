"""Short ids on a YARN cluster: ``naming``'s own rules, asked of its REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..client.yarn import ALIVE, LIVE_STATES, YarnEngine
from ..records.client_protocol import GetApplicationsRequest, GetContainersRequest
from ..records.reports import ApplicationReport, ContainerReport, NodeReport, NodeState
from ..views.containers import is_live
from .frame import naming
from .frame.naming import one_of


class _Known:
    """What ``naming`` asks a client for."""

    def __init__(self, engine: YarnEngine) -> None:
        self._engine = engine

    def applications(self, request: GetApplicationsRequest | None = None) -> Sequence[ApplicationReport]:
        """All of them in order of submission, or those that live."""
        live = request is not None and request.live_only
        return self._engine.applications([("states", ",".join(LIVE_STATES))] if live else []).reports

    def containers(self) -> Sequence[ContainerReport]:
        """Those that live, of all nodes."""
        return self.container_reports(GetContainersRequest())

    def container_reports(self, request: GetContainersRequest) -> Sequence[ContainerReport]:
        """Those of all nodes, in order."""
        listings, _ = self._engine.containers_of(self._engine.nodes(states_of(ALIVE)).reports)
        found = [one for listing in listings for one in listing.reports if request.finished or is_live(one)]
        return sorted(found, key=lambda one: one.container_id)


def states_of(states: Sequence[NodeState]) -> list[str]:
    """The names of nodes' states."""
    return [one.value for one in states]


def application_ids(engine: YarnEngine, given: Sequence[str]) -> list[str]:
    """The full ids of the applications named."""
    return naming.applications(cast(Any, _Known(engine)), given)


def application_id(engine: YarnEngine, word: str) -> str:
    """The full id of the one application that a word means."""
    return one_of(application_ids(engine, [word]), word)


def container_ids(engine: YarnEngine, given: Sequence[str]) -> list[str]:
    """The full ids of the containers named; short ones are looked for on all nodes."""
    return naming.containers(cast(Any, _Known(engine)), given)


def node_reports(engine: YarnEngine) -> list[NodeReport]:
    """All nodes, whatever their state."""
    return engine.nodes(states_of(tuple(NodeState))).reports
