"""Restarts one daemon that has died: the separate process that a daemon runs for another one that it watches.

It decides under the lock of the run directory, while no other command starts or stops daemons. A command that
stopped the cluster or that daemon meanwhile has removed the daemon's ``.watched`` file. The answer is one
line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import json
import os
import resource
from collections.abc import Sequence

from executor.light import Record

from ..errors import YoppError
from ..machine.restarts import Watched
from .launching import START_SECONDS, WATCHED, Launch, Order, nodemanager, resourcemanager
from .obstacles import clear_obstacles
from .plan import read_plan
from .rundir import RunDir
from .watched import count_a_try, has_died, read_watched


class Outcome(enum.StrEnum):
    """The result. UNWANTED: the daemon already runs, or it or the daemon that asks has been stopped
    by a command."""

    STARTED = "STARTED"
    UNWANTED = "UNWANTED"
    FAILED = "FAILED"


class Answer(Record):
    """The answer. ``tries`` counts this try; ``why`` is the reason of a failure."""

    outcome: Outcome
    tries: int = 0
    why: str = ""


def start_again(
    run_dir: RunDir, name: str, by: str, *, unwatched: bool = False, timeout: float = START_SECONDS
) -> Answer:
    """Start the dead daemon ``name`` for the daemon ``by``, if ``name`` is still wanted and ``by`` has
    not been stopped. If ``by`` has died meanwhile, the daemon that starts restarts it.

    ``unwatched``: no daemon would restart ``by``.
    """
    died: Watched | None = None
    try:
        # The lock file is created with the directory: a directory that was removed must not be created again.
        if not os.path.exists(run_dir.lock_file) or has_died(run_dir, name) is None:
            return Answer(Outcome.UNWANTED)
        with run_dir.lock(timeout):
            clear_obstacles(run_dir)
            died = has_died(run_dir, name)
            stopped = not unwatched and read_watched(run_dir, by) is None
            if died is None or stopped or (unwatched and run_dir.daemon(by) is None):
                return Answer(Outcome.UNWANTED)
            order = _order(run_dir, name, by, died)
            if order is None:
                return Answer(Outcome.UNWANTED)
            died = count_a_try(run_dir, name, died)
            launch = Launch(run_dir, [order], timeout=timeout, grace=0.0)
            launch.begin()
        with launch.undone_on_failure():
            launch.finish()
    except YoppError as error:
        return Answer(Outcome.FAILED, died.tries if died is not None else 0, error.brief)
    except OSError as error:
        return Answer(Outcome.FAILED, why=str(error))
    return Answer(Outcome.STARTED, died.tries)


def _order(run_dir: RunDir, name: str, by: str, died: Watched) -> Order | None:
    """How the daemon is started; None if the cluster has no such daemon any more."""
    plan = read_plan(run_dir)
    if plan is None or not os.path.exists(run_dir.site_file):
        return None
    more = (WATCHED, "--restarted-by", by, "--died", str(died.pid), "--tries", str(died.tries + 1))
    if name == "rm":
        return resourcemanager(run_dir, plan.lifetime, *more)
    node = next((one for one in plan.nodes if one.name == name), None)
    return None if node is None else nodemanager(run_dir, node, plan.lifetime, *more)


def main(argv: Sequence[str]) -> int:
    """``restart --run-dir DIR --name NAME --by NAME --files N``: print the answer."""
    parser = argparse.ArgumentParser(prog="python -m yarnopp_cli.daemons restart", allow_abbrev=False)
    parser.add_argument("--run-dir", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--by", required=True)
    parser.add_argument("--unwatched", action="store_true", help="the daemon that asks is not watched itself")
    parser.add_argument(
        "--files", type=int, default=0, help="the soft limit of open files, 0: this process's"
    )
    arguments = parser.parse_args(argv)
    if (
        arguments.files
    ):  # the daemon that asks has raised its own limit; containers must have the users' limit
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (arguments.files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    answer = start_again(
        RunDir.of(arguments.run_dir), arguments.name, arguments.by, unwatched=arguments.unwatched
    )
    with contextlib.suppress(OSError):  # the daemon that asks may have ended meanwhile
        os.write(
            1, json.dumps({name: getattr(answer, name) for name in ("outcome", "tries", "why")}).encode()
        )
    return 0
