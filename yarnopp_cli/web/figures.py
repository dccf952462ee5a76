"""Figures for machines that watch: Prometheus text at ``/metrics``, Hadoop's beans at ``/jmx``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from ..records.figures import GetSchedulerFiguresResponse
from ..views import cluster as cluster_view
from ..views import jmx as jmx_view
from ..views import prometheus
from .http import respond

if TYPE_CHECKING:
    from .cluster_data import ClusterData
    from .nodemanager import NodeData

TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Busy:
    """How much of a processor this thread, the daemon's loop, used lately."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.thread_time()
        self._percent = 0

    def percent(self) -> int:
        """Since somebody asked last, if that was a second ago or more; else what he was told."""
        now, used = time.monotonic(), time.thread_time()
        if now - self._at >= 1:
            self._percent = min(100, round(100 * (used - self._used) / (now - self._at)))
            self._at, self._used = now, used
        return self._percent


async def cluster_metrics(
    data: ClusterData, counted: GetSchedulerFiguresResponse | None = None
) -> dict[str, Any]:
    """ClusterMetricsInfo, with what was ``counted`` just now."""
    counted = counted or await data.figures()
    return cluster_view.metrics(
        await data.info(),
        await data.applications(),
        await data.nodes(),
        counted.pending,
        data.busy.percent(),
        counted.assigned_per_second,
    )


def process_figures() -> dict[str, float]:
    """This daemon's own memory (bytes) and processor time (seconds)."""
    pages = 0
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        pages = 0  # no /proc: not known
    return {"resident_bytes": float(pages * os.sysconf("SC_PAGE_SIZE")), "cpu_seconds": time.process_time()}


def _answer(samples: Iterable[prometheus.Sample]) -> web.Response:
    return web.Response(body=prometheus.text(samples).encode(), headers={"Content-Type": TEXT})


def _beans(request: web.Request, beans: list[dict[str, Any]]) -> web.Response:
    status, found = jmx_view.chosen(beans, request.query.get("qry", ""), request.query.get("get", ""))
    return respond(request, found, status=status)


def cluster_routes(data: ClusterData) -> list[web.RouteDef]:
    """``/metrics`` and ``/jmx`` of the RM."""

    async def metrics(request: web.Request) -> web.StreamResponse:
        counted = await data.figures()
        found = await cluster_metrics(data, counted)
        return _answer(
            [
                *prometheus.of_cluster(found["clusterMetrics"], counted),
                *prometheus.of_nodes(await data.nodes()),
                *prometheus.of_process("resourcemanager", process_figures()),
            ]
        )

    async def jmx(request: web.Request) -> web.StreamResponse:
        nodes = await data.nodes()
        counted = await data.figures()
        found = await cluster_metrics(data, counted)
        beans = jmx_view.cluster_beans(found["clusterMetrics"], nodes, counted, process_figures())
        return _beans(request, beans)

    return [web.get("/metrics", metrics), web.get("/jmx", jmx)]


def node_routes(data: NodeData) -> list[web.RouteDef]:
    """``/metrics`` and ``/jmx`` of an NM."""

    async def metrics(request: web.Request) -> web.StreamResponse:
        info = await data.info()
        statuses = await data.statuses()
        return _answer(
            [
                *prometheus.of_node(info, statuses, await data.counts()),
                *prometheus.of_process("nodemanager", process_figures(), node=info.node_id),
            ]
        )

    async def jmx(request: web.Request) -> web.StreamResponse:
        counts = await data.counts()
        beans = jmx_view.node_beans(await data.info(), await data.statuses(), counts, process_figures())
        return _beans(request, beans)

    return [web.get("/metrics", metrics), web.get("/jmx", jmx)]
