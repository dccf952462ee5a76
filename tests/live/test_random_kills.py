"""The RM and the NMs are killed at random while 500 short tasks run: all end well, and none that did runs again.

Each round is one job and some kills. ``YOPP_KILL_ROUNDS`` is how many rounds there are (10), ``YOPP_KILL_SEED`` the
seed of their choices, which is printed, and ``YOPP_KILL_MODES`` the words of those modes that are to run.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from yarnopp_cli.cluster.processes import wait_for_end
from yarnopp_cli.cluster.rundir import RunDir

from .conftest import ROOT, Yopp, wait_until

TASKS = 500
KILLS = 2
"""How often daemons are killed in a round."""
ROUNDS = int(os.environ.get("YOPP_KILL_ROUNDS", "10"))
SEED = int(os.environ.get("YOPP_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
MODES = [f"{where} {how}" for where in ("central", "distributed") for how in ("pausing", "killing")]
CHOSEN = [mode for mode in MODES if set(os.environ.get("YOPP_KILL_MODES", "").split()) <= set(mode.split())]

pytestmark = [pytest.mark.live, pytest.mark.timeout(60 + 60 * ROUNDS)]

SCRIPT = "sleep 0.01; trap '' TERM; echo $YOPP_TASK >> {}"
"""What a task does. Whoever ends it cannot come between the line that it adds and its end."""


def words_of(mode: str) -> list[str]:
    """``up`` of a cluster of two nodes, started again where it is not whole."""
    pausing = str(mode.endswith("pausing")).lower()
    words = ["up", "--nodes", "2", "--vcores", "2", "--memory", "1024"]
    if mode.startswith("distributed"):
        words += [
            "--conf",
            str(ROOT / "configs" / "distributed.toml"),
            "-Dyarn.nodemanager.amrmproxy.address=0.0.0.0:0",
        ]
    return [
        *words,
        "-Dyarn.resourcemanager.recovery.enabled=true",
        f"-Dyarn.nodemanager.opportunistic-containers-use-pause-for-preemption={pausing}",
    ]


def ended_well(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def kill_some(run_dir: RunDir, chance: random.Random) -> str:
    """Kill one daemon or, sometimes, all at the same moment; their names."""
    daemons = run_dir.daemons()
    chosen = daemons if chance.random() < 0.2 else [chance.choice(daemons)]
    for daemon in chosen:
        daemon.process.send(signal.SIGKILL)
    assert not wait_for_end([daemon.process for daemon in chosen], 10)
    return "+".join(daemon.name for daemon in chosen)


def play(yopp: Yopp, mode: str, seed: int) -> None:
    """One round."""
    chance = random.Random(seed)
    log = yopp.home / f"ended-{seed}"
    places = sorted(chance.sample(range(5, TASKS - 50), KILLS))
    script = SCRIPT.format(log)
    job = yopp(
        "run", "-q", "-d", "-O", "--memory", "32", "-n", str(TASKS), "--", "sh", "-c", script
    ).stdout.strip()
    claim = ""
    for place in places:
        wait_until(lambda place=place: len(ended_well(log)) >= place, 60, f"{place} tasks have ended")
        if not claim:
            words = ("-n", "4", "--memory", "400", "--", "sleep", "0.2")
            claim = yopp("run", "-q", "-d", "-G", *words).stdout.strip()
        killed = kill_some(RunDir.of(str(yopp.run_dir)), chance)
        print(f"  after {place}: killed {killed}")
        yopp(*words_of(mode))
    assert yopp("wait", job, claim, timeout=60).returncode == 0
    again = {task: count for task, count in Counter(ended_well(log)).items() if count > 1}
    assert not again, "they ran again although they had ended well"
    assert set(ended_well(log)) == {str(number) for number in range(1, TASKS + 1)}
    summary = yopp.json("app", "status", job)["app"]
    assert (summary["state"], summary["finalStatus"]) == ("FINISHED", "SUCCEEDED")


@pytest.mark.parametrize("mode", CHOSEN)
def test_no_task_is_lost_or_done_twice_whoever_is_killed(yopp: Yopp, mode: str) -> None:
    yopp(*words_of(mode))
    place = MODES.index(mode)
    for number in range(place, ROUNDS, len(MODES)):
        seed = SEED + number
        print(f"round {number}: {mode}, YOPP_KILL_SEED={SEED}")
        play(yopp, mode, seed)
