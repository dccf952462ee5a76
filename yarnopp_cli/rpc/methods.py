"""The methods that each daemon answers: the requests of the protocol modules. Pure data; imports no codec."""

from __future__ import annotations

from types import ModuleType

from ..records import (
    admin_protocol,
    client_protocol,
    container_protocol,
    distributed_protocol,
    explanation,
    foretell_protocol,
    history,
    job_protocol,
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


NM_METHODS = methods_of(container_protocol, foretell_protocol)
"""The methods of a NodeManager, for masters and users."""

PROXY_METHODS = methods_of(master_protocol)
"""The methods of a node's AMRMProxy, for masters only."""

RM_METHODS = methods_of(
    client_protocol,
    job_protocol,
    admin_protocol,
    history,
    explanation,
    scheduler_protocol,
    master_protocol,
    tracker_protocol,
    distributed_protocol,
)
"""The methods of the ResourceManager, for clients, masters and nodes, on one socket."""
