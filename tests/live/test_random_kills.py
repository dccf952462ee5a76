"""Daemons, masters in containers, and launchers are killed at random while 500 short tasks run, opportunistic and
guaranteed: all end well, and none that did runs again.

Each round is two jobs and some kills. ``YOPP_KILL_ROUNDS`` is how many rounds there are (4), ``YOPP_KILL_SEED`` the
seed of their choices, which is printed, and ``YOPP_KILL_MODES`` the words of those modes that are to run.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from executor.linux.procfs import read_bytes
from executor.linux.slots.marks import marked_below
from yarnopp_cli.cluster.processes import ProcessId, wait_for_end
from yarnopp_cli.cluster.rundir import RunDir

from .conftest import ROOT, Yopp, wait_until

TASKS = {"-O": 300, "-G": 200}
"""How many of each type, each type a job of its own."""
ALL = sum(TASKS.values())
KILLS = 4
"""How often something is killed in a round; daemons twice, at most and mostly."""
ROUNDS = int(os.environ.get("YOPP_KILL_ROUNDS", "4"))
SEED = int(os.environ.get("YOPP_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
MODES = (
    "central pausing slots",
    "central killing outside",
    "distributed pausing outside",
    "distributed killing slots",
)
CHOSEN = [mode for mode in MODES if set(os.environ.get("YOPP_KILL_MODES", "").split()) <= set(mode.split())]

pytestmark = [pytest.mark.live, pytest.mark.timeout(60 + 60 * ROUNDS)]

SCRIPT = "sleep 0.01; trap '' TERM; echo $YOPP_TASK >> {}"
"""What a task does. Who ends it cannot come between the line that it adds and its end, but for who kills what tells its
end."""


def words_of(mode: str) -> list[str]:
    """``up`` of a cluster of two nodes, started again where it is not whole."""
    where, how, starts = mode.split()
    words = ["up", "--nodes", "2", "--vcores", "2", "--memory", "1024"]
    if where == "distributed":
        words += [
            "--conf",
            str(ROOT / "configs" / "distributed.toml"),
            "-Dyarn.nodemanager.amrmproxy.address=0.0.0.0:0",
        ]
    if starts == "outside":
        words.append("-Dyopp.nodemanager.pooled-groups=0")
    return [
        *words,
        "-Dyarn.resourcemanager.recovery.enabled=true",
        "-Dyarn.resourcemanager.am.max-attempts=100",
        # tests beside this one are load outside, to which opportunistic containers would leave the CPU for minutes
        "-Dyopp.nodemanager.group-weights=false",
        "-Dyopp.nodemanager.pressure.enabled=false",
        "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=20000",
        f"-Dyarn.nodemanager.opportunistic-containers-use-pause-for-preemption={str(how == 'pausing').lower()}",
    ]


def ended_well(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def masters_of(run_dir: RunDir) -> list[int]:
    """The masters that run in containers of this cluster."""
    state = os.fsencode(run_dir.state_dir)
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit()
        and b"yarnopp_cli.daemons.applicationmaster" in read_bytes(f"/proc/{name}/cmdline")
        and state in read_bytes(f"/proc/{name}/environ")
    ]


def starters_of(run_dir: RunDir) -> list[int]:
    """What starts containers here and tells their ends: zygotes and launchers."""
    return [one.pid for one in marked_below(run_dir.state_dir)]


FOUND: dict[str, Callable[[RunDir], list[int]]] = {
    "daemons": lambda _: [],
    "starters": starters_of,
    "masters": masters_of,
}


class Round:
    """Two jobs at once."""

    def __init__(self, yopp: Yopp, mode: str, seed: int) -> None:
        self.yopp, self.mode, self.chance = yopp, mode, random.Random(seed)
        self.run_dir = RunDir.of(str(yopp.run_dir))
        self.logs = {kind: yopp.home / f"ended{kind}-{seed}" for kind in TASKS}
        self.jobs = [self.begin(kind) for kind in TASKS]
        self.daemons = 2
        """How often daemons may still be killed."""
        self.unsure = 0
        """How many containers at most have ended, and nobody could tell how."""

    def begin(self, kind: str) -> str:
        words = ("-q", "-d", kind, "--retries", "50", "--memory", "32", "-n", str(TASKS[kind]))
        script = SCRIPT.format(self.logs[kind])
        return self.yopp("run", *words, "--", "sh", "-c", script).stdout.strip()

    @property
    def ended(self) -> int:
        return sum(len(ended_well(log)) for log in self.logs.values())

    def kill_some(self) -> None:
        """A daemon or, sometimes, all at the same moment; or what is of a container, but not its own."""
        kinds = ["daemons"] * (2 * (self.daemons > 0)) + ["starters"]
        kinds += ["masters"] * self.mode.startswith("distributed")
        kind = self.chance.choice(kinds)
        if pids := sorted(FOUND[kind](self.run_dir)):
            pid = self.chance.choice(pids)
            process = ProcessId.of(pid)
            if process is not None:
                process.send(signal.SIGKILL)
            self.unsure += kind == "starters"
            print(f"  after {self.ended}: killed {pid}, one of the {kind}")
            return
        self.daemons -= 1
        daemons = self.run_dir.daemons()
        chosen = daemons if self.chance.random() < 0.2 else [self.chance.choice(daemons)]
        for daemon in chosen:
            daemon.process.send(signal.SIGKILL)
        assert not wait_for_end([daemon.process for daemon in chosen], 10)
        print(f"  after {self.ended}: killed {'+'.join(daemon.name for daemon in chosen)}")
        self.yopp(*words_of(self.mode))

    def play(self) -> None:
        yopp, claims = self.yopp, list[str]()
        for place in sorted(self.chance.sample(range(5, ALL - 50), KILLS)):
            wait_until(lambda place=place: self.ended >= place, 60, f"{place} tasks have ended")
            if not claims:
                words = ("--retries", "50", "-n", "4", "--memory", "400", "--", "sleep", "0.2")
                claims.append(yopp("run", "-q", "-d", "-G", *words).stdout.strip())
            self.kill_some()
        ended = yopp("wait", "--timeout", "2m", *self.jobs, *claims, timeout=150, code=None)
        if ended.returncode != 0:
            looks = [
                yopp(*words, code=None).stdout for words in (("app", "list", "-a"), ("ps",), ("node", "list"))
            ]
            looks += [yopp("explain", job, code=None).stdout for job in self.jobs]
            pytest.fail("\n".join([ended.stdout, ended.stderr, *looks]))
        again = 0
        for kind, number in TASKS.items():
            times = Counter(ended_well(self.logs[kind]))
            assert set(times) == {str(one) for one in range(1, number + 1)}, "none is lost"
            again += times.total() - number
        assert again <= self.unsure, "they ran again although they had ended well"
        for job in self.jobs:
            summary = yopp.json("app", "status", job)["app"]
            assert (summary["state"], summary["finalStatus"]) == ("FINISHED", "SUCCEEDED")


@pytest.mark.parametrize("mode", CHOSEN)
def test_no_task_is_lost_or_done_twice_whoever_is_killed(yopp: Yopp, mode: str) -> None:
    yopp(*words_of(mode))
    place = MODES.index(mode)
    for number in range(place, ROUNDS, len(MODES)):
        seed = SEED + number
        print(f"round {number}: {mode}, YOPP_KILL_SEED={SEED}")
        Round(yopp, mode, seed).play()
