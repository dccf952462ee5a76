"""Ids with more digits than Python reads as a number are no ids, and no bug."""

from __future__ import annotations

import pytest

from yarnopp_cli.errors import InvalidIdError
from yarnopp_cli.records.ids import ApplicationAttemptId, ApplicationId, ContainerId

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
