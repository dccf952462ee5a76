"""The containers whose output `yopp logs` shows: from the cluster, or else from the files of ended clusters; for a
YARN cluster, output fetched from its nodes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from executor.records import ContainerState

from ...cluster.histories import read_history
from ...errors import (
    EXIT_NO_SUCH,
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    YoppError,
)
from ...jobs.logfiles import STREAMS, Stream, applications_on_disk, containers_on_disk
from ...records.client_protocol import GetContainersRequest
from ...records.ids import ApplicationId, application_of, numbered
from ...records.reports import FINAL_STATES, ContainerReport, FinalApplicationStatus, JobSummary, NodeReport
from ...views import applications as app_view
from ...views.containers import is_live, shell_code, shown_state
from ..frame.ended import ended_application
from ..frame.naming import OF_NAMED, applications, by_names, container, containers, is_container, jobs
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ...client.yarn import YarnClient
    from ...cluster.rundir import RunDir

LOG_DIRS = "yarn.nodemanager.log-dirs"
_MASTERS_FILES = ("AppMaster.stdout", "AppMaster.stderr")


@dataclass(slots=True)
class Target:
    """The containers whose output is shown: by id, or all of an application, with the facts known about
    them.

    ``expected`` is the number of containers that will have output, at least 2 if it is not known to be one.
    ``several``: a job is known to have several tasks, so that each keeps its number even if the others write no
    output. ``reticent`` are masters whose stderr, their own log, is left out while their job goes well. ``client``
    None: the output is on disk only, and no more will come. ``directories`` are the directories of applications and
    containers, by id. ``tasks`` are the numbers of containers' tasks. ``asked`` containers are requested and not
    granted yet. ``lost``: the cluster ended before the end of the containers was seen. ``results`` are the files to
    which tasks wrote their output instead of the logs, as far as known.
    """

    container_ids: list[str] = field(default_factory=list)
    application_ids: list[str] = field(default_factory=list)
    client: LocalClient | None = None
    directories: dict[str, str] = field(default_factory=dict)
    masters_only: bool = False
    waiting: list[str] = field(default_factory=list)
    asked: int = 0
    lost: bool = False
    code: int = 0
    expected: int = 0
    several: bool = False
    masters: set[str] = field(default_factory=set)
    tasks: dict[str, int] = field(default_factory=dict)
    reticent: set[str] = field(default_factory=set)
    results: list[str] = field(default_factory=list)

    def mark(self, container_id: str) -> str:
        """The prefix of a container's lines: the number of its task, or its own number if the task's is not known."""
        task = self.tasks.get(container_id)
        return numbered(container_id) if task is None else str(task)

    def count_tasks(self, summary: JobSummary | None) -> None:
        """Count the tasks of a job of which all containers are shown."""
        self.expected += summary.total if summary is not None else 2
        self.several = self.several or (summary is not None and summary.total > 1)

    def applications(self) -> list[str]:
        """The applications that are named, or that have a named container."""
        return list(dict.fromkeys((*self.application_ids, *map(application_of, self.container_ids))))

    def look(self) -> tuple[dict[str, str], bool]:
        """Container -> its directory, and whether all containers have ended. Updates ``waiting`` and ``code``."""
        found = {one: self.directories[one] for one in self.container_ids if one in self.directories}
        for app in self.application_ids:
            for one in () if self.masters_only else containers_on_disk(self.directories.get(app, "")):
                found[one] = os.path.join(self.directories[app], one)
        if self.client is None:
            return found, True
        try:
            ended = self._ask(self.client, found)
        except ConnectionFailedError:
            self.client = None  # The cluster has ended: which containers still run is not known any more.
            self.lost = True
            return found, True
        return found, ended

    def _ask(self, client: LocalClient, found: dict[str, str]) -> bool:
        reports: list[ContainerReport] = [client.container(one) for one in self.container_ids]
        codes = [shell_code(report) for report in reports]
        self.expected = len(reports)
        self.asked = 0
        ended = all(not is_live(report) for report in reports)
        for app in self.application_ids:
            report = client.application(app)
            if report.log_directory:
                self.directories[app] = report.log_directory
            ended = ended and report.state in FINAL_STATES
            codes.append(app_view.exit_code(report))
            if report.state not in FINAL_STATES:
                self.asked += report.pending_containers
            self.count_tasks(report.summary)
            of_app = client.container_reports(GetContainersRequest(application_id=app, finished=True))
            masters = {one.container_id for one in of_app if one.is_am}
            self.masters |= masters
            if report.state in FINAL_STATES and report.final_status is not FinalApplicationStatus.SUCCEEDED:
                self.reticent -= masters  # The job has failed, so the masters' logs matter.
            elif not self.masters_only:
                self.reticent |= masters - set(self.container_ids)
            self.tasks |= {one.container_id: one.task for one in of_app if one.task is not None}
            reports += [one for one in of_app if one.is_am or not self.masters_only]
        for one in reports:
            directory = one.log_directory or os.path.join(
                self.directories.get(one.application_id, ""), one.container_id
            )
            if os.path.isabs(directory):
                found[one.container_id] = directory
        self.waiting = [
            one.container_id
            for one in reports
            if shown_state(one) in ("ALLOCATED", "QUEUED", "LAUNCHING") and not one.started_at_ms
        ]
        self.code = max((code for code in codes if code is not None), default=0)
        return ended and not any(one.state is not ContainerState.DONE for one in reports)


def find(session: Session, named: Sequence[str], *, masters_only: bool = False) -> Target:
    """Find the containers, in the cluster, or else among the files of ended clusters.

    Raises ApplicationNotFoundError or ContainerNotFoundError; ConnectionFailedError if there is neither a cluster nor
    a file.
    """
    try:
        return _of_cluster(session.client, named, masters_only)
    except (ConnectionFailedError, ApplicationNotFoundError, ContainerNotFoundError) as error:
        log_dir = str(session.configuration.value(LOG_DIRS))
        meant = {}
        if isinstance(error, ContainerNotFoundError):
            meant = {word: found for word in named if (found := _of_the_cluster(session.client, word))}
        target = _on_disk(session.run_dir, log_dir, named, error, masters_only, meant)
        for app in target.applications():
            try:
                kept = read_history(session.run_dir, app)
            except ApplicationNotFoundError:
                continue
            target.results.append(kept.application.results)
            if app in target.application_ids:
                target.count_tasks(kept.application.summary)
            for one in containers_on_disk(target.directories.get(app, "")):
                if (task := kept.task_of(one)) is not None:
                    target.tasks[one] = task
        return target


def _of_cluster(client: LocalClient, named: Sequence[str], masters_only: bool) -> Target:
    target = Target(client=client, masters_only=masters_only)
    target.application_ids, target.container_ids = jobs(client, named)
    for one in target.container_ids:
        if directory := client.container(one).log_directory:
            target.directories[one] = directory
    for one in target.application_ids:
        target.directories[one] = client.application(one).log_directory
    return target


def _of_the_cluster(client: LocalClient, word: str) -> list[str]:
    """The applications of the cluster that ``3.2``, ``last.2`` or ``NAME.2`` may mean: an application of an ended
    cluster with the same number or name is then not meant. None if the cluster has none, or for other words."""
    first = by_names(client, [word])[0].partition(".")[0].lstrip("0") if "." in word else ""
    known = [one.application_id for one in client.applications()] if first else []
    return [one for one in known if first in ("last", str(ApplicationId.parse(one).id))]


def _on_disk(
    run_dir: RunDir,
    log_dir: str,
    named: Sequence[str],
    error: YoppError,
    masters_only: bool,
    meant: Mapping[str, Sequence[str]],
) -> Target:
    """Find the containers among files; ``meant`` are the applications that a word is known to mean. Raises ``error``,
    the answer of the cluster, if there are none."""
    known = applications_on_disk(log_dir)
    kept = run_dir.kept_histories()  # Histories include jobs without output.
    if not known and not kept:
        raise error
    target = Target(masters_only=masters_only)
    every = {one: app for app in known for one in containers_on_disk(os.path.join(log_dir, app))}

    missing = f"{log_dir} has no output of it"
    for given in named:
        word, within = _of_ended(run_dir, every, known, given)
        if is_container(word):
            if (
                not within
                or (one := container(within, word, partial(_kept_tasks, run_dir, within))) not in every
            ):
                raise error if given in meant else ContainerNotFoundError.of(given, missing)
            if application_of(one) not in meant.get(given, (application_of(one),)):
                raise error
            target.container_ids.append(one)
            target.directories[one] = os.path.join(log_dir, every[one], one)
        else:
            if (app := ended_application(run_dir, word, known)) not in (*known, *kept):
                raise ApplicationNotFoundError.of(word, missing)
            target.application_ids.append(app)
            target.directories[app] = os.path.join(log_dir, app)
    return target


def _of_ended(
    run_dir: RunDir, every: Mapping[str, str], known: Sequence[str], word: str
) -> tuple[str, Mapping[str, str]]:
    """``NAME.2`` as ``3.2``, and the containers of this application; other words unchanged, and all containers."""
    if is_container(word) or (parts := OF_NAMED.fullmatch(word)) is None:
        return word, every
    for one in (word, parts[1]):  # A name may itself end like that.
        with contextlib.suppress(ApplicationNotFoundError):
            app = ended_application(run_dir, one, known)
            if one == word:
                break
            return f"{ApplicationId.parse(app).id}.{parts[2]}", {
                one: of for one, of in every.items() if of == app
            }
    return word, every


def _kept_tasks(run_dir: RunDir, every: Mapping[str, str]) -> dict[str, int]:
    """The numbers of containers' tasks, from the histories of their applications: container -> application."""
    found: dict[str, int] = {}
    for app in set(every.values()):
        with contextlib.suppress(ApplicationNotFoundError):
            kept = read_history(run_dir, app)
            tasks = {one: kept.task_of(one) for one, of in every.items() if of == app}
            found |= {one: task for one, task in tasks.items() if task is not None}
    return found


