"""ResourceTracker: the reports of a NodeManager to the ResourceManager, and the answers."""

from __future__ import annotations

from executor.light import Record, field
from executor.records import (
    ContainerQueuingLimit,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)

from .distributed_protocol import RemoteNode
from .explanation import Expected, Start, Unknown
from .methods import Request
from .reports import STAY
from .requests import Container, ContainerLaunchContext, Token


class RegisterNodeManagerRequest(Request["RegisterNodeManagerResponse"]):
    """Register a node. ``containers`` are the containers that it recovered from its previous process; ``address`` is
    the address on which it listens.
    """

    node_id: str
    address: str
    resource: Resource
    http_address: str = ""
    rack: str = "/default-rack"
    labels: tuple[str, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    running_applications: tuple[str, ...] = ()
    opportunistic: OpportunisticContainersStatus = OpportunisticContainersStatus()
    version: str = ""
    pid: int = 0


class RegisterNodeManagerResponse(Record):
    """``container_token_key`` (hex) verifies container tokens. ``action`` is NORMAL or SHUTDOWN (with diagnostics).

    ``containers_to_cleanup`` are reported containers that no application owns. The node sends ``secret`` in
    its heartbeats.
    """

    action: str
    cluster_timestamp: int = 0
    container_token_key: str = ""
    secret: str = ""
    containers_to_cleanup: tuple[str, ...] = ()
    applications_to_cleanup: tuple[str, ...] = ()
    diagnostics: str = ""
    heartbeat_interval_ms: int = 1000


class NodeHeartbeatRequest(Request["NodeHeartbeatResponse"]):
    """A node's news: the statuses that changed since the last answered heartbeat.

    Ended containers are repeated until ``NodeHeartbeatResponse.completed_acknowledged`` names them. The RM may hold
    the answer for up to ``wait_ms``, and answers at once when a newer heartbeat of the same node comes.
    ``response_id`` is the id of the last response received. ``http_address`` is the address of its pages, which may be
    known only after the registration. ``answers`` are the answers to questions in earlier responses.
    """

    node_id: str
    secret: str
    response_id: int
    containers: tuple[ContainerStatus, ...] = ()
    opportunistic: OpportunisticContainersStatus = OpportunisticContainersStatus()
    node_utilization: ResourceUtilization = ResourceUtilization()
    containers_utilization: ResourceUtilization = ResourceUtilization()
    running_applications: tuple[str, ...] = ()
    wait_ms: int = 0
    healthy: bool = True
    health_report: str = ""
    http_address: str = ""
    answers: tuple[NodeAnswer, ...] = ()


class ContainerToStart(Record):
    """A container that the RM itself starts: an application's master."""

    container: Container
    launch_context: ContainerLaunchContext
    application_id: str
    user: str = ""


class LaunchTemplate(Record):
    """The common part of the containers of one phase of a hosted master's job. Sent to a node once per connection, and
    kept there until the application has ended. ``number_variable`` names a variable for each task's number.
    """

    template_id: str
    application_id: str
    user: str
    context: ContainerLaunchContext
    number_variable: str = ""


class TaskToStart(Record):
    """A task of a hosted master, without the parts in its phase's template. ``arguments`` follow the command,
    ``variables`` are added to its environment.
    """

    container_id: str
    template_id: str
    number: int
    resource: Resource
    execution_type: ExecutionType
    priority: int = 0
    version: int = 0
    waiting_since_ms: int = 0
    duration_hint_ms: int = 0
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    application_priority: int = 0


class ApplicationPriority(Record):
    """The present priority of an application."""

    application_id: str
    priority: int


class ContainerToUpdate(Record):
    """A change that the RM itself delivers (``yarn.resourcemanager.auto-update.containers``)."""

    container_id: str
    version: int
    execution_type: ExecutionType
    resource: Resource
    token: Token


class NodeOrders(Record, kw_only=True):
    """What the ResourceManager has a node do with its containers.

    ``applications_to_cleanup`` have ended: their running containers are to be killed (-107). ``resource`` is the size
    that an administrator gave the node, None for none. ``guaranteed_awaited``: guaranteed containers wait for resources
    that other guaranteed ones hold here; None if unchanged. ``templates`` are the templates of ``tasks_to_start``
    that the node does not have. ``application_priorities`` are the changed ones.
    """

    containers_to_start: tuple[ContainerToStart, ...] = ()
    containers_to_cleanup: tuple[str, ...] = ()
    containers_to_update: tuple[ContainerToUpdate, ...] = ()
    applications_to_cleanup: tuple[str, ...] = ()
    completed_acknowledged: tuple[str, ...] = ()
    queuing_limit: ContainerQueuingLimit = ContainerQueuingLimit()
    resource: Resource | None = None
    guaranteed_awaited: bool | None = None
    templates: tuple[LaunchTemplate, ...] = ()
    tasks_to_start: tuple[TaskToStart, ...] = ()
    application_priorities: tuple[ApplicationPriority, ...] = ()


class ExpectedTimes(Record):
    """The expected running times of the containers of an application: ``expected``, and ``usual`` before any of its
    containers had begun. An empty id stands for every other application.
    """

    application_id: str
    expected: Expected
    usual: Expected


class Arrivals(Record):
    """``number`` equal containers of an application that are requested and not granted: the ResourceManager will send
    them to the node when there is room. ``mine``: the question is about them. ``is_master``: they end with their
    application.
    """

    number: int
    resource: Resource
    execution_type: ExecutionType
    application_id: str
    application_priority: int = 0
    duration_hint_ms: int = 0
    is_master: bool = False
    mine: bool = False


class NodeQuestion(Record):
    """A question of the ResourceManager, to which the node's next heartbeat has the answer with the same ``number``:
    why do the containers of ``about`` wait, and when do they start? ``about`` is the id of an application or of a
    container; "" means all containers of the node. ``times`` are expected running times. ``arrivals`` come later, in
    this order.

    With ``orders`` or ``pauses``: what would happen to containers of the application ``about``, and to others, if
    these orders came, and a user paused these containers?
    """

    number: int
    about: str = ""
    times: tuple[ExpectedTimes, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    orders: tuple[NodeOrders, ...] = ()
    pauses: tuple[str, ...] = ()


class NodeAnswer(Record):
    """The answer to the NodeQuestion ``number``.

    ``statuses`` are containers that do not run, each with its place and reasons: the first in order, the last, and the
    first paused one for each cause. ``waiting`` is the total number of waiting containers at the node. ``starts`` are
    the expected starts of the first and of the last waiting container, by id; ``unknown`` is the reason why there is
    none for the first. ``arrivals`` are the starts of the first and of the last of the arrivals that the question is
    about; the last, or both, are missing if they are unknown. ``failed`` is the reason why the node cannot answer.

    To a question with orders: the containers with the ids ``started`` would start or resume at once, ``queued`` of the
    application would wait, the first of which is in ``statuses``; those with the ids ``paused`` and ``killed`` would
    make room.
    """

    number: int
    statuses: tuple[ContainerStatus, ...] = ()
    waiting: int = 0
    starts: dict[str, Start] = field(default_factory=dict)
    unknown: Unknown | None = None
    arrivals: tuple[Start, ...] = ()
    failed: str = ""
    started: tuple[str, ...] = ()
    queued: int = 0
    paused: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()


class NodeHeartbeatResponse(NodeOrders):
    """``action`` is NORMAL, RESYNC (register again) or SHUTDOWN (end yourself; ``keep_containers`` says how).

    ``lifetime`` is the cluster's ("stay" or "on-demand"): a node of an on-demand cluster ends itself when its RM is
    gone for good. ``nodes_for_scheduling``, with distributed scheduling, are the least loaded nodes; None if unchanged.
    ``next_interval_ms`` is the longest time between heartbeats from now on, 0 if unchanged.
    """

    response_id: int
    action: str = "NORMAL"
    keep_containers: bool = False
    diagnostics: str = ""
    lifetime: str = STAY
    nodes_for_scheduling: tuple[RemoteNode, ...] | None = None
    next_interval_ms: int = 0
    questions: tuple[NodeQuestion, ...] = ()


class UnRegisterNodeManagerRequest(Request["UnRegisterNodeManagerResponse"]):
    """Unregister a node. With ``keep_containers`` its containers run on, and the next NM process recovers them."""

    node_id: str
    secret: str
    keep_containers: bool = False


class UnRegisterNodeManagerResponse(Record):
    """The node is unregistered."""
