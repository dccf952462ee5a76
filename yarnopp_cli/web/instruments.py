"""The common paths of Hadoop's daemons (``HttpServer2``): ``/conf``, ``/stacks``, ``/logs`` and ``/jmx``, and
Prometheus' ``/metrics``."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from ..cluster.rundir import RunDir
from ..records.times import timestamp
from ..settings.declarations import PROPERTIES
from ..settings.loading import Configuration
from ..settings.values import to_text
from ..views.html import link, table
from ..views.rest.metrics import MetricFigures, prometheus, query_beans
from ..views.rest.xml import to_xml
from . import logs
from .http import bad_request, not_found, require_owner, respond
from .pages.frame import Links, page, path
from .routes import Document, route

_SAMPLES = "text/plain; version=0.0.4; charset=utf-8"
_LOG = re.compile(r"(rm|nm-[0-9]+)\.log(\.[0-9]+)?")


class Instruments:
    """The instruments of one daemon, whose figures ``gather`` collects. ``navigation`` is that of its pages."""

    def __init__(
        self,
        configuration: Configuration,
        run_dir: RunDir,
        navigation: Links,
        gather: Callable[[], Awaitable[MetricFigures]],
    ) -> None:
        self._configuration = configuration
        self._run_dir = run_dir
        self._navigation = navigation
        self._gather = gather

    @route("GET", "/metrics")
    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """The figures for Prometheus."""
        text = prometheus((await self._gather()).samples)
        return web.Response(body=text.encode(), headers={"Content-Type": _SAMPLES})

    @route("GET", "/jmx")
    async def jmx(self, request: web.Request) -> web.StreamResponse:
        """The figures as Hadoop's beans."""
        beans = (await self._gather()).beans
        status, found = query_beans(beans, request.query.get("qry", ""), request.query.get("get", ""))
        return respond(request, found, status=status)

    @route("GET", "/conf")
    async def conf(self, request: web.Request) -> Document | web.StreamResponse:
        """The configuration that the daemon started with (``ConfServlet``): every property, or the one given
        by ``name``; as XML, or as JSON with ``format=json`` or if the caller accepts JSON.
        """
        wanted, known = request.query.get("name", ""), self._configuration
        names = [*PROPERTIES, *known.patterned_properties()]
        if wanted and wanted not in names:
            raise not_found(f"Property {wanted[:200]} not found")
        form = request.query.get("format", "")
        if form not in ("", "json", "xml"):
            raise bad_request(f"Bad format: {form[:100]}", because="it is json or xml")
        as_xml = form == "xml" or (not form and "json" not in request.headers.get("Accept", ""))
        rows = [(name, to_text(known.value(name)), known.origin(name)) for name in sorted(names)]
        if wanted:
            rows = [row for row in rows if row[0] == wanted]
        if not as_xml:
            return web.json_response(_as_json(rows, single=bool(wanted)))
        found = [{"name": name, "value": value, "final": False, "source": at} for name, value, at in rows]
        text = to_xml({"configuration": {"property": found}})
        return web.Response(text=text, content_type="application/xml", charset="utf-8")

    @route("GET", "/stacks")
    async def stacks(self, request: web.Request) -> web.StreamResponse:
        """The stacks of all threads of the daemon (``StackServlet``), for its owner and root."""
        require_owner(request, "a daemon's stacks")
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        parts = [
            f'Thread {number} "{names.get(number, "")}":\n' + "".join(traceback.format_stack(frame))
            for number, frame in sys._current_frames().items()
        ]
        return web.Response(text=f"{len(parts)} active threads\n" + "\n".join(parts))

    @route("GET", "/logs", "/logs/")
    async def log_files(self, request: web.Request) -> web.StreamResponse:
        """The logs of the daemons of this run directory, for its owner and root."""
        require_owner(request, "a daemon's log")
        there, _ = await asyncio.to_thread(logs.files_of, self._run_dir.path, 10_000)
        files = [one for one in there if _LOG.fullmatch(one.name)]
        rows = [
            (link(path("logs", one.name), one.name), one.size, timestamp(one.changed_ms)) for one in files
        ]
        listed = table(("File", "Bytes", "Changed"), rows, empty="No daemon has a log.")
        return page(request, self._navigation, "Logs", listed)

    @route("GET", "/logs/{file}")
    async def log(self, request: web.Request) -> web.StreamResponse:
        """One log; ``start`` and ``size`` choose its bytes, as with a container's output."""
        require_owner(request, "a daemon's log")
        name = request.match_info["file"]
        if not _LOG.fullmatch(name):
            raise not_found("no such log file")
        return await logs.send(request, self._run_dir.path, name)


def _as_json(rows: Sequence[tuple[str, str, str]], *, single: bool) -> dict[str, Any]:
    """The JSON that Hadoop's ``Configuration.dumpConfiguration`` writes."""
    found = [{"key": name, "value": value, "isFinal": False, "resource": at} for name, value, at in rows]
    return {"property": found[0]} if single else {"properties": found}
