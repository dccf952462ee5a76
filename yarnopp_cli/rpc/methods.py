"""Which methods each daemon answers: the protocols' tables, merged. Pure data; imports no codec."""

from __future__ import annotations

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
from .wire import Methods


def _merge(*tables: Methods) -> Methods:
    merged: Methods = {}
    for table in tables:
        assert not merged.keys() & table.keys(), "two protocols share a method's name"
        merged.update(table)
    return merged


RM_METHODS: Methods = _merge(
    client_protocol.METHODS,
    admin_protocol.METHODS,
    history.METHODS,
    explanation.METHODS,
    scheduler_protocol.METHODS,
    master_protocol.METHODS,
    tracker_protocol.METHODS,
    distributed_protocol.METHODS,
)
"""What the ResourceManager answers: clients, masters and nodes, on one socket."""

NM_METHODS: Methods = _merge(container_protocol.METHODS)
"""What a NodeManager answers: masters and people."""

PROXY_METHODS: Methods = _merge(master_protocol.METHODS)
"""What a node's AMRMProxy answers: masters only."""

METHODS: Methods = _merge(RM_METHODS, NM_METHODS)
"""All of them: no two protocols share a method's name."""
