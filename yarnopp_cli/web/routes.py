"""Decorators that declare the requests that a method of an API answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

Document = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[Document | web.StreamResponse]]
"""A handler of requests; a document is sent as JSON or XML, whichever the caller accepts."""
Route = tuple[str, str, Handler]
"""An HTTP method, a path in aiohttp's syntax, and the handler."""


HandlerT = TypeVar("HandlerT", bound=Callable[..., Awaitable[Document | web.StreamResponse]])
DOCUMENT = ("application/json", "application/xml")
"""The types of a document, whichever the caller accepts."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A decorator that declares the parameters in the query (and in the path, if not every text is valid), the members
    of the body, and the status and types of the answer; ``openapi`` describes them."""

    parameters: Mapping[str, Document] = field(default_factory=dict)
    body: Mapping[str, Document] = field(default_factory=dict)
    status: int = 200
    sends: tuple[str, ...] = DOCUMENT

    def __call__(self, handler: HandlerT) -> HandlerT:
        """Mark the handler, which ``route`` gives its paths."""
        handler.__dict__["declared"] = self
        return handler


def route(method: str, *paths: str) -> Callable[[HandlerT], HandlerT]:
    """Mark a method of an API's class as the handler of ``method`` at these paths; ``routes_of`` finds it."""

    def mark(handler: HandlerT) -> HandlerT:
        handler.__dict__.setdefault("routes", []).extend((method, path) for path in paths)
        return handler

    return mark


def routes_of(api: object) -> list[Route]:
    """The routes whose handlers are methods of an API, in the order of their definition."""
    return [
        (method, path, getattr(api, name))
        for name, member in vars(type(api)).items()
        for method, path in getattr(member, "routes", ())
    ]
