"""DistributedSchedulingAMProtocol: what a node's DistributedScheduler asks of the ResourceManager for a master.

ApplicationMasterProtocol with two additions: the containers that were allocated at the node go to the RM, and the
least loaded nodes of the cluster come back.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import Resource

from .master_protocol import (
    AllocateRequest,
    AllocateResponse,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from .methods import Request
from .requests import Container


class RemoteNode(Record):
    """A node to which containers may be allocated (YARN's record), with its load.

    ``free`` is what neither guaranteed nor opportunistic containers hold of it, ``queue_length`` the number
    of containers queued there, ``queue_room`` how many more opportunistic ones may be queued. ``address`` is
    where its NM listens.
    """

    node_id: str
    address: str
    rack: str = "/default-rack"
    labels: tuple[str, ...] = ()
    total: Resource = Resource()
    free: Resource = Resource()
    queue_length: int = 0
    queue_room: int = 0
    http_address: str = ""


class RegisterDistributedSchedulingAMRequest(
    Request["RegisterDistributedSchedulingAMResponse"],
    method="registerApplicationMasterForDistributedScheduling",
):
    """The master's own request, forwarded with the RM's token."""

    request: RegisterApplicationMasterRequest


class RegisterDistributedSchedulingAMResponse(Record):
    """The rules to allocate by: sizes between ``minimum`` and ``maximum`` in steps of ``increment``.

    Tokens are valid for ``container_token_expiry_ms``; ids count down from ``container_id_start``. ``user``
    owns the containers.
    """

    response: RegisterApplicationMasterResponse
    minimum: Resource
    maximum: Resource
    increment: Resource
    container_token_expiry_ms: int
    container_id_start: int
    user: str = ""
    nodes_for_scheduling: tuple[RemoteNode, ...] = ()


class DistributedSchedulingAllocateRequest(
    Request["DistributedSchedulingAllocateResponse"], method="allocateForDistributedScheduling"
):
    """``allocated_containers`` were allocated at the node; they are repeated until a request that contained
    them is answered.
    """

    request: AllocateRequest
    allocated_containers: tuple[Container, ...] = ()


class DistributedSchedulingAllocateResponse(Record):
    """``nodes_for_scheduling`` takes every container of the answered request into account, and replaces the
    previous list.
    """

    response: AllocateResponse
    nodes_for_scheduling: tuple[RemoteNode, ...] = ()
