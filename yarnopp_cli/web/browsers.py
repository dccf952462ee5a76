"""Recognises requests of browsers, and among them the requests that come by the owner's link (``cluster.resttoken``).

Any page that a browser has open makes requests with the rights of the browser's user, and a page of another user may
have the origin of this server: a former owner of its port could have left such a page. Only the name in the owner's
link is an origin that no server had before.

Decisions: callers.
"""

from __future__ import annotations

import hmac
from typing import Final, cast

from aiohttp import web

from .listening import WebListener

_BROWSERS: Final = ("Origin", "Referer", "Cookie", "Sec-Fetch-Site", "Sec-Fetch-Dest")
"""Headers of browsers that no script can set. A page can omit some of them, but not all: a change has ``Origin``, and
each request to a loopback address has ``Sec-Fetch-Site``."""
_LINKED: Final = "linked"
"""The key under which a request stores the result of ``linked``."""
LISTENER = web.AppKey("listener", WebListener)


def host_name(request: web.Request) -> str:
    """The name or IP address in the request's ``Host`` header, without the port."""
    host = request.headers.get("Host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower().rstrip(".")


def is_of_a_browser(request: web.Request) -> bool:
    """Whether a browser sent the request. Every browser sends ``Accept-Language``, which a script can change to ``*``.
    Node's fetch sends ``*``, too, so this value is accepted only if a browser would have to send ``Sec-Fetch-Site``."""
    name, language = host_name(request), request.headers.get("Accept-Language")
    is_loopback = name.endswith("localhost") or name.startswith("127.") or name == "::1"
    return language not in (None, "*" if is_loopback else None) or any(
        one in request.headers for one in _BROWSERS
    )


def linked(request: web.Request) -> dict[str, str]:
    """The links, if the request came by this daemon's own link; else an empty dictionary."""
    if _LINKED not in request:
        listener, name = request.app[LISTENER], host_name(request)
        found = listener.links() if name.endswith(".localhost") else {}
        own = found.get(listener.address, "").rpartition(":")[0]
        request[_LINKED] = found if hmac.compare_digest(name.encode(errors="replace"), own.encode()) else {}
    return cast(dict[str, str], request[_LINKED])
