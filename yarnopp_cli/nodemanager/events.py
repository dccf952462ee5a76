"""What happens to a NodeManager beyond its containers and its callers, and what it wants of its
ResourceManager.

Events in the past tense, commands in the imperative; frozen data without behaviour. The shell performs the
commands on one connection, in order; the connection it has is the one that the last ConnectToResourceManager
made.
"""

from __future__ import annotations

from executor.light import dataclass

from ..errors import YoppError
from ..records.tracker_protocol import (
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    UnRegisterNodeManagerRequest,
)


@dataclass(frozen=True, slots=True)
class ResourceManagerConnected:
    """The connection asked for is there."""


@dataclass(frozen=True, slots=True)
class ResourceManagerLost:
    """The connection could not be made, or has ended. Calls without an answer will have none."""

    reason: str


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """The answer to RegisterNode; ``response.action`` may still be SHUTDOWN."""

    response: RegisterNodeManagerResponse


@dataclass(frozen=True, slots=True)
class NodeRegistrationRefused:
    """RegisterNode was answered with an error."""

    error: YoppError


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The answer to the SendHeartbeat of that ``sequence``."""

    sequence: int
    response: NodeHeartbeatResponse


@dataclass(frozen=True, slots=True)
class HeartbeatRefused:
    """The SendHeartbeat of that ``sequence`` was answered with an error."""

    sequence: int
    error: YoppError


@dataclass(frozen=True, slots=True)
class NodeUnregistered:
    """The RM knows that this node ends, or refused to hear it: either way there is nothing more to say."""


@dataclass(frozen=True, slots=True)
class NodeStopRequested:
    """Somebody wants this NM to end. With ``keep_containers`` its containers go on without it.

    A second request while it ends its containers kills what still runs.
    """

    reason: str
    keep_containers: bool = False


NodeEvent = (
    ResourceManagerConnected
    | ResourceManagerLost
    | NodeRegistered
    | NodeRegistrationRefused
    | HeartbeatAnswered
    | HeartbeatRefused
    | NodeUnregistered
    | NodeStopRequested
)
"""What only a NodeManager is told, beside container events and calls."""


@dataclass(frozen=True, slots=True)
class ConnectToResourceManager:
    """Make a connection. Ends in ResourceManagerConnected or ResourceManagerLost."""


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """Call registerNodeManager. Ends in NodeRegistered, NodeRegistrationRefused or ResourceManagerLost."""

    request: RegisterNodeManagerRequest


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Call nodeHeartbeat. Ends in HeartbeatAnswered, HeartbeatRefused or ResourceManagerLost."""

    sequence: int
    request: NodeHeartbeatRequest


@dataclass(frozen=True, slots=True)
class UnregisterNode:
    """Call unRegisterNodeManager. Ends in NodeUnregistered or ResourceManagerLost."""

    request: UnRegisterNodeManagerRequest


@dataclass(frozen=True, slots=True)
class AnnounceReady:
    """Tell whoever started this daemon that it serves. Once in its life."""


NodeCommand = ConnectToResourceManager | RegisterNode | SendHeartbeat | UnregisterNode | AnnounceReady
"""What only a NodeManager asks for, beside the executor's commands and answers to calls."""
