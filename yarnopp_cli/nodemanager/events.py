"""What happens to a NodeManager beyond its containers and its callers, and what it wants of the world.

Events in the past tense, commands in the imperative; frozen data without behaviour. A node has one connection to the
ResourceManager of its own, whose ``attempt_id`` is "", and one for each master that goes through its AMRMProxy, so that
the RM sees a master come and go. The connection that an event or command speaks of is the one that the last
ConnectUpstream with its ``attempt_id`` made; calls go out in the order of their commands.
"""

from __future__ import annotations

from typing import Any

from executor.light import dataclass

from ..errors import YoppError
from ..records.distributed_protocol import RegisterDistributedSchedulingAMResponse
from ..records.requests import Token

# -- connections to the ResourceManager ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConnectUpstream:
    """Make a connection. Ends in UpstreamConnected or UpstreamLost."""

    attempt_id: str = ""


@dataclass(frozen=True, slots=True)
class CallUpstream:
    """Call the RM. Ends in UpstreamAnswered, UpstreamRefused or UpstreamLost."""

    attempt_id: str
    sequence: int
    request: Any


@dataclass(frozen=True, slots=True)
class CloseUpstream:
    """Close the connection; nothing more is heard of it."""

    attempt_id: str


UpstreamCommand = ConnectUpstream | CallUpstream | CloseUpstream


@dataclass(frozen=True, slots=True)
class UpstreamConnected:
    """The connection asked for is there."""

    attempt_id: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamLost:
    """The connection could not be made, or has ended. Calls without an answer will have none."""

    attempt_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """The response to a call."""

    call: CallUpstream
    response: Any


@dataclass(frozen=True, slots=True)
class UpstreamRefused:
    """A call was answered with an error."""

    call: CallUpstream
    error: YoppError


UpstreamEvent = UpstreamConnected | UpstreamLost | UpstreamAnswered | UpstreamRefused

# -- the daemon ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeStopRequested:
    """Somebody wants this NM to end. With ``keep_containers`` its containers go on without it.

    A second request while it ends its containers kills what still runs.
    """

    reason: str
    keep_containers: bool = False


@dataclass(frozen=True, slots=True)
class AnnounceReady:
    """Tell whoever started this daemon that it serves. Once in its life."""


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """What the next life of this node needs to go on: the RM's token and terms. ``epoch`` counts the lives."""

    attempt_id: str
    token: Token
    terms: RegisterDistributedSchedulingAMResponse | None
    registered: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class StorePipelines:
    """Write these down, in place of all that was written before."""

    pipelines: tuple[StoredPipeline, ...]


ProxyCommand = UpstreamCommand | StorePipelines
"""What an AMRMProxy asks for, beside answers to calls."""
