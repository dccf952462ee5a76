"""Tokens: signed permissions to start a container, or to act for an attempt.

A token is JSON text and an HMAC-SHA256 over its kind and that text. Keys are arguments; this module stores and
generates none, and reads no clock. The content of a token is readable by its holder, but cannot be changed.

Decisions: clocks.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from executor.records import Resource, counted

from ..errors import InvalidTokenError
from ..records.requests import Container, Token

CONTAINER_TOKEN = "ContainerToken"
"""The kind of the tokens that permit a node to start a container (YARN's
``ContainerTokenIdentifier.KIND``)."""

AMRM_TOKEN = "AMRMToken"
"""The kind of a master's token for its attempt.

YARN's own kind is ``YARN_AM_RM_TOKEN``; here kinds name the class of token, as the container's does.
"""

AMRM_PROXY_TOKEN = "AMRMProxyToken"
"""The kind of the tokens that a node's AMRMProxy gives to masters instead of the RM's; the RM does not
accept them."""


def machine_ms(now: float) -> int:
    """A time of the machines' clock in milliseconds, by which tokens expire.

    It is CLOCK_MONOTONIC, which is the same in all processes since the boot of the host: it is independent of
    the wall clock, and stops while the host is suspended, as the deadlines of the RM do.
    """
    return int(now * 1000)


def derive_key(secret: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose, so that a token of one kind is never accepted as another kind."""
    return hmac.digest(secret, purpose.encode(), "sha256")


def sign(key: bytes, kind: str, payload: dict[str, Any]) -> Token:
    """A token with ``payload``, which must be valid for JSON; ``expires_ms`` in it (``machine_ms``) is
    its expiry."""
    identifier = json.dumps(payload, separators=(",", ":"), ensure_ascii=True)
    return Token(kind, identifier, _password(key, kind, identifier))


def container_token(
    key: bytes,
    container: Container,
    *,
    attempt_id: str,
    application_id: str,
    user: str,
    expires_ms: int,
    waiting_since_ms: int = 0,
    application_priority: int = 0,
) -> Token:
    """The token with the facts of a container that its node enforces (``ContainerTokenIdentifier``).

    ``waiting_since_ms`` is when its work began to wait, if it first waited in another container; otherwise 0.
    ``application_priority`` is the priority of its application.
    """
    payload = {
        "container_id": container.id,
        "node_id": container.node_id,
        "application_id": application_id,
        "attempt_id": attempt_id,
        "user": user,
        "memory": container.resource.memory,
        "vcores": container.resource.vcores,
        "execution_type": container.execution_type.value,
        "priority": container.priority,
        "version": container.version,
        "expires_ms": expires_ms,
    }
    if container.resource.others:
        payload["resources"] = {one.name: one.value for one in container.resource.others}
    if waiting_since_ms:
        payload["waiting_since_ms"] = waiting_since_ms
    if application_priority:
        payload["application_priority"] = application_priority
    return sign(key, CONTAINER_TOKEN, payload)


def resource_of(payload: dict[str, Any]) -> Resource:
    """The size in a container's token. Raises KeyError, TypeError or ValueError if it is missing
    or invalid."""
    others: dict[str, Any] = payload.get("resources") or {}
    more = others and counted({str(name): int(value) for name, value in others.items()})
    return Resource(int(payload["memory"]), int(payload["vcores"]), more or ())


def verify(key: bytes, token: Token, kind: str, *, now_ms: int) -> dict[str, Any]:
    """The payload of ``token``. Raises InvalidTokenError if it is of another kind, forged, malformed
    or expired."""
    if token.kind != kind:
        raise InvalidTokenError(f"a token of kind {token.kind!r} was shown where {kind} is wanted")
    expected = _password(key, kind, token.identifier)
    if not hmac.compare_digest(expected.encode(), token.password.encode("utf-8", "surrogatepass")):
        raise InvalidTokenError(f"the {kind} is not genuine", because="its signature does not match")
    try:
        payload = json.loads(token.identifier)
    except ValueError:
        raise InvalidTokenError(f"the {kind} is garbled") from None
    if not isinstance(payload, dict):
        raise InvalidTokenError(f"the {kind} is garbled")
    expires_ms = payload.get("expires_ms", 0)
    if isinstance(expires_ms, int) and 0 < expires_ms < now_ms:
        raise InvalidTokenError(
            f"the {kind} has expired",
            because=f"it was good until {expires_ms}, and it is {now_ms} (ms of CLOCK_MONOTONIC)",
        )
    return payload


def _password(key: bytes, kind: str, identifier: str) -> str:
    message = kind.encode("utf-8", "surrogatepass") + b"\0" + identifier.encode("utf-8", "surrogatepass")
    return hmac.digest(key, message, "sha256").hex()
