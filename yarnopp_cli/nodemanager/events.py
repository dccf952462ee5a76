"""Events and commands of a NodeManager, beside those of its containers and its calls.

Events are in the past tense, commands in the imperative; both are frozen data without behaviour. A node has one
connection to the ResourceManager of its own, whose ``attempt_id`` is "", and one for each master that uses its
AMRMProxy, so that the RM notices the connection and disconnection of a master. An event or command refers to the
connection that the last ConnectUpstream with its ``attempt_id`` made; calls are sent in the order of their commands.
"""

from __future__ import annotations

from typing import Any

from executor.core import commands as executor_commands
from executor.core import events as executor_events
from executor.light import Record

from ..errors import YoppError
from ..machine.calls import CallReceived, ConnectionLost, PagesServed, Reply, ReplyError, StopDaemon
from ..records.distributed_protocol import RegisterDistributedSchedulingAMResponse
from ..records.requests import Token
from ..records.tracker_protocol import NodeAnswer, NodeQuestion

# -- connections to the ResourceManager ------------------------------------------------------------------------------


class ConnectUpstream(Record):
    """Make a connection. Ends in UpstreamConnected or UpstreamLost."""

    attempt_id: str = ""


class CallUpstream(Record):
    """Call the RM. Ends in UpstreamAnswered, UpstreamRefused or UpstreamLost."""

    attempt_id: str
    sequence: int
    request: Any


class CloseUpstream(Record):
    """Close the connection; no further event refers to it."""

    attempt_id: str


UpstreamCommand = ConnectUpstream | CallUpstream | CloseUpstream


class UpstreamConnected(Record):
    """The requested connection is established."""

    attempt_id: str = ""


class UpstreamLost(Record):
    """The connection could not be made, or has ended. Calls without an answer will have none."""

    attempt_id: str
    reason: str


class UpstreamAnswered(Record):
    """The response to a call."""

    call: CallUpstream
    response: Any


class UpstreamRefused(Record):
    """A call was answered with an error."""

    call: CallUpstream
    error: YoppError


UpstreamEvent = UpstreamConnected | UpstreamLost | UpstreamAnswered | UpstreamRefused

# -- the daemon ------------------------------------------------------------------------------------------------------


class NodeStopRequested(Record):
    """The end of this NM was requested. With ``keep_containers`` its containers run on without it.

    A second request while it ends its containers kills the remaining ones.
    """

    reason: str
    keep_containers: bool = False


class AnnounceReady(Record):
    """Report to the process that started this daemon that it is ready. Emitted once."""


class StoredPipeline(Record):
    """The state of an attempt's pipeline that the next NM process needs: the RM's token and terms. ``epoch`` counts
    the NM processes."""

    attempt_id: str
    token: Token
    terms: RegisterDistributedSchedulingAMResponse | None
    registered: bool
    epoch: int


class StorePipelines(Record):
    """Store these records; they replace all earlier ones."""

    pipelines: tuple[StoredPipeline, ...]


ProxyCommand = UpstreamCommand | StorePipelines
"""The commands of an AMRMProxy, beside answers to calls."""


class AnswerByCopy(Record):
    """Answer a question of the ResourceManager, or of the call ``call_id``, from a copy of this machine. Ends in
    CopyAnswered."""

    question: NodeQuestion
    call_id: int | None = None


class CopyAnswered(Record):
    """The answer, for the call or for the next heartbeat."""

    answer: NodeAnswer
    call_id: int | None = None


# -- all -------------------------------------------------------------------------------------------------------------

Event = (
    executor_events.Event
    | CallReceived
    | ConnectionLost
    | PagesServed
    | UpstreamEvent
    | NodeStopRequested
    | CopyAnswered
)
"""All events of a NodeManager."""

Command = (
    executor_commands.Command | Reply | ReplyError | StopDaemon | AnnounceReady | AnswerByCopy | ProxyCommand
)
"""All commands of a NodeManager."""
