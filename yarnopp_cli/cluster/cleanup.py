"""Removes what dead nodes of a cluster left on this host: processes of containers, cgroups,
directories and records.

It touches only what belongs to this run directory: cgroups below ``<hierarchy>/<key of the run directory>``,
the processes that the nodes' records name by pid and start time, and those that carry the mark of a node's
records (``executor.linux.slots.marks``). It never searches by a program's name.

Each start of a cluster looks for leftovers and rarely finds any, so the modules that remove them are
imported only when needed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator

from executor.errors import CgroupError, StateStoreError
from executor.hints import TYPE_CHECKING
from executor.light import Record
from executor.linux.cgroups.files import CGROUP_ROOT, group_processes, read_mounts, read_paths
from executor.linux.owners.ownership import refuse_others
from executor.linux.procfs import Traces, is_alive, members_of, scan
from executor.linux.slots.marks import Marked, marked_below
from executor.records import ContainerRecord, ContainerState
from executor.regular import read_regular
from executor.settings import ExecutorSettings
from executor.trees import remove_tree

from ..errors import reason_of
from ..settings.declarations import NodeManagerSettings
from .clientfiles import JOBS, clear_handed_over
from .processes import ProcessId
from .rundir import RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration

KILL_SECONDS = 1.0
"""The time limit of all kills together, in seconds."""
REMOVE_SECONDS = 2.0
_NODE = re.compile(r"nm-([1-9][0-9]{0,4})")


class Places(Record):
    """The places where the nodes of a run directory keep their files: the ``hierarchy`` of their cgroups, and their
    ``local_dirs``; and the user as whom all containers run, "" if they run as their submitters."""

    hierarchy: str
    local_dirs: str
    local_user: str = ""


def places(run_dir: RunDir, configuration: Configuration | None) -> Places:
    """The places according to the configuration that the nodes ran with, or to the defaults if
    that is lost."""
    if configuration is None:
        return Places(ExecutorSettings().cgroups_hierarchy, os.path.join(run_dir.state_dir, "nm-local-dir"))
    executor = configuration.settings(ExecutorSettings)
    user = executor.local_user if executor.limit_users else ""
    return Places(executor.cgroups_hierarchy, configuration.settings(NodeManagerSettings).local_dirs, user)


class Cleared(Record):
    """The ids of the containers that were ended, the cgroups that were removed, and the problems,
    a line each."""

    containers: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def records(run_dir: RunDir, ports: frozenset[int] | None = None) -> tuple[ContainerRecord, ...]:
    """The nodes' records of containers that have not ended; of the nodes at ``ports``, or of all.

    Records that cannot be read, such as those of a newer version, are left out; ``has_records`` counts them.
    """
    found: list[ContainerRecord] = []
    for port in _node_ports(run_dir, ports):
        with contextlib.suppress(StateStoreError):
            found += _stored(run_dir, port)
    return tuple(record for record in found if record.state is not ContainerState.DONE)


def _stored(run_dir: RunDir, port: int) -> list[ContainerRecord]:
    """All records of a node. Raises StateStoreError."""
    directory = run_dir.records_dir(port)
    if not os.path.isdir(directory):
        return []
    from executor.linux.store import StateStore

    return StateStore(directory).load_all(tidy=False)


def live_records(run_dir: RunDir) -> tuple[ContainerRecord, ...]:
    """The records whose container is still running."""
    return tuple(record for record in records(run_dir) if is_alive(record.pid, record.process_start))


def known_ports(run_dir: RunDir, where: Places) -> set[int]:
    """The ports of all nodes, running or not, that have records or cgroups of this run directory."""
    ports = {port for port in _node_ports(run_dir) if has_records(run_dir, port)}
    ports |= {_port(group) for group in groups(run_dir, where.hierarchy)}
    return ports | set(_pools(run_dir))


def _pools(run_dir: RunDir) -> dict[int, list[Marked]]:
    """The processes of the nodes' pools, by port: a stopped zygote outlives its node, and is in no cgroup
    and no record."""
    if not os.path.isdir(run_dir.state_dir):
        return {}
    found: dict[int, list[Marked]] = {}
    top = os.path.realpath(run_dir.state_dir)
    for one in marked_below(top):
        name = os.path.relpath(one.state, top).partition("/")[0]
        if _NODE.fullmatch(name):
            found.setdefault(_port(name), []).append(one)
    return found


def has_records(run_dir: RunDir, port: int) -> bool:
    """Whether the node at that port has left records, readable or not."""
    try:
        return bool(_stored(run_dir, port))
    except StateStoreError:
        return True


def _port(path: str) -> int:
    return int(os.path.basename(path).removeprefix("nm-"))


def _node_ports(run_dir: RunDir, among: frozenset[int] | None = None) -> list[int]:
    """The ports of the nodes that have a state directory; only those in ``among``, if given."""
    try:
        names = os.listdir(run_dir.state_dir)
    except OSError:
        return []
    return sorted(
        _port(name) for name in names if _NODE.fullmatch(name) and (among is None or _port(name) in among)
    )


def groups(run_dir: RunDir, hierarchy: str) -> tuple[str, ...]:
    """The cgroups of this run directory's nodes: ``<base>/<hierarchy>/<key>/nm-<port>`` in every
    mounted hierarchy.

    The bases are those from which a node chooses: the mount point, the cgroup of this process and its parent,
    and the bases that nodes have recorded. A cgroup that another user has made there is none of a node.
    """
    found: dict[str, None] = {}
    for base in _bases(run_dir):
        parent = os.path.join(base, _level(run_dir, hierarchy))
        with contextlib.suppress(OSError):
            for path in sorted(one.path for one in os.scandir(parent) if _NODE.fullmatch(one.name)):
                if os.stat(path).st_uid == os.geteuid():
                    found[path] = None
    return tuple(found)


def _level(run_dir: RunDir, hierarchy: str) -> str:
    """The path, below a base, of the cgroup that holds those of this run directory's nodes."""
    return os.path.join(hierarchy.strip("/"), run_dir.key)


