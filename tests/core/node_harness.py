"""What a NodeManager's machine is told of its own connection to the ResourceManager, in short."""

from __future__ import annotations

from typing import Any

from yarnopp_cli.errors import YoppError
from yarnopp_cli.nodemanager.events import (
    CallUpstream,
    ConnectUpstream,
    UpstreamAnswered,
    UpstreamConnected,
    UpstreamLost,
    UpstreamRefused,
)
from yarnopp_cli.records.tracker_protocol import UnRegisterNodeManagerResponse

CONNECT = ConnectUpstream("")
CONNECTED = UpstreamConnected("")
UNREGISTERED = UpstreamAnswered(CallUpstream("", 0, None), UnRegisterNodeManagerResponse())


def lost(reason: str) -> UpstreamLost:
    """The connection could not be made, or has ended."""
    return UpstreamLost("", reason)


def answered(response: Any, sequence: int = 0) -> UpstreamAnswered:
    """The RM's answer."""
    return UpstreamAnswered(CallUpstream("", sequence, None), response)


def refused(call: CallUpstream, error: YoppError) -> UpstreamRefused:
    """The RM's refusal."""
    return UpstreamRefused(call, error)