def elsewhere(target: Target) -> list[str]:
    """The paths of output that is not in the logs, as ``run --results`` named them."""
    places = list(target.results)
    if (client := target.client) is not None:
        for one in target.applications():
            with contextlib.suppress(YoppError):
                places.append(client.application(one).results)
    return list(dict.fromkeys(filter(None, places)))


# -- a YARN cluster: files that its NodeManagers still have --------------------------------------------------------


class _Fetched(Stream):
    """A file of a container, fetched from its node; it does not grow."""

    def __init__(self, container_id: str, name: str, data: bytes, tail: int | None) -> None:
        super().__init__(container_id, name, "")
        lines = data.splitlines(keepends=True)
        self._data = data if tail is None else b"".join(lines[max(0, len(lines) - tail) :])

    def read(self) -> Iterator[bytes]:
        """The whole file, once."""
        if self._data:
            yield self._data
        self._data = b""


def fetched(
    yarn: YarnClient,
    note: Callable[[str], None],
    named: Sequence[str],
    *,
    only: Sequence[str],
    masters_only: bool,
    tail: int | None,
) -> Iterator[tuple[Stream, str]]:
    """The output of the named containers and applications, of the streams ``only``, or of both; each with the number
    of its container, "" if there is only one. ``note`` gets a message for each omission."""
    from ...client.yarn import LOG_BYTES

    targets = _targets(yarn, named, masters_only)
    for container_id, node in targets.items():
        for name in yarn.log_files(node, container_id):
            short = name.rpartition(".")[2] if name in _MASTERS_FILES else name
            if (only or not masters_only) and short not in (only or STREAMS):
                # prelaunch.out, directory.info and others: shown only if the master's log is requested.
                continue
            if name in _MASTERS_FILES and not (only or masters_only):
                continue
            data = yarn.log(node, container_id, name)
            if len(data) >= LOG_BYTES:
                note(f"{container_id} {name}: only its last {LOG_BYTES >> 20} MB")
            number = numbered(container_id) if len(targets) > 1 else ""
            yield _Fetched(container_id, name, data, tail), number


