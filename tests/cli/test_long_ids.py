"""Ids with more digits than Python reads as a number are no ids, and no bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yarnopp_cli.errors import InvalidIdError
from yarnopp_cli.records.ids import ApplicationAttemptId, ApplicationId, ContainerId

from .fake import Cluster

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ApplicationId, f"application_1_{LONG}"),
        (ApplicationId, f"application_{LONG}_0001"),
        (ApplicationAttemptId, f"appattempt_1_0001_{LONG}"),
        (ContainerId, f"container_1_0001_01_{LONG}"),
        (ContainerId, f"container_e{LONG}_1_0001_01_000001"),
    ],
    ids=["application", "timestamp", "attempt", "container", "epoch"],
)
def test_what_is_too_long_for_a_number_is_no_id(
    kind: type[ApplicationId | ApplicationAttemptId | ContainerId], text: str
) -> None:
    with pytest.raises(InvalidIdError):
        kind.parse(text)


def test_the_largest_that_java_has_is_read_back() -> None:
    most = 2**63 - 1
    text = f"container_e{most}_{most}_{most}_{most}_{most}"
    assert str(ContainerId.parse(text)) == text


@pytest.mark.parametrize("word", [LONG, f"{LONG}.1", f"1.{LONG}", f"{LONG}-{LONG}"])
@pytest.mark.parametrize("command", ["app status", "container status", "explain", "logs", "wait"])
def test_what_was_typed_may_have_as_many_digits_as_it_likes(
    cli: Callable[..., Any], cluster: Cluster, command: str, word: str
) -> None:
    assert cli(*command.split(), word).code == 66


def test_a_range_may_end_anywhere_and_numbers_begin_with_zeros(
    cli: Callable[..., Any], cluster: Cluster
) -> None:
    every = cli("app", "list", "-a", "-q").out
    assert every
    assert cli("app", "status", "-q", f"1-{LONG}").out.split() == sorted(every.split())
    assert cli("app", "status", "-q", f"{'0' * 5000}2").code == 0
    assert cli("node", "status", f"{LONG}-{LONG}").code == 66
    assert cli("events", "--since", LONG).code == 2


def test_amounts_as_the_reference_writes_them_are_numbers(cli: Callable[..., Any], cluster: Cluster) -> None:
    ended = cli("dshell", "-shell_command", "true", "-container_resources", f"memory-mb={LONG}")
    assert (ended.code, "is not a resource" in ended.err) == (2, True)
