"""A NodeManager's pages at YARN's addresses: /node, its containers, one container, logs that follow."""

from __future__ import annotations

import asyncio
import os
import time

from aiohttp import web

from executor.records import ContainerExitStatus, Resource

from ...errors import YoppError
from ...records.client_protocol import GetClusterInfoRequest
from ...records.container_protocol import GetNodeInfoResponse
from ...records.ids import ContainerId
from ...views import containers as container_view
from ...views.rest.node import by_application
from ...views.text import harmless, megabytes, span
from .. import logs
from ..calls import call_daemon
from ..data import RM_SECONDS, NodeData, now_ms
from ..http import bad_request, not_found, require_owner
from .frame import page, static_routes
from .html import Html, facts, join, link, moment, path, section, state, table, tag, tiles
from .tables import containers_table, kind, resource_tiles

NAVIGATION = (
    ("Node", "/node"),
    ("Containers", "/node/allContainers"),
    ("Applications", "/node/allApplications"),
)
TAIL_BYTES = 64 * 1024
"""How much of a log's end is shown at first."""
CHUNK_BYTES = 256 * 1024
"""How much of it is sent at once: a line of 50 MB comes in pieces."""
ENDED = "X-Log-Ended"
CACHE_SECONDS = 10.0


class NodePages:
    """Renders what ``data`` tells."""

    def __init__(self, data: NodeData) -> None:
        self._data = data
        self._cluster: tuple[float, str] = (float("-inf"), "")

    def routes(self) -> list[web.RouteDef]:
        """YARN's addresses."""
        return [
            *static_routes("/node"),
            web.get("/node", self.node),
            web.get("/node/node", self.node),
            web.get("/node/allContainers", self.containers),
            web.get("/node/allApplications", self.applications),
            web.get("/node/application/{app}", self.application),
            web.get("/node/container/{container}", self.container),
            web.get("/node/containerlogs/{container}", self.log_files),
            web.get("/node/containerlogs/{container}/{user}", self.log_files),
            web.get("/node/containerlogs/{container}/{user}/{file}", self.log),
        ]

    async def _navigation(self) -> tuple[tuple[str, str], ...]:
        """The node's pages, and the way back to its cluster's."""
        asked_at, address = self._cluster
        now = time.monotonic()
        if now - asked_at > CACHE_SECONDS:
            try:
                rm_socket = self._data.run_dir.rm_socket
                answer = await call_daemon(rm_socket, GetClusterInfoRequest(), RM_SECONDS)
                address = answer.info.http_address
            except YoppError:
                address = ""
            self._cluster = (now, address)
        return (*NAVIGATION, ("Cluster", f"http://{address}/cluster/nodes")) if address else NAVIGATION

    async def node(self, request: web.Request) -> web.StreamResponse:
        """The node."""
        info = await self._data.info()
        rows = [
            ("Node ID", info.node_id),
            ("Total Pmem allocated for Containers", megabytes(info.total.memory)),
            ("Total VCores allocated for Containers", info.total.vcores),
            ("Node Healthy Status", "true"),
            ("NodeManager started on", moment(info.started_at_ms)),
            ("NodeManager Version", f"yopp {info.version}"),
            ("Process", info.pid),
            (
                "Limits held by",
                f"cgroups {info.cgroups}" if info.cgroups != "none" else "polling: no cgroups",
            ),
            ("ResourceManager", "connected" if info.rm_connected else state("LOST")),
            ("Log directory", info.log_dir),
        ]
        rows += [("Note", warning) for warning in info.warnings]
        body = join([node_tiles(info), section("NodeManager information", facts(rows)), await self._list()])
        return page(request, f"Node {info.node_id}", body, navigation=await self._navigation())

    async def _list(self) -> Html:
        live = [one for one in await self._data.containers() if container_view.is_live(one)]
        return section(f"Live containers ({len(live)})", containers_table(live, "No live containers."))

    async def containers(self, request: web.Request) -> web.StreamResponse:
        """All containers that the node knows, the newest first."""
        found = (await self._data.containers())[::-1]
        body = containers_table(found, "No containers yet.")
        return page(request, "All containers on this node", body, navigation=await self._navigation())

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """The applications that have, or had, containers here."""
        groups = by_application(await self._data.containers())
        rows = [
            (
                link(path("node", "application", application_id), application_id),
                state("RUNNING" if any(container_view.is_live(one) for one in found) else "FINISHED"),
                sum(1 for one in found if container_view.is_live(one)),
                len(found),
            )
            for application_id, found in reversed(groups.items())
        ]
        body = table(
            ("ApplicationId", "ApplicationState", "Live containers", "Containers"),
            rows,
            empty="None yet.",
            numeric=frozenset({"Live containers", "Containers"}),
        )
        return page(request, "Applications on this node", body, navigation=await self._navigation())

    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application's containers on this node."""
        application_id = request.match_info["app"]
        found = by_application(await self._data.containers()).get(application_id)
        if found is None:
            raise not_found(f"application {application_id[:100]} has no containers on this node")
        body = containers_table(found, "")
        return page(request, application_id, body, navigation=await self._navigation())

    async def container(self, request: web.Request) -> web.StreamResponse:
        """YARN's rows, and what was measured."""
        container_id = request.match_info["container"]
        try:
            ContainerId.parse(container_id)
        except YoppError:
            raise bad_request(f"Invalid containerId {container_id[:200]}") from None
        try:
            report = await self._data.container(container_id)
        except YoppError:
            raise not_found(
                "Unknown Container. Container might have completed, please go back to the previous page and retry."
            ) from None
        logs_link = path("node", "containerlogs", container_id, report.user or "-")
        unknown = report.exit_status == ContainerExitStatus.INVALID
        rows: list[tuple[str, object]] = [
            ("ContainerID", container_id),
            ("ContainerState", state(container_view.document(report, now_ms())["state"])),
            ("ExitStatus", "N/A" if unknown else container_view.exit_text(report)),
            ("Diagnostics", report.diagnostics.strip() or "-"),
            ("User", report.user),
            ("TotalMemoryNeeded", report.resource.memory),
            ("TotalVCoresNeeded", report.resource.vcores),
            ("ExecutionType", kind(report.execution_type)),
            ("logs", link(logs_link, "Link to logs")),
        ]
        more = [
            (name, tag("span", value, class_="lines") if "\n" in value else value)
            for name, value in container_view.fields(report, now_ms(), self._data.facts)
            if name not in ("Execution-Type", "Container-Id", "Exit-Status", "Diagnostics")
        ]
        body = join([section("Container information", facts(rows)), section("At its node", facts(more))])
        return page(request, "Container", body, navigation=await self._navigation())

    async def log_files(self, request: web.Request) -> web.StreamResponse:
        """The end of each file of a container's output, kept fresh."""
        require_owner(request, "containers' output")
        container_id = request.match_info["container"]
        directory = await self._data.log_directory(container_id)
        user = request.match_info.get("user", "-")
        files = await asyncio.to_thread(logs.files_of, directory)
        parts: list[object] = [
            tag("p", join([link(path("node", "container", container_id), container_id)]), class_="big")
        ]
        if not files:
            parts.append(
                tag("p", "Nothing has been written yet: reload when it has started.", class_="empty")
            )
        for one in files:
            address = path("node", "containerlogs", container_id, user, one.name)
            begin = max(0, one.size - TAIL_BYTES)
            whole = path("ws", "v1", "node", "containers", container_id, "logs", one.name)
            note: list[object] = [link(whole, "whole file")]
            note += [f", {one.size} bytes; its last {TAIL_BYTES // 1024} KB:"] if begin else []
            log = tag("pre", "", class_="log", data_log=address, data_position=begin, tabindex="0")
            parts.append(section(one.name, join([tag("p", join(note), class_="more"), log])))
        return page(request, "Logs", join(parts), navigation=await self._navigation(), live=False)

    async def log(self, request: web.Request) -> web.StreamResponse:
        """For the script: what was written from ``start`` on, in harmless characters, and where that ends."""
        require_owner(request, "containers' output")
        container_id = request.match_info["container"]
        directory = await self._data.log_directory(container_id)
        ended = True
        try:
            ended = not container_view.is_live(await self._data.container(container_id))
        except YoppError:
            ended = True  # its node has forgotten it
        text, position, size = await asyncio.to_thread(
            _read_from, directory, request.match_info["file"], request.query.get("start", "0")
        )
        done = ended and position >= size
        return web.Response(
            text=text,
            content_type="text/plain",
            charset="utf-8",
            headers={logs.POSITION: str(position), ENDED: "1" if done else "0"},
        )


