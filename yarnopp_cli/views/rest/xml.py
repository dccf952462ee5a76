"""A document as XML, as YARN's REST API answers a request for application/xml. Pure."""

from __future__ import annotations

import re
from html import escape
from typing import Any

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def to_xml(document: dict[str, Any]) -> str:
    """The XML of ``document``, whose one key is the root; an object ``yopp`` beside it is put into the root."""
    items = dict(document)
    extra = items.pop("yopp", None) if len(items) > 1 else None
    if len(items) != 1:
        items = {"response": items}
    ((name, value),) = items.items()
    if name == "container" and isinstance(value, list):  # enclosed by an object only in XML
        name, value = "containers", {name: value}
    if isinstance(value, list):
        value = {"item": value}
    inner = _content(value)
    if extra is not None:
        inner += _element("yopp", extra)
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><{name}>{inner}</{name}>'


def _element(name: str, value: Any) -> str:
    if isinstance(value, list):
        return "".join(_element(name, one) for one in value)
    if value is None:
        return ""
    tag = _NOT_IN_NAMES.sub("_", name)
    tag = tag if tag[:1].isalpha() or tag[:1] == "_" else f"_{tag}"
    return f"<{tag}>{_content(value)}</{tag}>"


def _content(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return "".join(_element(str(name), one) for name, one in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(_NOT_IN_XML.sub("\ufffd", str(value)), quote=False)
