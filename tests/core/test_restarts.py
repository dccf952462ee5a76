"""When a daemon that died is started again, with literal times."""

from __future__ import annotations

import pytest

from executor.light import replace
from yarnopp_cli.machine.restarts import (
    LONGEST_PAUSE,
    STEADY_SECONDS,
    DaemonGivenUp,
    DaemonRestarted,
    Watched,
    pause,
)
from yarnopp_cli.records.history import GetEventsRequest

from .rm_harness import Cluster

pytestmark = pytest.mark.pure
DIED = Watched(pid=7, start=100, boot_id="b")


def test_the_first_try_is_at_once_and_later_ones_wait_ever_longer() -> None:
    assert pause(DIED, 50.0, 10) == 0.0
    waits = [pause(replace(DIED, tries=tries, tried_at=1000.0), 1000.0, 20) for tries in range(1, 11)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, LONGEST_PAUSE])


def test_time_that_has_passed_since_the_last_try_counts() -> None:
    tried = replace(DIED, tries=3, tried_at=1000.0)
    assert pause(tried, 1000.25, 10) == pytest.approx(0.15)
    assert pause(tried, 1001.0, 10) == 0.0


def test_tries_are_bounded_until_it_has_run_steadily() -> None:
    tried = replace(DIED, tries=3, tried_at=1000.0)
    assert pause(tried, 1000.0 + STEADY_SECONDS - 1, 3) is None
    assert pause(tried, 1000.0 + STEADY_SECONDS, 3) == 0.0


@pytest.mark.parametrize("kept", [True, False])
def test_events_tell_of_restarts_and_of_what_is_lost(kept: bool) -> None:
    cluster = Cluster(recovery_enabled=kept)
    cluster.node("h1:45454")
    for told in (
        DaemonRestarted("rm", "nm-45454", 1, 7),
        DaemonRestarted("nm-45454", "rm", 2, 8),
        DaemonGivenUp("nm-45454", "rm", 10, "no room"),
    ):
        cluster._take(cluster.rm.handle(told, cluster.now))
    rm, nm, given_up = cluster.ask(GetEventsRequest()).events[-3:]
    assert (rm.kind.value, rm.node, rm.words["daemon"], rm.numbers) == (
        "DaemonRestarted",
        "",
        "rm",
        {"tries": 1},
    )
    assert ("its applications are lost" in rm.why) is not kept
    assert (nm.kind.value, nm.node, nm.why) == ("DaemonRestarted", "h1:45454", "process 8 died")
    assert (given_up.kind.value, given_up.numbers, given_up.why) == (
        "DaemonGivenUp",
        {"tries": 10},
        "no room",
    )
