"""A master's side of the ContainerManagementProtocol (YARN's ``NMClient``): it starts granted
containers. Pure.

Starts are batched by node. Starts, updates and stops are repeated while a node cannot be reached. ``NodeNews``
makes notices about changes of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from executor.light import replace

from ..records.container_protocol import (
    StartContainerRequest,
    StartContainersRequest,
    StopContainersRequest,
    UpdateContainersRequest,
)
from ..records.methods import MOST_TEXT
from ..records.reports import DRAINED, NodeReport, NodeState
from ..records.requests import ContainerLaunchContext
from .ends import Loss
from .lengths import length, length_of
from .messages import CallNode, StartTasks
from .tasks import Task

BATCH = 100
"""The most containers of one startContainers call."""

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 10.0
"""The pause between calls to an unreachable node, and how long to try: it may return with its containers."""


class Starts:
    """Containers that must be started at their nodes. ``is_wanted`` says whether a container still
    belongs to its task.

    A ``hosted`` master hands its tasks to the ResourceManager, which starts them at their nodes.
    """

    def __init__(self, is_wanted: Callable[[str], bool], *, hosted: bool = False) -> None:
        self._is_wanted = is_wanted
        self._hosted = hosted
        self._ready: list[Task] = []
        self._retries: list[tuple[float, CallNode]] = []
        self._lost: dict[str, Loss] = {}
        self._sizes: dict[int, int] = {}

    def add(self, task: Task) -> None:
        """Add a task that now has a container."""
        self._ready.append(task)

    def clear(self) -> None:
        """Start nothing more."""
        self._ready.clear()
        self._retries.clear()

    def next_deadline(self) -> float | None:
        """When a start must be retried; None for never."""
        return min((due for due, _ in self._retries), default=None)

    def take(self, now: float) -> Sequence[CallNode | StartTasks]:
        """The calls to make now: one per node, or several for many containers."""
        if not self._ready and not self._retries:
            return ()
        calls = [self._filtered(call) for due, call in self._retries if due <= now]
        self._retries = [retry for retry in self._retries if retry[0] > now]
        by_node: dict[tuple[str, str], list[Task]] = {}
        for task in self._ready:
            container = task.container
            if container is not None and self._is_wanted(container.id):
                by_node.setdefault((container.node_id, container.node_address), []).append(task)
        self._ready.clear()
        if self._hosted:
            return [StartTasks(node_id, tuple(tasks)) for (node_id, _), tasks in by_node.items()]
        for (node_id, address), tasks in by_node.items():
            size = max(1, min(BATCH, MOST_TEXT // max(self._size_of(task) for task in tasks)))
            calls += [
                _call(node_id, address, tasks[start : start + size]) for start in range(0, len(tasks), size)
            ]
        return [call for call in calls if call.container_ids]

    def reached(self, address: str) -> None:
        """A node has answered: forget since when it was unreachable."""
        self._lost.pop(address, None)

    def unreachable(self, call: CallNode, now: float) -> bool:
        """A node could not be reached.

        Returns True if the call will be retried, False if the node has been unreachable for too long and the
        call is given up.
        """
        if not self._lost.setdefault(call.node_address, Loss(PATIENCE_SECONDS)).lasts(now):
            del self._lost[call.node_address]
            return False
        self._retries.append((now + RETRY_SECONDS, call))
        return True

    def _filtered(self, call: CallNode) -> CallNode:
        if isinstance(call.request, UpdateContainersRequest):  # an update is for one container
            return call if all(map(self._is_wanted, call.container_ids)) else replace(call, container_ids=())
        if isinstance(call.request, StopContainersRequest):
            left = tuple(filter(self._is_wanted, call.container_ids))
            return replace(call, request=replace(call.request, container_ids=left), container_ids=left)
        assert isinstance(call.request, StartContainersRequest)
        pairs = [
            (container_id, request)
            for container_id, request in zip(call.container_ids, call.request.containers, strict=True)
            if self._is_wanted(container_id)
        ]
        requests = StartContainersRequest(tuple(request for _, request in pairs))
        return replace(call, request=requests, container_ids=tuple(name for name, _ in pairs))

    def _size_of(self, task: Task) -> int:
        phase, (arguments, variables) = task.phase, task.launch
        if task.phase_index not in self._sizes:
            self._sizes[task.phase_index] = 2000 + length_of(phase.context)
        return self._sizes[task.phase_index] + length((*arguments, *variables.values()))


def _call(node_id: str, address: str, tasks: list[Task]) -> CallNode:
    pairs = [(task.container, task) for task in tasks]
    requests = [StartContainerRequest(c.token, _context(task)) for c, task in pairs if c is not None]
    return CallNode(
        node_id,
        address,
        StartContainersRequest(tuple(requests)),
        tuple(container.id for container, _ in pairs if container is not None),
    )


def _context(task: Task) -> ContainerLaunchContext:
    phase, spec = task.phase, task.spec
    arguments, variables = task.launch
    return phase.context.for_task(
        phase.number_variable, task.shown_number, arguments, spec.duration_hint_ms, variables
    )


class NodeNews:
    """The nodes reported to the user as gone; ``sentence`` is for users only."""

    def __init__(self) -> None:
        self._gone: set[str] = set()

    def sentence(self, report: NodeReport) -> str:
        """The notice about a changed node; "" for none."""
        node_id = report.node_id
        if report.connected and report.state is NodeState.RUNNING:
            was_gone = node_id in self._gone
            self._gone.discard(node_id)
            return f"node {node_id} answers again" if was_gone else ""
        self._gone.add(node_id)
        if report.state is NodeState.RUNNING:
            return (
                f"node {node_id} does not answer: its containers keep running, new ones wait; "
                "`yopp up` starts it again"
            )
        if report.state is NodeState.UNHEALTHY:
            return f"node {node_id} is unhealthy and gets no new containers: {report.health_report}"
        if report.state in DRAINED:
            return f"node {node_id} is drained: its containers keep running, it gets no new ones"
        return f"node {node_id} is lost: its containers run again on other nodes"
