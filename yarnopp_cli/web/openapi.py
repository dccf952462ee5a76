"""The OpenAPI description of a daemon's REST API, made from its routes and their declarations."""

from __future__ import annotations

import inspect
import re
from typing import Final

from aiohttp import web

from ..views.text import json_line
from .routes import DOCUMENT, Declared, Document, Route

PATH: Final = "/openapi.json"
BELOW: Final = ("/ws/", "/proxy/")
"""The paths of the REST API; the other paths are pages and instruments."""
_WORD: Final = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
_OBJECT: Final[Document] = {"type": "object"}
_TEXT: Final[Document] = {"type": "string"}
_REFUSAL: Final[Document] = {
    "type": "object",
    "required": ["RemoteException"],
    "properties": {
        "RemoteException": {
            "type": "object",
            "required": ["exception", "message", "javaClassName"],
            "properties": dict.fromkeys(("exception", "message", "javaClassName"), _TEXT),
        }
    },
}


def description_route(daemon: str, routes: list[Route]) -> Route:
    """The route that serves the description of the others, which is made at the first request."""

    async def describe(request: web.Request) -> web.StreamResponse:
        return web.Response(body=json_line(description(daemon, routes)), content_type="application/json")

    return "GET", PATH, describe


def description(daemon: str, routes: list[Route]) -> Document:
    """OpenAPI 3.0.3: every route below ``BELOW``, by its path and method."""
    paths: Document = {}
    for method, path, handler in routes:
        if path.startswith(BELOW) and not path.endswith("/"):
            told = getattr(handler, "declared", None) or Declared()
            operation = _operation(path, told, (inspect.getdoc(handler) or "").partition("\n\n")[0])
            paths.setdefault(_WORD.sub(r"{\1}", path), {})[method.lower()] = operation
    return {"openapi": "3.0.3", "info": {"title": f"yopp {daemon}", "version": "v1"}, "paths": paths}


def _operation(path: str, told: Declared, summary: str) -> Document:
    words = _WORD.findall(path)
    asked = [name for name in told.parameters if name not in words]
    parameters: list[Document] = [
        {"name": name, "in": "path", "required": True, "schema": told.parameters.get(name, _TEXT)}
        for name in words
    ]
    parameters += [
        {"name": name, "in": "query", "style": "form", "explode": False, "schema": told.parameters[name]}
        for name in asked
    ]
    refused = {"description": "RemoteException", "content": _content(DOCUMENT, _REFUSAL)}
    answers: Document = {str(told.status): {"description": "Done", "content": _content(told.sends, _OBJECT)}}
    if path.startswith("/proxy/"):
        answers["302"] = {"description": "The job has ended: see the history server"}
    found: Document = {"parameters": parameters, "responses": {**answers, "4XX": refused, "503": refused}}
    if summary:
        found["summary"] = summary.replace("\n", " ")
    if told.body:
        needed = [name for name, one in told.body.items() if "default" not in one]
        schema = {"type": "object", "properties": told.body, "required": needed}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def _content(kinds: tuple[str, ...], schema: Document) -> Document:
    return {kind: {"schema": _TEXT if kind == "text/plain" else schema} for kind in kinds}
