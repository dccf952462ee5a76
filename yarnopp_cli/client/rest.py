"""HTTP to YARN's daemons: the only module of the engine that opens a connection.

Only 200 and 202 are success. Redirections, times and bodies are limited; an answer that is not JSON where
JSON is expected, or that is incomplete, is refused. A standby ResourceManager redirects its callers by 307,
by a ``Refresh`` header, or by a line of text; if it names no target, the next address is tried.

Decisions: one-client-protocol.
"""

from __future__ import annotations

import functools
import http.client
import io
import json
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from executor.light import Record

from .. import __version__
from ..errors import (
    EXIT_NO_SUCH,
    EXIT_NOT_PERMITTED,
    EXIT_UNREACHABLE,
    ConnectionFailedError,
    RemoteError,
    YoppError,
    one_line,
)

BASE: Final = "/ws/v1/cluster"
LARGEST: Final = 64 * 1024 * 1024
"""The most bytes of one answer."""
SECONDS: Final = 30.0
"""The timeout of one answer, from the connection to the last byte."""
REDIRECTS: Final = 5
_BLOCK: Final = 256 * 1024
_REFRESH = re.compile(r"\s*\d+\s*;\s*url\s*=\s*(\S+)\s*", re.IGNORECASE)
_STANDBY = b"standby RM"
_FAILED_THERE = "UndeclaredThrowableException"
"""YARN's answer, with 503 and without a reason, if it tried a change and failed: for instance an
unknown queue."""
_Query = Sequence[tuple[str, str]]


class RefusedError(RemoteError):
    """A daemon's refusal, or an invalid answer. ``status`` is the HTTP status, 0 if there is none."""

    def __init__(
        self, message: str, *, because: str = "", hint: str = "", exit_code: int = 1, status: int = 0
    ) -> None:
        super().__init__(message, because=because, hint=hint, exit_code=exit_code)
        self.status = status


class UnansweredError(ConnectionFailedError):
    """A change was sent, and no answer came: it may have taken effect."""


class RestAnswer(Record):
    """A successful answer: its status, unchanged bytes, URL and content type."""

    status: int
    body: bytes
    url: str
    content_type: str = ""

    def document(self) -> dict[str, Any]:
        """The body as a JSON object. Raises RefusedError for anything else."""
        if self.content_type.split(";")[0].strip().lower() != "application/json":
            shown = self.content_type or "without a Content-Type"
            raise self.strange(f"it is {shown[:80]}, not application/json")
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise self.strange(f"it is not JSON: {str(error)[:120]}") from None
        if not isinstance(found, dict):
            raise self.strange(f"it is a JSON {type(found).__name__}, not an object")
        return found

    def strange(self, because: str) -> RefusedError:
        """The error for an answer that YARN would not give."""
        return strange(self.url, because)


def strange(url: str, because: str) -> RefusedError:
    """The error for an answer that YARN would not give."""
    return RefusedError(
        f"the answer of {bare(url)} is not YARN's",
        because=because,
        hint="does --rm name the ResourceManager's web address (default port 8088)?",
    )


def bare(url: str) -> str:
    """A URL without its query, for messages."""
    return url.partition("?")[0]


