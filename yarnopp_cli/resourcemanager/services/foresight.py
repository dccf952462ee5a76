"""The forecast for a job that is submitted now: a copy of the RM places it, then the nodes concerned are asked.

The copy handles the submission as the RM would (``whatif/cluster.py``), and returns its orders for the nodes. Each of
these nodes lets a copy of itself follow the orders.
"""

from __future__ import annotations

from executor.light import replace

from ...errors import InvalidStateError, YoppError
from ...machine.calls import CallReceived
from ...records.explanation import ForeseeJobRequest, JobForecast, NodeForecast
from ...records.tracker_protocol import NodeQuestion
from ..commands import JobPlaced, PlaceByCopy, Placement
from ..context import RMContext
from ..hosting.checking import check_job
from ..inquiries import Answers, Inquiries


class Foresight:
    """Answers ``foreseeJob`` calls."""

    def __init__(self, context: RMContext, inquiries: Inquiries) -> None:
        self._rm = context
        self._inquiries = inquiries

    def foresee(self, call: CallReceived, request: ForeseeJobRequest) -> None:
        """Let a copy place the job. Raises UsageError for a job that could not be submitted."""
        check_job(request.job)
        self._rm.changes.commands.append(PlaceByCopy(call))

    def placed(self, event: JobPlaced) -> None:
        """Ask the nodes to which containers of the job would go."""
        call, placement = event.call, event.placement
        try:
            if placement is None:
                raise InvalidStateError("what would happen is unknown", because=event.failed)
            questions = {
                node_id: NodeQuestion(0, placement.application_id, orders=orders)
                for node_id, orders in placement.orders.items()
            }
            found = self._inquiries.ask(call, questions, lambda answers: self._forecast(placement, answers))
            if found is not None:
                self._rm.reply(call.call_id, found)
        except YoppError as error:
            self._rm.refuse(call.call_id, error)

    def _forecast(self, placement: Placement, answers: Answers) -> JobForecast:
        usable = [node.node_id for node in self._rm.nodes.values() if node.usable]
        nodes = dict.fromkeys((*usable, *placement.orders))
        return replace(placement.rest, nodes=tuple(_at(node_id, placement, answers) for node_id in nodes))


def _at(node_id: str, placement: Placement, answers: Answers) -> NodeForecast:
    answer = answers.get(node_id)
    if answer is None:
        return NodeForecast(node_id, unknown=placement.granted.get(node_id, 0))
    first = answer.statuses[0] if answer.statuses else None
    return NodeForecast(
        node_id,
        placement.granted.get(node_id, 0) - answer.queued,
        answer.queued,
        max(0, first.position - 1) if first is not None else 0,
        tuple(replace(one, where=one.where or node_id) for one in first.why) if first is not None else (),
        answer.paused,
        answer.killed,
    )
