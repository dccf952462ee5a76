"""``explain``: the ResourceManager's own knowledge of applications, containers and nodes, put into words.

Reads the books and changes nothing.
"""

from __future__ import annotations

from itertools import islice

from ...allocation.asks import Ask
from ...explain.estimates import Durations
from ...explain.explanations import (
    ApplicationSnapshot,
    Asked,
    explain_application,
    explain_container,
    explain_node,
)
from ...explain.snapshot import NodeSnapshot
from ...machine.calls import CallReceived
from ...records.explanation import Expected, ExplainRequest, ExplainResponse, Explanation, Reason, ReasonKind
from ...records.reports import ContainerReport, YarnApplicationState
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt, RMNode
from ..reports import container_report, node_report
from .explain_asks import AskReasons, is_gone

MOST_FINISHED = 500
"""Ended containers that an estimate looks at: the latest."""


class ExplainService:
    """Answers ``explain`` calls."""

    def __init__(self, context: RMContext) -> None:
        self._context = context
        self._asks = AskReasons(context)

    def get(self, call: CallReceived, request: ExplainRequest, now: float) -> None:
        """Explain one id. Raises the error of its kind where there is no such thing."""
        context, name = self._context, request.id
        if name.startswith("container_"):
            explanation = self._container(name, now)
        elif name.startswith(("application_", "appattempt_")):
            app = context.application(name)
            explanation = self._application(app, now)
        else:
            node = context.node(name)
            explanation = explain_node(self._snapshot(node, self._finished()), context.ms(now))
        context.reply(call.call_id, ExplainResponse(explanation))

    def _finished(self, app: RMApp | None = None) -> list[ContainerReport]:
        """Ended containers that estimates learn from: the latest, and the latest of ``app``."""
        offset = self._context.identity.wall_offset
        finished = self._context.finished_containers
        latest = list(islice(reversed(finished.values()), MOST_FINISHED))
        if app is not None and not any(one.app is app for one in latest):
            own = (one for one in reversed(finished.values()) if one.app is app)
            latest += islice(own, MOST_FINISHED)
        return [container_report(one, offset) for one in latest]

    def _snapshot(self, node: RMNode, finished: list[ContainerReport]) -> NodeSnapshot:
        offset = self._context.identity.wall_offset
        return NodeSnapshot(
            node_report(node, offset),
            [container_report(one, offset) for one in node.containers.values()],
            finished,
            fresh=False,
        )

    def _container(self, container_id: str, now: float) -> Explanation:
        context = self._context
        found = context.container(container_id)
        node = context.nodes.get(found.node.node_id)
        here = None if node is None else self._snapshot(node, self._finished(found.app))
        return explain_container(container_report(found, context.identity.wall_offset), here, context.ms(now))

    # -- applications ----------------------------------------------------------------------------------------

    def _application(self, app: RMApp, now: float) -> Explanation:
        context, now_ms = self._context, self._context.ms(now)
        if app.ended:
            why = " ".join(app.diagnostics.split())
            ended = f"{app.state.value} {app.final_status.value}{f' ({why})' if why else ''}"
            return Explanation(app.id, "application", app.state.value, now_ms, app.finished_ms, ended=ended)
        attempt, offset = app.attempt, context.identity.wall_offset
        finished = self._finished(app)
        durations = Durations(finished)
        asked = self._asked(attempt, durations, why=True)
        containers = [container_report(one, offset) for one in attempt.containers.values()]
        outstanding = sum(one.number for one in asked) - (
            attempt.am_ask.outstanding if attempt.am_ask is not None else 0
        )
        snapshot = ApplicationSnapshot(
            app.id,
            app.state.value,
            app.started_ms or app.submitted_ms,
            app.submitted_ms,
            containers,
            [
                self._snapshot(node, finished)
                for node in context.nodes.values()
                if not is_gone(node) or node.containers
            ],
            finished,
            asked,
            self._ahead(app, durations) if asked else [],
            outstanding,
            self._master_reason(attempt) if app.state is YarnApplicationState.ACCEPTED else None,
        )
        return explain_application(snapshot, now_ms)

    def _asked(self, attempt: RMAppAttempt, durations: Durations, *, why: bool) -> list[Asked]:
        """Outstanding asks, those of one shape, type and duration together: they wait for the same. ``why``: with the
        reasons.
        """
        groups: dict[object, list[Ask]] = {}
        for ask in (*attempt.guaranteed_asks, *attempt.opportunistic_asks):
            if ask.outstanding:
                kind = ask.request.execution_type_request.execution_type
                groups.setdefault((ask.shape(), kind, ask.request.duration_hint_ms), []).append(ask)
        found = []
        for equals in groups.values():
            ask = equals[0]
            is_master = ask is attempt.am_ask
            found.append(
                Asked(
                    sum(one.outstanding for one in equals),
                    ask.resource,
                    ask.request.execution_type_request.execution_type,
                    Expected()
                    if is_master
                    else durations.of_task(ask.request.duration_hint_ms, attempt.app.id),
                    min(one.waiting_since_ms or one.asked_ms for one in equals),
                    frozenset(node.node_id for node in self._asks.could_serve(attempt, ask)),
                    tuple(self._asks.reasons(attempt, ask)) if why else (),
                    self._asks.limit(attempt, ask) is not None,
                    attempt.app.leaf.path,
                )
            )
        return found

    def _ahead(self, app: RMApp, durations: Durations) -> list[Asked]:
        """What applications that were submitted before it have asked for."""
        found: list[Asked] = []
        for other in self._context.live.values():
            if other is app:
                break
            found += [one for one in self._asked(other.attempt, durations, why=False) if not one.limited]
        return found

    def _master_reason(self, attempt: RMAppAttempt) -> Reason:
        if attempt.app.unmanaged:
            return Reason(ReasonKind.MASTER_IN_CLIENT)
        if attempt.am_container is None:
            return Reason(ReasonKind.MASTER_WAITS)
        container = attempt.am_container
        return Reason(ReasonKind.MASTER_STARTS, by=(container.id,), where=container.node.node_id)