class Rest:
    """Calls to one cluster's REST APIs. ``user`` is sent as ``user.name`` (Hadoop's simple authentication).

    ``trace`` gets a line about each call; with ``trace_bodies`` also both bodies.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        user: str,
        *,
        seconds: float = SECONDS,
        trace: Callable[[str], None] | None = None,
        trace_bodies: bool = False,
    ) -> None:
        self.addresses = tuple(addresses)
        self.address = ""
        """The base URL of the ResourceManager that answered last."""
        self._user = user
        self.seconds = seconds
        """The timeout of one answer."""
        self._trace = trace
        self._trace_bodies = trace_bodies

    def call(
        self, method: str, path: str, *, query: _Query = (), body: Any = None, anybody: bool = False
    ) -> RestAnswer:
        """Make one call to the ResourceManager, at the first address that has an active one.

        ``path`` is below ``/ws/v1/cluster``. With ``anybody`` a standby may answer, too. A change is never
        sent twice: after it has been sent, no other address is tried. Raises ConnectionFailedError,
        RefusedError.
        """
        failures: list[str] = []
        tried = list(dict.fromkeys([self.address, *self.addresses] if self.address else self.addresses))
        for address in tried:
            try:
                answer = self._follow(method, f"{address}{BASE}{path}", query, body, anybody)
            except _NotThereError as error:
                failures.append(f"{address}: {error}")
                continue
            base = bare(answer.url)
            self.address = base[: base.find(BASE)] if BASE in base else address
            return answer
        raise ConnectionFailedError(
            "no active ResourceManager answers",
            because="; ".join(failures)[:600] or "no address is configured",
            hint="`yopp engine test` shows details; --rm names another one",
        )

    def get(self, url: str, query: _Query = ()) -> RestAnswer:
        """Get a URL of another daemon. Raises ConnectionFailedError, RefusedError."""
        try:
            return self._follow("GET", url, query, None, True)
        except _NotThereError as error:
            raise ConnectionFailedError(f"cannot reach {bare(url)}", because=str(error)) from None

    def _follow(self, method: str, url: str, query: _Query, body: Any, anybody: bool) -> RestAnswer:
        """Make one request, and follow its redirections. Raises _NotThereError if nothing has been done."""
        until = time.monotonic() + self.seconds
        for _ in range(REDIRECTS + 1):
            status, headers, content = self._request(method, url, query, body, until)
            onward = _onward(status, headers, url)
            if onward is not None and method != "GET" and status in (301, 302, 303):
                raise strange(url, f"it answers a change with {status}, which would turn it into a GET")
            if onward is None:
                if (
                    not anybody
                    and status in (200, 503)
                    and _STANDBY in content[:4096]
                    and b"{" not in content[:1]
                ):
                    raise _NotThereError(
                        "it is a standby ResourceManager, and does not say which one is active"
                    )
                return _checked(status, headers, content, url)
            if onward == bare(url) or not onward.startswith(("http://", "https://")):
                raise _NotThereError("it knows of no active ResourceManager")
            if url.startswith("https://") and not onward.startswith("https://"):
                raise RefusedError(
                    f"{bare(url)} redirects to {bare(onward)[:200]}",
                    because="a redirection from https to http is not followed",
                    hint="name the active ResourceManager with --rm",
                    status=status,
                )
            url = onward
        raise RefusedError(
            f"{bare(url)} redirects in a circle",
            because=f"more than {REDIRECTS} redirections",
            hint="name the active ResourceManager with --rm",
        )

    def _request(
        self, method: str, url: str, query: _Query, body: Any, until: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = _split(url)
        pairs = dict([*urllib.parse.parse_qsl(parts.query, keep_blank_values=True), *query])
        pairs.setdefault("user.name", self._user)
        target = f"{parts.path or '/'}?{urllib.parse.urlencode(pairs, safe=',:/')}"
        sent = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        # Logs are plain text, and Hadoop answers 406 to a client that accepts only JSON.
        headers = {"Accept": "application/json, */*;q=0.1", "User-Agent": f"yopp/{__version__}"}
        if method != "GET":
            headers["X-XSRF-Header"] = "yopp"  # required by Hadoop's filter against forged requests
        if sent is not None:
            headers["Content-Type"] = "application/json"
        begin = time.perf_counter()
        connection = _connection(parts, until)
        under_way = False
        try:
            connection.connect()
            under_way = method != "GET"
            connection.request(method, target, sent, headers)
            response = connection.getresponse()
            content = _content(response, url)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            because = _reason(error)
            if under_way:
                raise UnansweredError(
                    f"{bare(url)} did not answer",
                    because=because,
                    hint="the request may have taken effect: check before you try again",
                ) from None
            raise _NotThereError(because) from None
        finally:
            connection.close()
        self._tell(method, url, response.status, begin, sent, content)
        return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def _tell(
        self, method: str, url: str, status: int, begin: float, sent: bytes | None, content: bytes
    ) -> None:
        if self._trace is None:
            return
        if self._trace_bodies and sent is not None:
            self._trace(f"-> {sent.decode('utf-8', 'replace')}")
        elapsed_ms = (time.perf_counter() - begin) * 1000
        self._trace(f"{method} {bare(url)}: {status} in {elapsed_ms:.1f} ms")
        if self._trace_bodies:
            self._trace(f"<- {content[:65536].decode('utf-8', 'replace')}")


class _NotThereError(Exception):
    """No active daemon answers at the address, and nothing has been done."""


class _Until(io.RawIOBase):
    """Reads from a socket until a deadline: the socket's own timeout would start anew with every byte."""

    def __init__(self, connected: socket.socket, until: float) -> None:
        super().__init__()
        self._socket, self._until = connected, until
        self._below = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read as any raw stream does. Raises TimeoutError after the deadline."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._below.readinto(buffer)

    def close(self) -> None:
        """Close the stream, but not the socket."""
        self._below.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer with one deadline for all of it, status line and headers included."""

    def __init__(self, sock: socket.socket, *args: Any, until: float, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Until(sock, until))


def _split(url: str) -> urllib.parse.SplitResult:
    """The parts of a URL, which may come from a daemon's document. Raises _NotThereError if it is not
    an HTTP URL."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        raise _NotThereError(f"it is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _NotThereError("it is not the address of a web server")
    return parts


def _connection(parts: urllib.parse.SplitResult, until: float) -> http.client.HTTPConnection:
    host, seconds = parts.hostname or "", max(0.1, until - time.monotonic())
    connection: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=seconds)
    except (ValueError, http.client.HTTPException) as error:
        raise _NotThereError(f"it is not an address: {error}") from None
    connection.response_class = functools.partial(_Response, until=until)  # type: ignore[assignment]
    return connection


