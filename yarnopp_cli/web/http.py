"""The common part of both web servers, for every request: checks the caller and the origin, answers in JSON or XML,
and reports errors as YARN does.

Safe on a machine with several users and a browser: ``Host`` must be a name of this machine (DNS rebinding); a write
must come from the daemon's own user (or a permitted submitter), not from another site, with content type JSON. A
browser, whose pages may be another user's, has its user's rights only by the owner's link. GET makes no changes.
Callers cannot exhaust the daemon's file descriptors.

Decisions: callers.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ..errors import EXIT_NO_SUCH, EXIT_NOT_PERMITTED, EXIT_UNREACHABLE, YoppError
from ..rpc.connection import user_name
from ..rpc.tcp import Door, TcpCaller
from ..views.cluster import error_document
from ..views.rest.xml import to_xml
from ..views.text import json_line
from .browsers import LISTENER, host_name, is_of_a_browser, linked
from .listening import WebListener
from .pacing import RequestPacing
from .routes import Document, Handler, Route

BODY_BYTES: Final = 4 * 1024 * 1024
BODY_SECONDS: Final = 20.0
MOST: Final = 256
"""The most connections at once; fewer if the daemon's limit of open files is low."""
SHARE: Final = 4
"""Connections use at most one in this many of the daemon's descriptors."""
CLOSE_SECONDS: Final = 0.5
KEEP_SECONDS: Final = 75.0
"""An idle connection is closed after this time."""
LINGER_SECONDS: Final = 1.0
"""How long the rest of a refused body is read, so that its sender sees the refusal."""
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer, unless the answer sets them itself."""
_STATUSES = {EXIT_NO_SUCH: 404, EXIT_NOT_PERMITTED: 403, EXIT_UNREACHABLE: 503}
OPEN_TO_SUBMITTERS: Final = frozenset(
    {
        ("POST", "/ws/v1/cluster/apps/new-application"),
        ("POST", "/ws/v1/cluster/apps"),
        ("PUT", "/ws/v1/cluster/apps/{app}/state"),
    }
)
"""The writes open to users who may submit; the handlers check whose application it is."""
_NOBODY: Final = "a caller whose user is unknown: it is remote, or has closed the connection"
_NAMES = web.AppKey("names", frozenset[str])


class ConnectionLimit:
    """Closes the longest-silent connection if there are too many.

    Any user of the machine can connect and send nothing, or one header a second; a daemon without free descriptors
    cannot start containers.
    """

    def __init__(self) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = max(8, min(MOST, files // SHARE))
        self._open: dict[web.RequestHandler, None] = {}
        """The connection that was made longest ago, or whose request began or ended longest ago, is the first."""
        self._answering: Counter[web.RequestHandler] = Counter()

    def is_reached(self) -> bool:
        """Whether each new connection takes the place of another."""
        return len(self._open) >= self._most

    def made(self, protocol: web.RequestHandler) -> None:
        """Note a new connection, and make room for it."""
        self._open[protocol] = None
        if len(self._open) > self._most:
            # Connections being answered are closed last: a caller that reads slowly is not silent.
            quiet = (one for one in self._open if one not in self._answering)
            first = next(quiet, next(iter(self._open)))
            self.lost(first)
            if first.transport is not None:
                first.transport.abort()

    def lost(self, protocol: web.RequestHandler) -> None:
        """Note that a connection has ended."""
        self._open.pop(protocol, None)

    def begins(self, request: web.Request) -> None:
        """Note that a request is being answered."""
        self._answering[request.protocol] += 1
        self._touch(request.protocol)

    def ends(self, request: web.Request) -> None:
        """Note that a request has been answered, or its caller has gone."""
        self._answering[request.protocol] -= 1
        if self._answering[request.protocol] <= 0:
            del self._answering[request.protocol]
        self._touch(request.protocol)

    def _touch(self, protocol: web.RequestHandler) -> None:
        if protocol in self._open:
            del self._open[protocol]
            self._open[protocol] = None


_LIMIT = web.AppKey("connection_limit", ConnectionLimit)
_PACE = web.AppKey("pace", RequestPacing)


class HttpError(YoppError):
    """An error with its HTTP status and YARN's exception name."""

    def __init__(
        self,
        status: int,
        exception: str,
        message: str,
        *,
        because: str = "",
        hint: str = "",
        exit_code: int = 1,
    ) -> None:
        super().__init__(message, because=because, hint=hint, exit_code=exit_code)
        self.status = status
        self.exception = exception  # type: ignore[misc]


