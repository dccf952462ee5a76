"""Checks of the slots: whether containers can start in existing cgroups, and whether foreign processes
are in these."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from executor.errors import ExecutorError
from executor.light import Record
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.cgroups.files import group_processes, root_of
from executor.linux.cgroups.slots import SLOT_PREFIX
from executor.linux.slots.journals import journal_path, read_journal
from executor.linux.slots.pool import most_slots
from executor.linux.slots.trial import Tried, try_slot
from executor.settings import ExecutorSettings

from ..rundir import RunDir
from .check import OK, WARN, Check, Examined

PROPERTY = "yopp.nodemanager.pooled-groups"
ONE_BY_ONE = "each container gets a cgroup of its own, if any, which costs more CPU"


def slots(examined: Examined) -> Iterator[Check]:
    """Whether a command runs in a slot, beside those of each running node; and processes in the nodes'
    slots that are not yopp's."""
    settings = examined.configuration.settings(ExecutorSettings)
    most = most_slots(settings.pooled_groups, os.uname().release)
    if not most:
        before = " before Linux 6.6" if settings.pooled_groups else ""
        held = _held_without(settings, examined)
        yield Check("slots", OK, f"none{before}: {PROPERTY} = {settings.pooled_groups}; {held}")
        return
    run_dir = examined.run_dir
    ports = [daemon.port for daemon in run_dir.daemons() if daemon.port]
    try:
        for port in ports:
            driver, name = discover(settings, group=run_dir.nm_group(port)), f"slots (nm-{port})"
            inside = _strangers(driver, run_dir, port)
            yield _tried(name, driver, most)
            # Processes that were just being ended at the first look have ended by now.
            again = _strangers(driver, run_dir, port)
            for slot in inside.keys() & again.keys():
                if pids := sorted(inside[slot].pids & again[slot].pids):
                    yield _strangers_found(name, again[slot].groups, pids)
        if not ports:
            driver = discover(settings, group=f"{run_dir.key}/doctor-{os.getpid()}")
            try:
                yield _tried("slots", driver, most)
            finally:
                with contextlib.suppress(ExecutorError, OSError):
                    driver.remove_parent()
    except ExecutorError as error:  # the check of the cgroups reports it, too
        yield _cannot("slots", error.message, error.because, error.hint)


def _cannot(name: str, trouble: str, because: str = "", fix: str = "") -> Check:
    fix = fix or f"or accept this: -D{PROPERTY}=0"
    return Check(name, WARN, f"none can be created: {trouble}", because or ONE_BY_ONE, fix)


def _tried(name: str, driver: CgroupDriver, most: int) -> Check:
    try:
        driver.create_parent()
        with tempfile.TemporaryDirectory(prefix="yopp-doctor-") as directory:
            tried = try_slot(driver, directory, 1)
    except ExecutorError as error:
        return _cannot(name, error.message, error.because, error.hint)
    except OSError as error:
        return _cannot(name, str(error))
    if not tried.trouble:
        return Check(name, OK, f"a command runs in one; up to {most}; {_held(tried)}")
    full = driver.full_group()
    fix = f"a greater limit, or none: `echo max > {full}/pids.max`" if full else ""
    return _cannot(name, tried.trouble, fix=fix or "; ".join(driver.describe().hints))


def _held(tried: Tried) -> str:
    if tried.confined:
        return "containers cannot change their limits, groups or records"
    why = (
        "the kernel has no mount namespaces, or they are not permitted"
        if os.geteuid() == 0
        else "yopp does not run as root"
    )
    return f"containers can change their own limits and records: {why}"


def _held_without(settings: ExecutorSettings, examined: Examined) -> str:
    """Whether containers without a slot can change their limits, as a text."""
    if not settings.confined_containers:
        return "containers can change their own limits and records: yopp.nodemanager.confined-containers is false"
    if os.geteuid() != 0:
        return _held(Tried())
    try:
        driver = discover(settings, group=f"{examined.run_dir.key}/doctor-{os.getpid()}")
        driver.create_parent()
        try:
            with tempfile.TemporaryDirectory(prefix="yopp-doctor-") as directory:
                tried = try_slot(driver, directory, 0)
                return f"no container can be started: {tried.trouble}" if tried.trouble else _held(tried)
        finally:
            driver.remove_parent()
    except (ExecutorError, OSError) as error:
        return f"it is unknown whether containers can change their limits: {str(error).splitlines()[0]}"


class Strangers(Record):
    """The processes in a slot that holds no container, except its launcher; and the slot's cgroups, one per
    hierarchy."""

    groups: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()


def _strangers(driver: CgroupDriver, run_dir: RunDir, port: int) -> dict[str, Strangers]:
    """The foreign processes in the slots of a running node, by slot."""
    found: dict[str, Strangers] = {}
    for parent in dict.fromkeys(driver.describe().locations.values()):
        with contextlib.suppress(OSError):
            for entry in os.scandir(parent):
                if not entry.name.startswith(SLOT_PREFIX):
                    continue
                journal = read_journal(journal_path(run_dir.records_dir(port), entry.name))
                pids = frozenset(group_processes(entry.path)) - {journal.launcher}
                if pids and not (journal.begun and journal.begun[-1].code is None):
                    before = found.get(entry.name, Strangers())
                    found[entry.name] = Strangers((*before.groups, entry.path), before.pids | pids)
    return found


def _strangers_found(name: str, groups: tuple[str, ...], pids: list[int]) -> Check:
    roots = " ".join(f"{root_of(group)}/cgroup.procs" for group in groups)
    return Check(
        name,
        WARN,
        f"{groups[0]} is not used: it contains processes that are not yopp's: {' '.join(map(str, pids))}",
        "containers do not share a cgroup; these processes are ended with their node",
        f"end these processes, or move each of them out: `echo {pids[0]} | tee {roots}`",
    )
