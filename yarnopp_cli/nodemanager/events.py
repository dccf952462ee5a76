"""What happens to a NodeManager beyond its containers and its callers, and what it wants of the world.

Events in the past tense, commands in the imperative; frozen data without behaviour. A node has one connection to the
ResourceManager of its own, whose ``attempt_id`` is "", and one for each master that goes through its AMRMProxy, so that
the RM sees a master come and go. The connection that an event or command speaks of is the one that the last
ConnectUpstream with its ``attempt_id`` made; calls go out in the order of their commands.
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
    """Close the connection; nothing more is heard of it."""

    attempt_id: str


UpstreamCommand = ConnectUpstream | CallUpstream | CloseUpstream


class UpstreamConnected(Record):
    """The connection asked for is there."""

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
    """The end of this NM was requested. With ``keep_containers`` its containers go on without it.

    A second request while it ends its containers kills what still runs.
    """

    reason: str
    keep_containers: bool = False


class AnnounceReady(Record):
    """Tell the process that started this daemon that it serves. Emitted once."""


class StoredPipeline(Record):
    """What the next life of this node needs to go on: the RM's token and terms. ``epoch`` counts the lives."""

    attempt_id: str
    token: Token
    terms: RegisterDistributedSchedulingAMResponse | None
    registered: bool
    epoch: int


class StorePipelines(Record):
    """Write these down, in place of all that was written before."""

    pipelines: tuple[StoredPipeline, ...]


ProxyCommand = UpstreamCommand | StorePipelines
"""What an AMRMProxy asks for, beside answers to calls."""


class AnswerByCopy(Record):
    """Answer a question of the ResourceManager from a copy of this machine. Ends in CopyAnswered."""

    question: NodeQuestion


class CopyAnswered(Record):
    """The answer, for the next heartbeat."""

    answer: NodeAnswer


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
"""Everything a NodeManager may be told."""

Command = (
    executor_commands.Command | Reply | ReplyError | StopDaemon | AnnounceReady | AnswerByCopy | ProxyCommand
)
"""Everything a NodeManager may answer with."""
