"""Whose output `yopp logs` shows: asked of the cluster, or else found among the files of clusters that have ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from executor.records import ContainerState

from ...errors import ApplicationNotFoundError, ConnectionFailedError, ContainerNotFoundError, YoppError
from ...jobs.logfiles import applications_on_disk, containers_on_disk
from ...records.client_protocol import GetContainersRequest
from ...records.reports import FINAL_STATES, ContainerReport, FinalApplicationStatus
from ...views import applications as app_view
from ...views.containers import is_live, shell_code, shown_state
from ..frame.naming import application, applications, container, containers, is_container
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient

LOG_DIRS = "yarn.nodemanager.log-dirs"


@dataclass(slots=True)
class Target:
    """Whose output is wanted: containers by id, or all containers of applications, with what is known of
    them.

    ``expected`` is how many containers will have output, 2 or more if that is not known to be one. ``reticent``
    are masters whose stderr, a log of their own doings, is of no interest while their job goes well. ``client``
    None means that it is on disk only and that nothing more will come. ``directories`` are those of
    applications and containers, by id. ``asked`` containers are asked for and not granted yet. ``lost``: the
    cluster went before their end was seen.
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
    masters: set[str] = field(default_factory=set)
    reticent: set[str] = field(default_factory=set)

    def look(self) -> tuple[dict[str, str], bool]:
        """Container -> its directory, and whether all of it has ended. Updates ``waiting`` and ``code``."""
        found = {one: self.directories[one] for one in self.container_ids if one in self.directories}
        for app in self.application_ids:
            for one in () if self.masters_only else containers_on_disk(self.directories.get(app, "")):
                found[one] = os.path.join(self.directories[app], one)
        if self.client is None:
            return found, True
        try:
            ended = self._ask(self.client, found)
        except ConnectionFailedError:
            self.client = None  # the cluster has gone: what still runs is not known any more
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
            self.expected += report.summary.total if report.summary is not None else 2
            of_app = client.container_reports(GetContainersRequest(application_id=app, finished=True))
            masters = {one.container_id for one in of_app if one.is_am}
            self.masters |= masters
            if report.state in FINAL_STATES and report.final_status is not FinalApplicationStatus.SUCCEEDED:
                self.reticent -= masters  # now it matters why
            elif not self.masters_only:
                self.reticent |= masters - set(self.container_ids)
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
    """Who is meant, asked of the cluster, or else looked up among the files of clusters that have ended.

    Raises ApplicationNotFoundError or ContainerNotFoundError; ConnectionFailedError where there is no cluster
    and no file either.
    """
    try:
        return _of_cluster(session.client, named, masters_only)
    except (ConnectionFailedError, ApplicationNotFoundError, ContainerNotFoundError) as error:
        return _on_disk(str(session.configuration.value(LOG_DIRS)), named, error, masters_only)


def _of_cluster(client: LocalClient, named: Sequence[str], masters_only: bool) -> Target:
    target = Target(client=client, masters_only=masters_only)
    of_containers = [word for word in named if is_container(word)]
    of_applications = [word for word in named if word not in of_containers]
    if of_containers:
        target.container_ids = containers(client, of_containers)
    if of_applications:
        target.application_ids = applications(client, of_applications)
    for one in target.container_ids:
        if directory := client.container(one).log_directory:
            target.directories[one] = directory
    for one in target.application_ids:
        target.directories[one] = client.application(one).log_directory
    return target


def _on_disk(log_dir: str, named: Sequence[str], error: YoppError, masters_only: bool) -> Target:
    """The same among files. Raises ``error``, what the cluster said, where nothing is found."""
    known = applications_on_disk(log_dir)
    if not known:
        raise error
    target = Target(masters_only=masters_only)
    every = {one: app for app in known for one in containers_on_disk(os.path.join(log_dir, app))}

    def missing(kind: type[YoppError], what: str, word: str, listing: str) -> YoppError:
        return kind(
            f"no {what} {word}",
            because=f"there is no output of it in {log_dir}",
            hint=f"`yopp {listing} -a` shows those this cluster knows",
            sought=word,
        )

    for word in named:
        if is_container(word):
            if (one := container(every, word)) not in every:
                raise missing(ContainerNotFoundError, "container", word, "ps")
            target.container_ids.append(one)
            target.directories[one] = os.path.join(log_dir, every[one], one)
        else:
            if (app := application(known, word)) not in known:
                raise missing(ApplicationNotFoundError, "application", word, "app list")
            target.application_ids.append(app)
            target.directories[app] = os.path.join(log_dir, app)
    return target