def _content(response: http.client.HTTPResponse, url: str) -> bytes:
    """The whole body. Raises RefusedError if it is too long or incomplete."""
    blocks: list[bytes] = []
    size = 0
    while True:
        try:
            block = response.read1(_BLOCK)
        except http.client.IncompleteRead:
            raise strange(url, "the answer is incomplete") from None
        if not block:
            break
        blocks.append(block)
        size += len(block)
        if size > LARGEST:
            raise strange(url, f"the answer is larger than {LARGEST >> 20} MB")
    if response.length:
        raise strange(url, f"the answer is incomplete: {response.length} bytes are missing")
    return b"".join(blocks)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, UnicodeError):
        return "it is not an address: no host can have that name"
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return f"its answer is not HTTP ({type(error).__name__})"


def _onward(status: int, headers: Mapping[str, str], url: str) -> str | None:
    """The target of a redirection; None for any other answer."""
    if status in (301, 302, 303, 307, 308):
        location = headers.get("location", "")
        if not location:
            raise strange(url, f"a redirection ({status}) without a Location")
        return _keeping_path(location, url)
    if found := _REFRESH.fullmatch(headers.get("refresh", "")):
        return _keeping_path(found[1].strip("'\""), url)
    return None


def _keeping_path(place: str, url: str) -> str:
    """The URL of a redirection. A standby ResourceManager may name only the root of the active one: then the
    path of the request is kept."""
    try:
        there, here = urllib.parse.urlsplit(urllib.parse.urljoin(url, place)), urllib.parse.urlsplit(url)
    except ValueError:
        raise strange(url, f"it sends on to {place[:80]!r}, which is not an address") from None
    path = here.path if there.path in ("", "/") else there.path
    return urllib.parse.urlunsplit((there.scheme, there.netloc, path, "", ""))


def _checked(status: int, headers: Mapping[str, str], content: bytes, url: str) -> RestAnswer:
    """The answer of a success. Raises RefusedError, with its exit code, for a refusal."""
    if status in (200, 202):
        return RestAnswer(status, content, url, headers.get("content-type", ""))
    if status == 401:
        raise _unauthorised(headers, url)
    said, named, ours = _exception_of(content, headers.get("content-type", ""))
    exit_code, hint = _REFUSALS.get(status, (1, "its log has details" if status >= 500 else ""))
    if named == _FAILED_THERE:
        exit_code = 1
    message = f"{bare(url)} answered {status}"
    because = message if said else http.client.responses.get(status, "").lower()
    raise RefusedError(
        said or message,
        because=because if ours is None else ours[0] or because,
        hint=hint if ours is None else ours[1],
        exit_code=exit_code,
        status=status,
    )


_REFUSALS = {
    404: (EXIT_NO_SUCH, ""),
    403: (EXIT_NOT_PERMITTED, "HADOOP_USER_NAME sets your user on a cluster without Kerberos"),
    **dict.fromkeys((502, 503, 504), (EXIT_UNREACHABLE, "its log has details")),
}
"""The exit codes and hints of unsuccessful answers."""


def _unauthorised(headers: Mapping[str, str], url: str) -> YoppError:
    wanted = headers.get("www-authenticate", "")
    kerberos = wanted.lower().startswith("negotiate")
    simple = "yopp speaks Hadoop's simple authentication only"
    how = f" ({wanted[:80]})" if wanted else ""
    return RefusedError(
        f"{bare(url)} wants {'Kerberos' if kerberos else 'to know who you are'}",
        because=f"it answers 401 (Negotiate), and {simple}"
        if kerberos
        else f"it answers 401{how}, and does not accept user.name",
        hint="run that cluster's own `yarn` after `kinit`" if kerberos else simple,
        exit_code=EXIT_NOT_PERMITTED,
        status=401,
    )


def _exception_of(content: bytes, content_type: str) -> tuple[str, str, tuple[str, str] | None]:
    """YARN's message and the name of its exception, "" for what is missing; and the reason and the hint of a yopp.

    The answer to a refused change is a bare sentence instead of a RemoteException, whatever its content type.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        text = content[:2000].decode("utf-8", "replace").strip()
        plain = content_type.partition(";")[0].strip().lower() in ("application/json", "text/plain")
        return (_sentence(text) if plain and text[:1] not in ("<", "{", "[") else ""), "", None
    try:
        found = document["RemoteException"]
        name = str(found.get("exception") or "").strip()
        ours = document.get("yopp")
        because, hint = (one_line(str((ours or {}).get(key) or ""))[:500] for key in ("because", "hint"))
        why = (because, hint) if ours else None
        return _sentence(str(found.get("message") or "").strip() or name), name, why
    except (KeyError, TypeError, AttributeError):
        return "", "", None


def _sentence(text: str) -> str:
    """The first line, without the name of an exception at its start."""
    return re.sub(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ", "", text.partition("\n")[0])[:500]