def _read_from(directory: str, name: str, start: str) -> tuple[str, int, int]:
    """Text from byte ``start`` on, the byte after it, and the file's size. Cut where a character ends."""
    first = logs.number_of_bytes("start", start)
    descriptor = logs.open_file(directory, name)
    try:
        size = os.fstat(descriptor).st_size
        begin = first if first <= size else 0
        data = os.pread(descriptor, CHUNK_BYTES, begin)
    finally:
        os.close(descriptor)
    cut = len(data)
    if len(data) == CHUNK_BYTES:
        for back in range(1, 4):
            if data[-back] >= 0xC0:
                cut = len(data) - back  # a character's first byte: it is sent whole next time
                break
            if data[-back] < 0x80:
                break
    text = data[:cut].decode("utf-8", "replace").replace("\r\n", "\n")
    return harmless(text, keep="\n\t"), begin + cut, size


def node_tiles(info: GetNodeInfoResponse) -> Html:
    """The node's figures."""
    told = info.opportunistic
    opportunistic = Resource(told.memory_used, told.vcores_used)
    guaranteed = (info.allocated - opportunistic).at_least_zero()
    cpu, used = info.node_utilization.cpu, info.node_utilization.memory_bytes >> 20
    return tiles(
        [
            (
                "Opportunistic",
                told.running,
                f"running · {told.queued} of {told.queue_capacity} queued · {told.paused} paused",
            ),
            *resource_tiles(guaranteed, opportunistic, info.total),
            ("Measured CPU", f"{cpu:.1f} cores", "of the whole machine"),
            ("Measured memory", megabytes(used), "of the whole machine"),
            ("Estimated wait", span(told.estimated_queue_wait_ms), "in the queue"),
        ]
    )
