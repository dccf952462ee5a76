"""Tokens: genuine ones pass, everything else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnopp_cli.errors import InvalidTokenError
from yarnopp_cli.machine.tokens import AMRM_TOKEN, CONTAINER_TOKEN, derive_key, sign, verify
from yarnopp_cli.records.requests import Token

KEY = derive_key(b"secret", CONTAINER_TOKEN)


def test_what_was_signed_is_what_is_verified() -> None:
    payload = {"container_id": "container_1_0001_01_000001", "memory": 512, "expires_ms": 2000}
    token = sign(KEY, CONTAINER_TOKEN, payload)
    assert verify(KEY, token, CONTAINER_TOKEN, now_ms=2000) == payload


def test_an_expired_token_is_refused() -> None:
    token = sign(KEY, CONTAINER_TOKEN, {"expires_ms": 2000})
    with pytest.raises(InvalidTokenError, match="expired"):
        verify(KEY, token, CONTAINER_TOKEN, now_ms=2001)


def test_another_kind_or_key_is_refused() -> None:
    token = sign(KEY, CONTAINER_TOKEN, {})
    with pytest.raises(InvalidTokenError, match="kind"):
        verify(KEY, token, AMRM_TOKEN, now_ms=0)
    with pytest.raises(InvalidTokenError, match="genuine"):
        verify(KEY, replace(token, kind=AMRM_TOKEN), AMRM_TOKEN, now_ms=0)
    with pytest.raises(InvalidTokenError, match="genuine"):
        verify(derive_key(b"secret", AMRM_TOKEN), token, CONTAINER_TOKEN, now_ms=0)


@given(st.text(), st.text())
def test_nothing_invented_passes(identifier: str, password: str) -> None:
    with pytest.raises(InvalidTokenError):
        verify(KEY, Token(CONTAINER_TOKEN, identifier, password), CONTAINER_TOKEN, now_ms=0)


def test_a_signed_text_that_is_no_object_is_refused() -> None:
    genuine = sign(KEY, CONTAINER_TOKEN, [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidTokenError, match="garbled"):
        verify(KEY, genuine, CONTAINER_TOKEN, now_ms=0)