def _targets(yarn: YarnClient, named: Sequence[str], masters_only: bool) -> dict[str, NodeReport]:
    """The containers whose output is requested, with their nodes."""
    by_id = {one.node_id: one for one in yarn.nodes()}
    found: dict[str, NodeReport] = {}
    for word in by_names(yarn, named):
        if is_container(word):
            found |= {one: yarn.node_of(one) for one in containers(yarn, [word])}
            continue
        for one in applications(yarn, [word]):
            places = _places(yarn, one, masters_only)
            if not any(node_id in by_id for node_id in places.values()):
                raise YoppError(
                    f"no node knows containers of {one}",
                    because="YARN forgets containers when their application has ended",
                    hint=f"aggregated logs: `yarn logs -applicationId {one}`",
                    exit_code=EXIT_NO_SUCH,
                )
            found |= {key: by_id[node_id] for key, node_id in sorted(places.items()) if node_id in by_id}
    return found


def _places(yarn: YarnClient, application_id: str, masters_only: bool) -> dict[str, str]:
    """An application's containers and the ids of their nodes; its masters if it has no others."""
    attempts = yarn.attempts(application_id)
    masters = {one.am_container_id: one.am_node_id for one in attempts if one.am_container_id}
    others = {
        one.container_id: one.node_id
        for attempt in (() if masters_only else attempts)
        for one in yarn.attempt_containers(attempt)
        if one.container_id not in masters
    }
    return others or masters