def not_found(message: str) -> HttpError:
    """404 with YARN's exception."""
    return HttpError(404, "NotFoundException", f"java.lang.Exception: {message}", exit_code=EXIT_NO_SUCH)


def bad_request(message: str, because: str = "") -> HttpError:
    """400 with YARN's exception."""
    return HttpError(
        400, "BadRequestException", f"java.lang.Exception: {message}", because=because, exit_code=2
    )


def forbidden(message: str, because: str, hint: str = "") -> HttpError:
    """403 with YARN's exception."""
    return HttpError(
        403, "ForbiddenException", message, because=because, hint=hint, exit_code=EXIT_NOT_PERMITTED
    )


def wants_xml(request: web.Request) -> bool:
    """Whether the caller accepts XML but not JSON (a browser accepts anything)."""
    accept = request.headers.get("Accept", "")
    return "/xml" in accept and "json" not in accept and "*/*" not in accept and "html" not in accept


def respond(
    request: web.Request, document: Document, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Send a document as JSON or XML, whichever the caller accepts."""
    if wants_xml(request):
        body, kind = to_xml(document).encode("utf-8", "replace"), "application/xml"
    else:
        body, kind = json_line(document), "application/json"
    return web.Response(body=body, status=status, headers=headers, content_type=kind, charset="utf-8")


def caller(request: web.Request) -> int:
    """The uid of the caller now, -1 if it is unknown: the caller is remote, has closed the connection, or is a browser
    without the owner's link.
    """
    if is_of_a_browser(request) and not linked(request):
        return -1
    protocol = request.protocol
    found = protocol.caller if isinstance(protocol, _Protocol) else None
    return found.uid() if found is not None and found.on_loopback else -1


def has_token(request: web.Request) -> bool:
    """Whether the request has the cluster's bearer token (RFC 6750)."""
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not shown:
        return False
    kept = request.app[LISTENER].token()
    return bool(kept) and hmac.compare_digest(shown.strip().encode(errors="replace"), kept.encode())


def is_owner(request: web.Request) -> bool:
    """Whether the caller is the cluster's own user or root, or has the bearer token."""
    return caller(request) in (os.geteuid(), 0) or has_token(request)


def submitter(request: web.Request) -> str:
    """The calling user, if it is not the owner and may submit applications; "" otherwise."""
    uid = caller(request)
    if uid <= 0 or not request.app[LISTENER].others_submit:
        return ""
    name = user_name(uid)
    return "" if name == str(uid) else name  # A uid without a user name on this host.


def require_submitter(request: web.Request) -> None:
    """Raise 403 unless the caller may make this change: the owner any change, others those open to
    submitters.
    """
    resource = request.match_info.route.resource
    path = resource.canonical if resource is not None else ""
    if (request.method, path) not in OPEN_TO_SUBMITTERS or not submitter(request):
        require_owner(request, "a change")


def require_owner(request: web.Request, what: str) -> None:
    """Raise 403 unless the caller is the cluster's own user, or root, or has its bearer token."""
    if is_owner(request):
        return
    uid = caller(request)
    who = f"user {user_name(uid)}" if uid >= 0 else _NOBODY
    hint = "its user may send `Authorization: Bearer TOKEN` (the file rest.token of the run directory)"
    if uid < 0 and is_of_a_browser(request):
        who, hint = (
            "a browser, in which a page of another user may act",
            "open the link that `yopp status` prints",
        )
    because = f"it belongs to {user_name(os.geteuid())}, and this is {who}"
    raise forbidden(f"{what} is for this cluster's own user only", because=because, hint=hint)


async def read_body(request: web.Request) -> bytes:
    """The whole body. Raises 400 if it is broken, 408 if it is slow, 413 if it is too long."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise HttpError(408, "BadRequestException", "the body did not come in time") from None
    except web.RequestPayloadError as error:
        reason = str(error).splitlines()[0] if str(error) else "its encoding is broken"
        raise bad_request("the body cannot be read", because=reason[:200]) from None


async def json_body(request: web.Request) -> dict[str, Any]:
    """The body as a JSON object. Raises 400 for anything else, and the errors of ``read_body``."""
    data = await read_body(request)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad_request("the body is not JSON", because=str(error) or "it is nested too deeply") from None
    if not isinstance(found, dict):
        raise bad_request("the body is not a JSON object", because=f"it is {type(found).__name__}")
    return found


class WebServer:
    """The sockets that a web server serves."""

    def __init__(self, runner: web.AppRunner, door: Door) -> None:
        self._runner = runner
        self._door = door

    async def close(self) -> None:
        """Stop serving, and end every connection."""
        self._door.close()
        await self._runner.cleanup()


async def start(bound: list[socket.socket], listener: WebListener, routes: list[Route]) -> WebServer:
    """Serve ``routes`` on bound sockets."""
    loop = asyncio.get_running_loop()
    kept: dict[str, Any] = {
        "keepalive_timeout": KEEP_SECONDS,
        "lingering_time": LINGER_SECONDS,
        "access_log": None,
        # Otherwise a few bytes could become gigabytes, in the loop, before a check refuses them.
        "auto_decompress": False,
    }

    def connection() -> web.RequestHandler:
        assert runner.server is not None
        return _Protocol(app[_LIMIT], runner.server, loop=loop, **kept)

    app = web.Application(middlewares=[_answer], client_max_size=BODY_BYTES)
    names = ("localhost", listener.host, socket.gethostname(), socket.getfqdn())
    app[LISTENER], app[_NAMES] = listener, frozenset(name.lower() for name in names if name)
    app[_LIMIT], app[_PACE] = ConnectionLimit(), RequestPacing()
    for method, path, handler in routes:
        known = cast(Callable[[web.Request], Awaitable[web.StreamResponse]], handler)
        app.router.add_get(path, known) if method == "GET" else app.router.add_route(method, path, known)
    app.on_response_prepare.append(_headers)
    logging.getLogger("aiohttp.server").addFilter(_is_ours)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=CLOSE_SECONDS, **kept)
    await runner.setup()
    return WebServer(runner, Door(bound, connection, app[_LIMIT].is_reached))


class _Protocol(web.RequestHandler):
    """A connection that remembers its caller, and answers malformed requests with documents too."""

    __slots__ = ("_limit", "caller")

    caller: TcpCaller

    def __init__(self, limit: ConnectionLimit, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection: all requests must come from the same socket."""
        super().connection_made(transport)
        self.caller = TcpCaller(transport.get_extra_info("socket"), transport.get_extra_info("peername"))
        self._limit.made(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another."""
        super().connection_lost(exc)
        self._limit.lost(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with a RemoteException instead of aiohttp's plain text; the connection ends as with aiohttp."""
        plain = super().handle_error(request, status, exc, message)
        if status >= 500:
            error = HttpError(
                status, "WebApplicationException", "this call failed", hint="the daemon's log has details"
            )
        else:
            why = str(message or "").partition("\n")[0].rstrip(": ")[:200]
            error = bad_request("this is not an HTTP request", because=why)
        body = json_line(error_document(error))
        found = web.Response(body=body, status=plain.status, content_type="application/json", charset="utf-8")
        found.headers["Server"] = "yopp"
        found.force_close()
        return found


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about more than a malformed request: any user could fill the disk with such records."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "yopp"  # Instead of aiohttp's.
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


async def _handled(request: web.Request, handler: Handler) -> web.StreamResponse:
    found = await handler(request)
    return respond(request, found) if isinstance(found, dict) else found


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count the request, check it, and send the handler's answer, or the error that it raises."""
    limit = request.app[_LIMIT]
    limit.begins(request)
    try:
        await _check(request)
        return await request.app[_PACE].run(_handled(request, handler))
    except YoppError as error:
        return refuse(request, error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        if error.status == 404 and (place := _without_slash(request)):
            raise web.HTTPTemporaryRedirect(place) from None
        allow = error.headers.get("Allow")
        return refuse(request, _of_aiohttp(request, error), headers={"Allow": allow} if allow else None)
    finally:
        limit.ends(request)


def _without_slash(request: web.Request) -> str:
    """The address without its final slash, always on this server; "" if it has no final slash."""
    path, query = request.rel_url.raw_path, request.rel_url.raw_query_string
    bare = path.strip("/")
    return f"/{bare}" + (f"?{query}" if query else "") if bare and path.endswith("/") else ""


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> HttpError:
    path = request.path[:200]
    if error.status == 404:
        return not_found(f"there is nothing at {path}")
    if error.status == 405:
        return HttpError(405, "WebApplicationException", f"{request.method} is not allowed at {path}")
    if error.status == 413:
        return HttpError(413, "BadRequestException", f"the body is longer than {BODY_BYTES} bytes")
    return HttpError(error.status, "WebApplicationException", error.reason)


def refuse(
    request: web.Request, error: YoppError, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Send an error in the form the caller accepts: a page to a browser, else a document."""
    status = error.status if isinstance(error, HttpError) else _STATUSES.get(error.exit_code, 400)
    looks = "text/html" in request.headers.get("Accept", "")
    if not looks or request.path.startswith(("/ws/", "/proxy/", "/jmx")):
        return respond(request, error_document(error), status=status, headers=headers)
    from .pages.frame import error_page

    text = error_page(status, error)
    return web.Response(text=text, status=status, headers=headers, content_type="text/html", charset="utf-8")


async def _check(request: web.Request) -> None:
    """Raise an error if the request must not be answered."""
    _check_host(request)
    if (packed := request.headers.get("Content-Encoding", "identity")).lower() != "identity":
        raise HttpError(
            415,
            "BadRequestException",
            f"a body compressed with {packed[:40]} is refused",
            hint="send it without Content-Encoding",
        )
    if request.method not in ("GET", "HEAD"):
        _check_write(request)
        require_submitter(request)
        await read_body(request)
        require_submitter(request)  # The caller may have closed the connection meanwhile.
    elif request.app[LISTENER].for_owner_only:
        require_owner(request, "reading (yopp.webapp.readers = owner)")


def _check_host(request: web.Request) -> None:
    """Raise 403 for a foreign name: a page of another site whose name was rebound to this machine still sends
    that name.
    """
    name = host_name(request)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if name not in request.app[_NAMES] and not linked(request):
            raise forbidden(
                "Host not recognised",
                because="the Host header must name this machine (DNS-rebinding protection)",
                hint=f"call it http://{request.app[LISTENER].address}/, or by the link that `yopp status` prints now",
            ) from None


def _check_write(request: web.Request) -> None:
    origin = request.headers.get("Origin")
    same = f"http://{request.headers.get('Host', '')}".lower()
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if (origin is not None and origin.lower() != same) or site not in ("same-origin", "none"):
        raise forbidden(
            "a change must not come from another site",
            because=f"this one comes from {(origin or 'another site')[:200]}",
        )
    if request.can_read_body and request.content_type != "application/json":
        raise HttpError(
            415,
            "BadRequestException",
            "the body must be JSON",
            because=f"its type is {request.content_type[:100]}",
            hint="Content-Type: application/json",
            exit_code=2,
        )
