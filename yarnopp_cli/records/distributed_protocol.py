"""DistributedSchedulingAMProtocol: the calls that a node's DistributedScheduler makes to the ResourceManager for a
master.

ApplicationMasterProtocol with two additions: requests report the containers that were allocated at the node, and
responses list the least loaded nodes of the cluster.
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

    ``free`` are the resources that neither guaranteed nor opportunistic containers hold, ``queue_length`` is the
    number of containers queued there, ``queue_room`` the number of opportunistic containers that may still be queued.
    ``address`` is the address on which its NM listens.
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
    """The rules of allocation: sizes between ``minimum`` and ``maximum`` in steps of ``increment``.

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
