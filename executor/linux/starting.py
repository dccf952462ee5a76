"""How containers start: what a launcher of the pool gets, and what is posted of its answers."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping

from ..core import commands
from ..core.events import ContainerLaunched, ContainerLaunchFailed
from ..errors import CannotLaunchError, ExecutorError, one_line
from ..records import CgroupLimits, ContainerExitStatus, ContainerSpec, ContainerUsage
from .cgroups.groups import check_name
from .context import ExecutorContext, LiveContainer
from .ending import Ender
from .preparing import Preparer
from .requests import LaunchRequest, LaunchRequests, check_words
from .slots.pool import Pool
from .slots.slot import Occupant
from .watching.health import NO_ROOM, SHORT, HealthChecker, node_status, os_error_of

LOG = logging.getLogger(__name__)


class Starter:
    """Starts containers, each of which is in ``held`` from then on, and makes the ``pool`` of ``slots`` slots.

    A container in ``unrecorded``, whose record could not be written, does not start: no restart would find it.
    """

    def __init__(
        self,
        context: ExecutorContext,
        requests: LaunchRequests,
        held: dict[str, LiveContainer],
        unrecorded: Mapping[str, ExecutorError],
        *,
        preparer: Preparer,
        ender: Ender,
        health: HealthChecker,
        slots: int,
        read_only: tuple[str, ...],
    ) -> None:
        self._context = context
        self._cgroups = context.cgroups
        self._directories = context.directories
        self._requests = requests
        self._held = held
        self._unrecorded = unrecorded
        self._preparer = preparer
        self._ender = ender
        self._health = health
        self._post = context.post
        self.pool = Pool(
            context,
            slots,
            began=self._began,
            ended=self._ended_in_slot,
            failed=self._failed_in_slot,
            read_only=read_only,
        )

    def launch(self, spec: ContainerSpec, limits: CgroupLimits) -> None:
        """Start the container; ContainerLaunched or ContainerLaunchFailed is posted, now or later."""
        container_id = spec.container_id
        if container_id in self._held:
            LOG.warning("%s was already started", container_id)
            return
        if (following := self.pool.follows(container_id)) is not None and not self.pool.take_back(
            container_id
        ):
            following.wanted, following.limits = True, limits
            return
        try:
            check_name(container_id)
            if (unrecorded := self._unrecorded.get(container_id)) is not None:
                raise CannotLaunchError(str(unrecorded)) from unrecorded
            check_words(spec.command)
            if not self._preparer.takes(spec) or spec.files:
                self._directories.prepare(spec)
            request = self._requests.of(spec)
            users = (request.account or ())[:1]
            held = LiveContainer(container_id, 0, 0, logs=self._directories.log(spec), users=users)
            self.pool.launch(held, request, limits)
        except (ExecutorError, OSError) as error:
            self._cannot_launch(container_id, error, spec.files)
            return
        self._held[container_id] = held

    def _cannot_launch(
        self, container_id: str, error: ExecutorError | OSError, files: Mapping[str, str] | None = None
    ) -> None:
        code = error.exit_code if isinstance(error, CannotLaunchError) else 125
        said = os_error_of(error)
        number = 0
        if said is not None:
            path = os.fsdecode(said.filename or "/sys/")
            # A log directory that the user named is not the node's; the node's own directories are, and the
            # kernel's.
            if said.errno in SHORT or path.startswith("/sys/") or self._directories.has(path):
                number = said.errno or 0
        reason = str(error)
        if files and number in NO_ROOM:
            # The files written so far must not be what makes the node unhealthy.
            self._directories.remove_private(container_id, thoroughly=True)
            if because := self._health.too_large(files.values()):
                number, reason = 0, f"{reason}\n  because: {because}"
        self._tell_launch_failed(container_id, code, reason, number)

    def _tell_launch_failed(
        self, container_id: str, code: int, reason: str, number: int, ours: bool = False
    ) -> None:
        status = node_status(number) or (int(ContainerExitStatus.ABORTED) if ours else 0)
        if status:  # the report of a node is one line
            reason = one_line(reason)
        if number == errno.EAGAIN:
            reason = self._cgroups.crowded(reason)
        self._post(ContainerLaunchFailed(container_id, reason, code, status))
        if status:
            self._health.suspect(reason)

    def launch_next(self, command: commands.LaunchNext) -> None:
        """Let the container follow another one in its slot, if it can; nothing is posted before it has begun."""
        spec = command.spec
        container_id = spec.container_id
        first = self._held.get(command.after)
        if first is None or not first.inside or container_id in self._unrecorded:
            return
        if container_id in self._held or self.pool.follows(container_id) is not None:
            return  # it has begun
        # Nothing is written to somebody's directory, or for files, before the container begins.
        if spec.files or not self._directories.logs_are_its_own(spec):
            return
        try:
            check_name(container_id)
            check_words(spec.command)
            if not self._preparer.takes(spec):
                self._directories.prepare(spec)
            request = self._requests.of(spec)
        except (ExecutorError, OSError) as error:
            LOG.debug("%s does not follow: %s", container_id, error)
            self._preparer.waits_on(spec)
            return
        held = LiveContainer(
            container_id, 0, 0, logs=self._directories.log(spec), queued_at_ms=command.queued_at_ms
        )
        following = Occupant(held, request, command.limits, lambda: self._preparer.waits_on(spec))
        if not self.pool.follow(first, following):
            following.waits_on()

    def _began(self, held: LiveContainer, begun: float, over: bool) -> None:
        if self._cgroups.mode == "none":
            traces = self._directories.traces
            self._cgroups.started(
                held.container_id,
                traces(held.container_id, held.pid, held.start, held.users, held.launcher[0]),
            )
        path = self._cgroups.path(held.container_id)
        launched = ContainerLaunched(held.container_id, held.pid, held.start, path, begun)
        if over:  # it is told with its end
            held.launched = launched
        else:
            self._post(launched)

    def _ended_in_slot(
        self,
        held: LiveContainer,
        settle: Callable[[], ContainerUsage],
        code: int,
        following: str,
        clean: bool,
    ) -> None:
        if following and (next_one := self.pool.follows(following)) is not None:
            self._held[following] = next_one.held
        self._ender.has_ended(held, settle, code, following, clean)

    def _failed_in_slot(
        self,
        held: LiveContainer,
        request: LaunchRequest,
        code: int,
        reason: str,
        number: int = 0,
        ours: bool = False,
    ) -> None:
        """``ours``: the error concerns what the node itself needs."""
        del self._held[held.container_id]
        number = number if ours or number in SHORT or self._directories.has(request.stdout) else 0
        self._tell_launch_failed(held.container_id, code, reason, number, ours)
