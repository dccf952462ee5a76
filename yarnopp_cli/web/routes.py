"""Which method of an API answers which requests: said above the method itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

Document = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[Document | web.StreamResponse]]
"""What answers requests; a document is sent as JSON or XML, as the caller takes it."""
Route = tuple[str, str, Handler]
"""A method, a path as aiohttp writes it, and what answers."""
HandlerT = TypeVar("HandlerT", bound=Callable[..., Awaitable[Document | web.StreamResponse]])


def route(method: str, *paths: str) -> Callable[[HandlerT], HandlerT]:
    """Mark a method of an API's class as what answers ``method`` at these paths; ``routes_of`` finds it."""

    def mark(handler: HandlerT) -> HandlerT:
        handler.__dict__.setdefault("routes", []).extend((method, path) for path in paths)
        return handler

    return mark


def routes_of(api: object) -> list[Route]:
    """The routes whose handlers are methods of an API, in the order in which they stand in its class."""
    return [
        (method, path, getattr(api, name))
        for name, member in vars(type(api)).items()
        for method, path in getattr(member, "routes", ())
    ]
