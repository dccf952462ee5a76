"""Figures for monitoring programs: Prometheus text at ``/metrics``, Hadoop's beans at ``/jmx``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from ..views.rest.metrics import Figures, prometheus, query_beans
from .http import respond
from .routes import Route

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def figure_routes(gather: Callable[[], Awaitable[Figures]]) -> list[Route]:
    """The routes ``/metrics`` and ``/jmx`` of a daemon, whose figures ``gather`` collects."""

    async def metrics(request: web.Request) -> web.StreamResponse:
        text = prometheus((await gather()).samples)
        return web.Response(body=text.encode(), headers={"Content-Type": TEXT})

    async def jmx(request: web.Request) -> web.StreamResponse:
        beans = (await gather()).beans
        status, found = query_beans(beans, request.query.get("qry", ""), request.query.get("get", ""))
        return respond(request, found, status=status)

    return [("GET", "/metrics", metrics), ("GET", "/jmx", jmx)]
