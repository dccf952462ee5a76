"""What happens to an AMRMProxy beyond its callers, and what it wants of the world.

Each attempt has one connection to the RM of its own, so that the RM sees a master come and go. The connection that an
event or command speaks of is the one that the attempt's last ConnectUpstream made.
"""

from __future__ import annotations

from typing import Any

from executor.light import dataclass

from ...errors import YoppError
from ...records.distributed_protocol import RegisterDistributedSchedulingAMResponse
from ...records.methods import Request
from ...records.requests import Token


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """What the next life of this node needs to go on: the RM's token and terms. ``epoch`` counts the lives."""

    attempt_id: str
    token: Token
    terms: RegisterDistributedSchedulingAMResponse | None
    registered: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class UpstreamConnected:
    """An attempt's connection to the RM is there."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class UpstreamLost:
    """It could not be made, or has ended. Calls without an answer will have none."""

    attempt_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """The answer to the CallUpstream of that ``sequence``."""

    attempt_id: str
    sequence: int
    response: Any


@dataclass(frozen=True, slots=True)
class UpstreamRefused:
    """That CallUpstream was answered with an error."""

    attempt_id: str
    sequence: int
    error: YoppError


ProxyEvent = UpstreamConnected | UpstreamLost | UpstreamAnswered | UpstreamRefused


@dataclass(frozen=True, slots=True)
class ConnectUpstream:
    """Make a connection to the RM. Ends in UpstreamConnected or UpstreamLost."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class CallUpstream:
    """Call the RM. Ends in UpstreamAnswered, UpstreamRefused or UpstreamLost."""

    attempt_id: str
    sequence: int
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class CloseUpstream:
    """Close the connection; nothing more is heard of it."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class StorePipelines:
    """Write these down, in place of all that was written before."""

    pipelines: tuple[StoredPipeline, ...]


ProxyCommand = ConnectUpstream | CallUpstream | CloseUpstream | StorePipelines
