"""Which daemons of a run directory are to be started again if they die: ``<name>.watched``, one file each.

A daemon writes its file when it serves, and removes it when it is asked to end. So the file of a dead process says that
nobody wanted that end. Whoever stops daemons removes their files, also those of daemons that have died.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time

from executor.light import pattern, replace
from executor.linux.procfs import boot_id, is_alive
from executor.regular import NotRegularError, read_regular

from ..errors import YoppError
from ..machine.restarts import Watched, tries_so_far
from ..rpc.plain import decode, encode
from .processes import ProcessId
from .rundir import STAY, RunDir, read_plan

_FILE = pattern(r"(rm|nm-\d{1,5})\.watched")


def seconds_since_boot() -> float:
    """The clock of restarts: no step of the wall clock moves it, and it counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def watched_names(run_dir: RunDir) -> tuple[str, ...]:
    """The names of the daemons that are to be started again, running or dead."""
    try:
        found = sorted(os.listdir(run_dir.path))
    except OSError:
        return ()
    return tuple(match[1] for match in map(_FILE.fullmatch, found) if match)


def read_watched(run_dir: RunDir, name: str) -> Watched | None:
    """What is known of a daemon that is to be started again; None where it is not to be, or nobody can tell now."""
    with contextlib.suppress(OSError):
        return read_surely(run_dir, name)
    return None


def read_surely(run_dir: RunDir, name: str) -> Watched | None:
    """The same. Raises OSError where the file cannot be read now: nobody is forgotten for want of a descriptor."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, NotRegularError):
        text = read_regular(os.path.join(run_dir.path, f"{name}.watched"))
        with contextlib.suppress(ValueError, RecursionError, YoppError):
            return decode(Watched, json.loads(text))
    return None


def write_watched(run_dir: RunDir, name: str, watched: Watched) -> None:
    """Have this daemon started again if it dies. Raises YoppError where the file cannot be written."""
    run_dir.write(f"{name}.watched", json.dumps(encode(watched)) + "\n")


def watch_this_process(run_dir: RunDir, name: str) -> None:
    """Have this process, which is the daemon ``name``, started again if it dies. Raises YoppError."""
    process = ProcessId.of(os.getpid())
    assert process is not None  # it is running this
    earlier = read_watched(run_dir, name) or Watched(0, 0)
    tries = tries_so_far(earlier, seconds_since_boot()) if earlier.boot_id == boot_id() else 0
    made = Watched(process.pid, process.start, boot_id(), tries, earlier.tried_at if tries else 0.0)
    write_watched(run_dir, name, made)


def count_a_try(run_dir: RunDir, name: str, watched: Watched) -> Watched:
    """Note that a dead daemon is being started again. Raises YoppError where that cannot be written."""
    now = seconds_since_boot()
    counted = replace(watched, tries=tries_so_far(watched, now) + 1, tried_at=now)
    write_watched(run_dir, name, counted)
    return counted


def forget_watched(run_dir: RunDir, *names: str) -> None:
    """These daemons are not to be started again; without names, none is."""
    for name in names or watched_names(run_dir):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(run_dir.path, f"{name}.watched"))


def has_died(run_dir: RunDir, name: str) -> Watched | None:
    """A daemon that is to be started again and has died, in this boot; None for any other.

    That its process has gone is known by pid, start time and boot; that no other has its place, by the lock of the pid
    file. Raises OSError where that cannot be read now.
    """
    watched = read_surely(run_dir, name)
    if watched is None:
        return None
    now = boot_id()
    if watched.boot_id and not now:
        raise OSError(errno.EIO, "the kernel does not say which start of the machine this is")
    if watched.boot_id != now or is_alive(watched.pid, watched.start):
        return None
    return None if run_dir.daemon(name) is not None else watched


def may_return(run_dir: RunDir) -> bool:
    """Whether a cluster whose RM is lost still exists: its RM runs, or is to be started again, or daemons are being
    started or stopped now, or it is one that stays, whose RM somebody has stopped."""
    if run_dir.daemon("rm") is not None or read_watched(run_dir, "rm") is not None or run_dir.is_changing():
        return True
    plan = read_plan(run_dir)
    return plan is not None and plan.lifetime == STAY and os.path.exists(run_dir.site_file)
