"""Common parts of commands about containers: full reports, and the refusal of ended containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from executor.hints import Any

from ...errors import InvalidStateError
from ...records.reports import ContainerReport, NodeReport
from ...views import containers as view
from ...views.containers import CONTAINERS
from ..frame.actions import tell
from ..frame.session import Session

_LIMITS_UNTOLD = "unknown: YARN's REST API does not have them"
Besides = Callable[[ContainerReport], dict[str, Any]]


class InFull:
    """Containers with the limits at their nodes, which are requested when the first container is shown in full.

    ``besides`` is added under ``yopp`` in documents.
    """

    def __init__(
        self,
        session: Session,
        found: Sequence[ContainerReport],
        nodes: Sequence[NodeReport] | None = None,
        besides: Besides | None = None,
    ) -> None:
        def ask() -> dict[str, view.NodeFacts]:
            if session.yarn is not None:
                return {}
            return session.client.node_facts(session.client.nodes() if nodes is None else nodes, found)

        self._session = session
        self._facts = cache(ask)
        self._besides = besides

    def document(self, one: ContainerReport) -> dict[str, Any]:
        """The container's JSON document."""
        made = view.document(one, self._session.now_ms, self._facts().get(one.node_id))
        if self._besides is not None:
            made["yopp"].update(self._besides(one))
        return made

    def fields(self, one: ContainerReport) -> Sequence[tuple[str, str]]:
        """The lines of its ``status``."""
        pairs = view.fields(one, self._session.now_ms, self._facts().get(one.node_id))
        if self._session.yarn is None:
            return pairs
        return [(name, _LIMITS_UNTOLD if name == "Limits" else value) for name, value in pairs]


def show_details(session: Session, found: Sequence[ContainerReport]) -> None:
    """Print all details of these containers in the chosen form."""
    shown = InFull(session, found)
    session.details(CONTAINERS, found, document=shown.document, fields=shown.fields)


def tell_containers(
    session: Session,
    found: Sequence[ContainerReport],
    text: Callable[[ContainerReport], str] = view.shown_state,
    *,
    before: Callable[[ContainerReport], bool] = lambda _: False,
    besides: Besides | None = None,
) -> None:
    """Print the outcome for each container, as ``actions.tell`` does."""
    shown = InFull(session, found, besides=besides)
    tell(session, CONTAINERS, found, text, before=before, document=shown.document, fields=shown.fields)


def live(report: ContainerReport) -> ContainerReport:
    """The report of a live container. Raises InvalidStateError for an ended one."""
    if not view.is_live(report):
        raise InvalidStateError(
            f"{report.container_id} has ended",
            because=f"its exit status is {view.exit_text(report)}",
            hint="`yopp ps` lists the live ones",
        )
    return report
