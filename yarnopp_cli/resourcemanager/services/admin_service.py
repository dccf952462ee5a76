"""Calls of administrators: drain and resize nodes (YARN's ``AdminService``).

A draining node is DECOMMISSIONING: no container is scheduled on it, and its containers continue. When it is empty, it
is DECOMMISSIONED. Unlike in YARN, its process keeps running, and it can be resumed at once.

Decisions: drain-keeps-process.
"""

from __future__ import annotations

from executor.causes import Cause, CauseKind
from executor.light import replace
from executor.records import Resource

from ...errors import InvalidResourceRequestError, InvalidStateError
from ...records import admin_protocol as admin
from ...records.history import EventKind
from ...records.reports import DRAINED, GONE, NodeState
from ..container_ledger import ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import RMNode
from ..lives import NodeEvent

LARGEST_NODE = Resource(2**31 - 1, 2**31 - 1)
DRAINED_TEXT = "its node is being drained"


class AdminService:
    """Answers administrators. ``check`` notices empty draining nodes at the end of each step."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger

    def drain(self, request: admin.DrainNodesRequest) -> admin.NodesResponse:
        """Begin to drain nodes; a repeated call only resets the time."""
        nodes = [self._present(node_id, "cannot be drained") for node_id in request.node_ids]
        containers = sum(len(node.containers) for node in nodes)
        for node in () if request.dry_run else nodes:
            self._drain(node, request.timeout_ms)
        return self._answer(nodes, NodeState.DECOMMISSIONING if request.dry_run else None, containers)

    def _answer(
        self, nodes: list[RMNode], as_if: NodeState | None, containers: int = 0
    ) -> admin.NodesResponse:
        """The reports of the nodes; with ``as_if``, as if they were in this state."""
        reports = map(self._rm.node_report, nodes)
        return admin.NodesResponse(
            tuple(replace(one, state=as_if or one.state) for one in reports), containers
        )

    def _drain(self, node: RMNode, timeout_ms: int) -> None:
        if node.state is NodeState.DECOMMISSIONED:
            return
        if node.state is not NodeState.DECOMMISSIONING:
            self._rm.move(node, NodeEvent.DRAIN)
            self._rm.draining[node.node_id] = node
            self._rm.monitor.remove(node.node_id)
            numbers = {"containers": len(node.containers)}
            self._rm.history.add(EventKind.NODE_DRAINING, node=node.node_id, numbers=numbers)
            self._rm.nodes_changed(node)
        self._rm.deadlines.clear(Due(DueKind.DRAIN, node.node_id))
        if timeout_ms >= 0:
            self._rm.deadlines.set(Due(DueKind.DRAIN, node.node_id), self._rm.now + timeout_ms / 1000)

    def drain_is_over(self, node_id: str) -> None:
        """The time for the containers of a draining node has passed."""
        if (node := self._rm.draining.get(node_id)) is not None:
            for container in list(node.containers.values()):
                cause = Cause(CauseKind.NODE_DRAINED)
                self._ledger.end_at_node(container, cause, f"Container ended: {DRAINED_TEXT}")

    def check(self) -> None:
        """Draining nodes without containers become DECOMMISSIONED."""
        for node in [one for one in self._rm.draining.values() if not one.containers]:
            del self._rm.draining[node.node_id]
            self._rm.deadlines.clear(Due(DueKind.DRAIN, node.node_id))
            if node.state is NodeState.DECOMMISSIONING:
                self._rm.move(node, NodeEvent.DRAINED)
                self._rm.scheduler.remove_node(node)
                self._rm.history.add(EventKind.NODE_DRAINED, node=node.node_id)
                self._rm.nodes_changed(node)

    def resume(self, request: admin.ResumeNodesRequest) -> admin.NodesResponse:
        """Resume drained nodes; a node in use stays as it is."""
        start = "yopp nm start {port}"
        nodes = [self._present(node_id, "cannot be resumed", start) for node_id in request.node_ids]
        for node in () if request.dry_run else nodes:
            self._resume(node)
        return self._answer(nodes, NodeState.RUNNING if request.dry_run else None)

    def _resume(self, node: RMNode) -> None:
        if node.state not in DRAINED:
            return
        if node.state is NodeState.DECOMMISSIONED:
            self._rm.scheduler.add_node(node)
        self._rm.draining.pop(node.node_id, None)
        self._rm.deadlines.clear(Due(DueKind.DRAIN, node.node_id))
        self._rm.move(node, NodeEvent.RECOMMISSION)
        if node.usable:
            self._rm.monitor.update(node.load)
        self._rm.changes.guaranteed = True
        self._rm.history.add(EventKind.NODE_RESUMED, node=node.node_id)
        self._rm.nodes_changed(node)

    def resize(self, request: admin.UpdateNodeResourceRequest) -> admin.NodesResponse:
        """Change the sizes of nodes: of all of them, or of none if one cannot be changed."""
        sizes = {name: self._possible(name, size) for name, size in request.sizes.items()}
        before = {node.node_id: node.total for node in self._rm.nodes.values() if node.state not in GONE}
        warnings: tuple[str, ...] = ()
        if self._rm.host is not None:
            promised = (sum(totals.values(), Resource()) for totals in (before, before | sizes))
            warnings = self._rm.host.change(*promised)
        reports = [replace(self._rm.node_report(self._rm.nodes[name]), total=sizes[name]) for name in sizes]
        for name, size in () if request.dry_run else sizes.items():
            was = before[name]
            if size != was:
                self._resize(self._rm.nodes[name], size)
                numbers = {"memoryMB": size.memory, "vcores": size.vcores}
                words = {"was": f"{was.memory} MB, {was.vcores} vcores"}
                self._rm.history.add(EventKind.NODE_RESIZED, node=name, words=words, numbers=numbers)
        return admin.NodesResponse(tuple(reports), warnings=warnings)

    def _possible(self, node_id: str, size: Resource) -> Resource:
        """The new size of a node; countable resources that the request does not name are unchanged. Raises YoppError
        for an unknown node and for an impossible size."""
        node = self._present(node_id, "cannot be resized")
        if not size.others:
            size = replace(size, others=node.total.others)
        settings = self._rm.settings
        least = Resource(
            max(settings.minimum_allocation_mb, admin.SMALLEST_NODE_MB),
            max(1, settings.minimum_allocation_vcores),
        )
        if not least.fits_in(size):
            raise InvalidResourceRequestError(
                f"a node of {size} could not run any useful container",
                because=f"the smallest node has {least}",
                hint=f"--memory {least.memory} and --vcores {least.vcores} at least",
            )
        if not replace(size, others=()).fits_in(LARGEST_NODE):
            raise InvalidResourceRequestError(
                f"a node cannot have {size}",
                because=f"the largest possible size is {LARGEST_NODE}",
                hint="`yopp doctor` shows this host's resources",
            )
        return size

    def _resize(self, node: RMNode, size: Resource) -> None:
        counted = node.node_id in self._rm.scheduler.nodes
        if counted:
            self._rm.scheduler.remove_node(node)
        node.load.total = size
        node.load.recompute()
        if counted:
            self._rm.scheduler.add_node(node)
            self._rm.changes.guaranteed = True
        node.resized = True
        # Otherwise the answer to the next heartbeat carries the new size.
        node.answer_due = node.held is not None
        self._rm.monitor.refresh(node.load)
        self._rm.news_for_node(node)
        self._rm.nodes_changed(node)

    def _present(
        self, node_id: str, refusal: str, hint: str = "`yopp node list` shows those that are running"
    ) -> RMNode:
        """A node that is part of the cluster. Raises NodeNotFoundError, InvalidStateError."""
        node = self._rm.node(node_id)
        if node.state in GONE:
            raise InvalidStateError(
                f"{node_id} {refusal}",
                because=f"it is {node.state.value}",
                hint=hint.format(port=node_id.rpartition(":")[2]),
            )
        return node