def _bases(run_dir: RunDir) -> Iterator[str]:
    """The directories below which nodes may have created their cgroups, each within a mounted hierarchy."""
    try:
        mounts, own = read_mounts("/proc", CGROUP_ROOT), read_paths("/proc")
    except OSError:
        return
    noted = set(_noted_bases(run_dir))
    for mount in mounts:
        here = mount.directory_in(own)
        # A process that had to move to a leaf (v2) created its cgroups beside that leaf.
        candidates = [mount.point, here, None if here is None else os.path.dirname(here), *sorted(noted)]
        for base in candidates:
            if base is not None and (base == mount.point or base.startswith(mount.point + "/")):
                yield base


def _noted_bases(run_dir: RunDir) -> Iterator[str]:
    """The places of their cgroups that nodes have recorded (``cgroups.json``)."""
    for port in _node_ports(run_dir):
        try:
            noted = json.loads(read_regular(run_dir.cgroups_file(port)))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(noted, dict):
            yield from (os.path.normpath(str(path)) for path in noted.values())


def clear(run_dir: RunDir, where: Places, *, ports: frozenset[int] | None = None) -> Cleared:
    """End the containers that dead nodes left, and remove their cgroups, records and private directories.

    ``ports`` selects the nodes, None all of them. The caller holds the run directory's lock and has made sure
    that none of these nodes is running. The output of containers is kept.
    """
    ended: list[str] = []
    problems: list[str] = []
    deadline = time.monotonic() + KILL_SECONDS
    bases = tuple(dict.fromkeys(_bases(run_dir)))
    removed = [group for group in groups(run_dir, where.hierarchy) if ports is None or _port(group) in ports]
    unreadable: set[int] = set()
    _end_pools(run_dir, ports)  # before anything else, so that no zygote starts further launchers
    for port in _node_ports(run_dir, ports):
        try:
            found = _stored(run_dir, port)
        except StateStoreError as error:
            unreadable.add(port)
            problems.append(f"{error.brief}; {error.hint}")
            continue
        for record in found:
            user = where.local_user or record.spec.user
            if record.state is not ContainerState.DONE and _end(record, user, deadline, problems):
                ended.append(record.spec.container_id)
    for group in removed:
        _remove_group(group, deadline, problems)
    _remove_levels(bases, _level(run_dir, where.hierarchy))
    for port in _node_ports(run_dir, ports):
        if port in unreadable:
            continue  # without the records, its containers could not be found any more
        _remove_directory(run_dir.nm_state_dir(port), problems)
        _remove_directory(os.path.join(where.local_dirs, f"{run_dir.key}-nm-{port}"), problems)
    if ports is None:
        clear_handed_over(os.path.join(run_dir.state_dir, JOBS))
    with contextlib.suppress(OSError):  # other nodes may still use the directory
        os.rmdir(where.local_dirs)
    return Cleared(tuple(ended), tuple(removed), tuple(problems))


def _end_pools(run_dir: RunDir, ports: frozenset[int] | None) -> None:
    for port, pool in _pools(run_dir).items():
        if ports is None or port in ports:
            for one in pool:
                ProcessId(one.pid, one.start).send(signal.SIGKILL)


def _remove_directory(path: str, problems: list[str]) -> None:
    try:
        refuse_others(path)
        errors = remove_tree(path)
    except OSError as refusal:
        errors = [refusal]
    for error in errors:
        if error.errno != errno.ENOENT:
            problems.append(f"{error.filename or path} cannot be removed: {reason_of(error)}")


def _end(record: ContainerRecord, user: str, deadline: float, problems: list[str]) -> bool:
    """SIGKILL all processes of a recorded container that runs as this user. False if it has already ended."""
    if not record.pid or not is_alive(record.pid, record.process_start):
        return False
    from executor.linux.cgroups.groups import kill_until_empty
    from executor.linux.owners.accounts import user_id

    container_id, begun = record.spec.container_id, time.monotonic()
    users: tuple[int, ...] = (os.getuid(),)
    with contextlib.suppress(OSError):
        users += () if (other := user_id(user)) is None else (other,)
    traces = Traces(record.pid, record.process_start, b"CONTAINER_ID=" + os.fsencode(container_id), users)

    def members() -> list[int]:
        return [entry.pid for entry in members_of(traces, scan())]

    try:
        kill_until_empty(container_id, members, patience=lambda: deadline - begun)
    except CgroupError as error:
        problems.append(str(error))
    return True


def _remove_group(group: str, deadline: float, problems: list[str]) -> None:
    from executor.linux.cgroups.groups import kill_until_empty, remove_groups

    begun = time.monotonic()
    try:
        kill_until_empty(group, lambda: group_processes(group), patience=lambda: deadline - begun)
    except CgroupError as error:
        problems.append(str(error))
        return
    if not remove_groups((group,), REMOVE_SECONDS):
        problems.append(f"the cgroup {group} cannot be removed")


def _remove_levels(bases: Iterable[str], level: str) -> None:
    """Remove the cgroup that held those of the nodes, and empty ones above it, also where none of a node is left: one
    that was killed at its end may have removed its own and not yet this one."""
    from executor.linux.cgroups.groups import remove_upwards

    for base in bases:
        if os.path.isdir(os.path.join(base, level)):
            remove_upwards(base, level)
