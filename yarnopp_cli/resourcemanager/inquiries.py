"""Questions to nodes, and the calls that wait for the answers.

The RM sends a question with the answer to a held heartbeat of the node. The question therefore reaches the node at
once, and the node's next heartbeat, which follows at once, contains the answer. The answer of a node that is too slow
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from executor.light import replace

from ..errors import YoppError
from ..machine.calls import CallReceived
from ..records.tracker_protocol import NodeAnswer, NodeQuestion
from .context import RMContext
from .due import Due, DueKind

ANSWER_SECONDS = 2.0
"""Seconds that a call waits for the answers of nodes. A node with periodic heartbeats receives a question, and sends
the answer, one interval later each."""

Answers = Mapping[str, NodeAnswer]
"""The answers by node id; nodes that did not answer are missing."""


@dataclass(slots=True)
class _Inquiry:
    call: CallReceived
    respond: Callable[[Answers], Any]
    asked: dict[int, str]
    answers: dict[str, NodeAnswer] = field(default_factory=dict)


class Inquiries:
    """The waiting calls, by the number of their first question."""

    def __init__(self, context: RMContext) -> None:
        self._rm = context
        self._last_number = 0
        self._open: dict[int, _Inquiry] = {}

    def ask(
        self, call: CallReceived, questions: Mapping[str, NodeQuestion], respond: Callable[[Answers], Any]
    ) -> Any:
        """Send questions to nodes, by node id; ``respond`` makes the answer of the call from the nodes' answers.
        Returns this answer at once if none of the nodes is connected."""
        asked: dict[int, str] = {}
        for node_id, question in questions.items():
            node = self._rm.nodes.get(node_id)
            if node is not None and node.connected:
                self._last_number += 1
                asked[self._last_number] = node_id
                node.questions.append(replace(question, number=self._last_number))
                self._rm.news_for_node(node)
        if not asked:
            return respond({})
        first = next(iter(asked))
        self._open[first] = _Inquiry(call, respond, asked)
        beats = 0 if self._rm.heartbeat_wait else 2 * self._rm.settings.heartbeat_interval_ms / 1000
        self._rm.deadlines.set(Due(DueKind.INQUIRY, str(first)), self._rm.now + ANSWER_SECONDS + beats)
        return None

    def answered(self, node_id: str, answer: NodeAnswer) -> None:
        """A node has answered a question; drop the answer if no call waits for it any more."""
        for first, one in self._open.items():
            if one.asked.get(answer.number) == node_id:
                del one.asked[answer.number]
                if not answer.failed:
                    one.answers[node_id] = answer
                if not one.asked:
                    self._close(first)
                return

    def time_is_over(self, first: str) -> None:
        """The wait of the call has expired: the answers of the remaining nodes are unknown."""
        if int(first) in self._open:
            self._close(int(first))

    def connection_lost(self, connection_id: int) -> None:
        """Forget the calls of a connection that was lost."""
        for first in [first for first, one in self._open.items() if one.call.connection_id == connection_id]:
            self._forget(first)

    def _close(self, first: int) -> None:
        one = self._forget(first)
        try:
            self._rm.reply(one.call.call_id, one.respond(one.answers))
        except YoppError as error:
            self._rm.refuse(one.call.call_id, error)

    def _forget(self, first: int) -> _Inquiry:
        self._rm.deadlines.clear(Due(DueKind.INQUIRY, str(first)))
        return self._open.pop(first)
