"""``yopp container shell-into``: a shell, or a command, inside a running container.

Decisions: shell-into.
"""

from __future__ import annotations

import os
import sys

from executor.hints import TYPE_CHECKING
from executor.records import ContainerState

from ...errors import (
    EXIT_CANNOT_START,
    EXIT_FAILURE,
    EXIT_NOT_PERMITTED,
    ApplicationNotFoundError,
    ContainerNotFoundError,
    InvalidStateError,
    UsageError,
    YoppError,
    reason_of,
)
from ...records.client_protocol import GetContainersRequest
from ...records.reports import ContainerReport
from ...views import containers as view
from ...views.text import number_of
from ..frame.command import command
from ..frame.naming import one_application, one_container
from ..frame.options import Annotated, Live, argument
from ..frame.output import is_terminal
from ..frame.session import Session
from .container_details import live

if TYPE_CHECKING:
    from executor.linux.joining import Place

    from ...client.local import LocalClient

_STANDING = (ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING)


@command(
    "container shell-into",
    "yopp container shell-into last",
    "yopp container shell-into 3.2 -- env",
)
def shell_into(
    session: Session,
    id_: Annotated[
        str,
        argument("ID", "The container: its id, a suffix of it, 3.2, `last`, or its job if it has only one."),
        Live(("container", "app")),
    ],
    command: Annotated[
        list[str] | None, argument("[-- COMMAND ARG...]", "The command to run. [default: a shell]")
    ] = None,
) -> int:
    """Run a shell, or COMMAND, in a running container: in its directory, its environment and its cgroups.

    The shell counts against the container's limits, is paused with it, and ends with it. When the shell
    exits, processes that it has left are killed, and the command exits with its code. In a container of another
    user, the shell has a terminal of its own, and no program gives it more rights (no_new_privs). With --json the
    shell's output goes to stderr, and a document about its end to stdout.
    """
    printer = session.printer
    if id_ == "-":
        raise UsageError(
            "shell-into takes no list of ids",
            because="standard input belongs to the shell",
            hint="yopp container shell-into 3.2",
        )
    report = session.client.container(_the_container(session.client, id_))
    _check(report)
    from executor.errors import CannotLaunchError
    from executor.linux.joining import run_in, shell_of

    place = _place(report)
    if not report.cgroup:
        printer.warn("no cgroup holds this container: commands in this shell have no limits")
    if "TERM" not in place.environment and is_terminal(sys.stdin):
        place.environment["TERM"] = os.environ.get("TERM", "dumb")
    try:
        outcome = run_in(place, command or [shell_of(place.environment)], stdout=2 if printer.is_json else 1)
    except CannotLaunchError as error:
        raise YoppError(
            f"{report.container_id}: {error.message}",
            because=error.because,
            hint="`yopp container status` shows its state",
            exit_code=error.exit_code,
        ) from None
    if outcome.container_ended:
        printer.note(f"{report.container_id} has ended, with all its processes")
    if printer.is_json:
        told = {"id": report.container_id, "exit": outcome.code, "containerEnded": outcome.container_ended}
        printer.document({"shellInto": told})
    return outcome.code


def _the_container(client: LocalClient, word: str) -> str:
    """The full id of the container of a word: an id, or a job with only one live container. Raises as
    ``one_container``."""
    try:
        return one_container(client, word)
    except ContainerNotFoundError as problem:
        try:
            job = one_application(client, word)
        except ApplicationNotFoundError:
            raise problem from None
    live_ones = [one for one in client.containers(GetContainersRequest(job)) if view.is_live(one)]
    found = [one for one in live_ones if not one.is_am] or live_ones
    if len(found) != 1:
        raise UsageError(
            f"{job} has {number_of(len(found), 'live container')}; exactly one is needed",
            because="a shell runs in one",
            hint=f"`yopp ps -a --app {job}` lists them",
        )
    return found[0].container_id


def _check(report: ContainerReport) -> None:
    """Raise InvalidStateError for a container that cannot be entered."""
    one = live(report).container_id
    if report.state in _STANDING:
        raise InvalidStateError(
            f"{one} is paused",
            because="a shell in it would be paused too",
            hint=f"yopp container resume {one}",
        )
    if report.state is not ContainerState.RUNNING or not report.pid:
        raise InvalidStateError(
            f"{one} is not running yet",
            because=f"it is {view.shown_state(report)}",
            hint=f"yopp wait --for RUNNING {one}",
        )


def _place(report: ContainerReport) -> Place:
    """The values for entering the container: its pid, cgroups, environment, directory and user. Raises YoppError."""
    from executor.linux.joining import place_of

    try:
        place = place_of(report.pid, report.container_id, group=os.path.basename(report.cgroup))
    except PermissionError as error:
        raise YoppError(
            f"{report.container_id} cannot be entered",
            because=f"{reason_of(error)}: it belongs to another user",
            hint="become the user who owns the cluster",
            exit_code=EXIT_NOT_PERMITTED,
        ) from None
    except OSError:
        raise InvalidStateError(
            f"{report.container_id} has ended meanwhile",
            because="its process no longer exists",
            hint="`yopp ps` lists the live ones",
            exit_code=EXIT_FAILURE,
        ) from None
    if report.cgroup and not place.join:
        raise YoppError(
            f"{report.container_id} cannot be entered",
            because=f"its cgroup {report.cgroup} is not visible from here",
            hint="run the command where the daemons run: in their container, if they run in one",
            exit_code=EXIT_CANNOT_START,
        )
    return place
