"""The common parts of all pages: head, navigation, the refreshed part, the two static files, errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from ...errors import YoppError
from ...views.html import Html, esc, join, link, tag
from ..browsers import linked
from ..routes import Document, Route

Links = Sequence[tuple[str, str]]
"""Titles and addresses."""
FRAGMENT = "X-Fragment"
"""With this header the script requests only the refreshed part of a page."""
REFRESH_MS = 1000
_TYPES = {"yopp.css": "text/css", "yopp.js": "text/javascript"}


def path(*parts: str) -> str:
    """An absolute path made of these parts, each quoted."""
    return "/" + "/".join(quote(part, safe=":") for part in parts)


def page(
    request: web.Request, navigation: Links, title: str, *parts: object, live: bool = True
) -> web.Response:
    """A whole page, or only its refreshed part if the script requests it."""
    text: str = join([tag("h1", title), *parts])
    if not (request.headers.get(FRAGMENT) and live):
        text = document(title, Html(text), navigation, request.path, live=live)
    for address, owners in linked(request).items():
        text = text.replace(f'href="http://{address}/', f'href="http://{owners}/')
    return web.Response(text=text, content_type="text/html", charset="utf-8")


def document(title: str, content: Html, navigation: Links, here: str, *, live: bool) -> str:
    """The HTML of a page."""
    links = join(link(address, name, here=address == here) for name, address in navigation)
    home = link(navigation[0][1] if navigation else "/", tag("strong", "yopp"))
    fresh = tag("span", "live", id="link", role="status") if live else Html("")
    header = tag("header", join([home, tag("nav", links), fresh]))
    main = tag("main", content, id="live" if live else None, data_every=REFRESH_MS if live else None)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{esc(title)} · yopp</title>"
        '<link rel="stylesheet" href="/static/yopp.css"><link rel="icon" href="data:,">'
        f'<script src="/static/yopp.js" defer></script></head><body>{header}{main}'
        '<footer id="zone">Times are UTC.</footer></body></html>'
    )


def error_page(status: int, error: YoppError) -> str:
    """An error as a page."""
    message = error.message.removeprefix("java.lang.Exception: ")
    parts = [tag("h1", f"{status}"), tag("p", message, class_="big")]
    parts += [tag("p", error.because)] if error.because else []
    parts += [tag("p", join([Html("Try: "), tag("code", error.hint)]))] if error.hint else []
    parts.append(tag("p", link("/", "Home")))
    return document(str(status), join(parts), (), "", live=False)


def static_routes(home: str) -> list[Route]:
    """The redirect from ``/`` to ``home``, and the two static files."""

    async def root(request: web.Request) -> Document:
        raise web.HTTPFound(home)

    async def static(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _TYPES:
            raise web.HTTPNotFound
        return web.Response(text=_file(name), content_type=_TYPES[name], charset="utf-8")

    return [("GET", "/", root), ("GET", "/static/{name}", static)]


@lru_cache(maxsize=4)
def _file(name: str) -> str:
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")
