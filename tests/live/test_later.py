"""Jobs that begin later, in a real cluster: chains, times, deadlines and what they exit with."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .conftest import Yopp, a_yopp

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def cluster() -> Iterator[Yopp]:
    with a_yopp(Yopp) as program:
        program("up", "--vcores", "2", "--memory", "1024")
        yield program


def test_a_chain_a_time_and_a_deadline(cluster: Yopp) -> None:
    first = cluster("run", "-q", "-d", "--", "sh", "-c", "sleep 1; exit 3").stdout.strip()
    never = cluster("run", "-q", "-d", "--after", first, "--", "true").stdout.strip()
    behind = cluster("run", "-q", "-d", "--after", never, "--", "true").stdout.strip()
    cleanup = cluster("run", "-q", "-d", "--after", f"{first}:failed", "--", "true").stdout.strip()
    waits = cluster.json("app", "status", behind)["app"]
    assert waits["state"] == "ACCEPTED" and waits["yopp"]["after"] == [f"{never}:ok"]
    assert f"It waits for {never} to succeed" in cluster("explain", behind).stdout
    cluster("wait", never, behind, code=125)
    cluster("wait", cleanup)
    begun = time.time()
    assert cluster("run", "--begin", "+1s", "--", "echo", "here").stdout == "here\n"
    assert time.time() - begun >= 1
    cluster("run", "--deadline", "+5s", "--", "sleep", "60", code=124)
    cluster("run", "--after", "999", "--", "true", code=66)
