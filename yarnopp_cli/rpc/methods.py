"""Which methods each daemon answers: the requests of the protocols' modules. Pure data; imports no codec."""

from __future__ import annotations

from types import ModuleType

from ..records import (
    admin_protocol,
    client_protocol,
    container_protocol,
    distributed_protocol,
    explanation,
    history,
    master_protocol,
    scheduler_protocol,
    tracker_protocol,
)
from ..records.methods import Methods, Request


def methods_of(*protocols: ModuleType) -> Methods:
    """The requests that these modules declare, by their methods."""
    declared = [
        kind
        for protocol in protocols
        for kind in vars(protocol).values()
        if isinstance(kind, type) and issubclass(kind, Request) and kind.__module__ == protocol.__name__
    ]
    methods = {kind.METHOD: kind for kind in declared}
    assert len(methods) == len(declared), "two requests share a method's name"
    return methods


NM_METHODS = methods_of(container_protocol)
"""What a NodeManager answers: masters and people."""

PROXY_METHODS = methods_of(master_protocol)
"""What a node's AMRMProxy answers: masters only."""

RM_METHODS = methods_of(
    client_protocol,
    admin_protocol,
    history,
    explanation,
    scheduler_protocol,
    master_protocol,
    tracker_protocol,
    distributed_protocol,
)
"""What the ResourceManager answers: clients, masters and nodes, on one socket."""
