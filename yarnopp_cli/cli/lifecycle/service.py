"""``yopp service``: the cluster as a systemd service, which starts at boot."""

from __future__ import annotations

import os

from executor.hints import TYPE_CHECKING, Any

from ...errors import EXIT_FAILURE, EXIT_NOT_RUNNING, YoppError
from ..frame.command import Needs, command
from ..frame.options import Annotated, option
from ..frame.session import Session
from .down import may_end
from .up import Memory, Nodes, Ports, Vcores, with_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...cluster.service import Service, State

NoStart = Annotated[bool, option("--no-start", "Start the cluster at the next boot, not now.")]


@command(
    "service install",
    "yopp service install",
    "yopp service install --nodes 2 --memory 4G --dry-run",
    needs=Needs.HOST,
    tries=True,
)
def install(
    session: Session,
    nodes: Nodes = None,
    memory: Memory = None,
    vcores: Vcores = None,
    ports: Ports = None,
    no_start: NoStart = False,
) -> None:
    """Start the cluster now and at each boot, as a systemd service.

    One unit starts the whole cluster with these options, --conf, -D and --run-dir. root's is a unit of the system;
    another user's belongs to their own service manager and needs `loginctl enable-linger` to start at boot. A unit
    that this command did not write is never overwritten. If the cluster does not start, nothing is installed.
    """
    from ...cluster import service as services
    from ...cluster.capacity import NodeSizeRequest, plan_capacity

    context = with_ports(session.context, ports)
    wish = NodeSizeRequest(nodes, memory, vcores)
    for line in (*context.configuration.warnings, *plan_capacity(context.configuration, wish).warnings):
        session.printer.warn(line)
    one = services.service_here(session.run_dir)
    version = services.SUBGROUPS
    try:
        services.check_systemd(one)
        version = services.systemd_version(one)
    except YoppError as error:
        if not session.dry_run:
            raise
        session.printer.warn(f"{error.message} ({error.because}): this is the unit for systemd {version}")
    before = services.check_install(one, start=not no_start)
    words = [*_files(context.conf), *(f"-D{given}" for given in context.define), *_sizes(wish)]
    text = services.unit_text(one, words, version=version)
    if session.dry_run:
        _tell(session, one, before, text, text=text)
        return
    services.install(one, text, before, start=not no_start)
    state = services.state_of(one)
    if before.pid and before.pid == state.pid:
        session.printer.note(
            f"it keeps running with its old options: `{' '.join(one.systemctl)} restart {one.unit}`"
        )
    if not one.lingers:
        session.printer.warn(
            "it starts when you log in, and ends when you log out: `loginctl enable-linger` changes that"
        )
    _tell(session, one, state, f"{one.unit} installed: {one.path}")


def _files(conf: tuple[str, ...]) -> Iterator[str]:
    """Options for the files that --conf or YOPP_CONF names: the service has neither this directory nor this
    environment."""
    from ...settings.files import named_files

    for path in named_files(conf, os.environ):
        yield f"--conf={os.path.abspath(path)}"


def _sizes(wish: Any) -> Iterator[str]:
    sizes = {"--nodes": wish.nodes, "--memory": wish.memory_mb, "--vcores": wish.vcores}
    return (f"{name}={value}" for name, value in sizes.items() if value is not None)


@command(
    "service remove",
    "yopp service remove",
    "yopp service remove -y",
    needs=Needs.HOST,
    asks=True,
    tries=True,
)
def remove(session: Session) -> int:
    """End the cluster that the service runs like `yopp down`, and remove the service.

    If there are containers or waiting applications, it asks first. Succeeds if no service is installed.
    """
    from ...cluster import service as services
    from ...cluster.lifecycle import end
    from ...machine.life import Down

    one = services.service_here(session.run_dir)
    state = services.check_remove(one)
    if state.ours is None:
        session.printer.note(f"{one.unit} was not installed")
        _tell(session, one, state, "")
        return 0
    if session.dry_run:
        _tell(session, one, state, f"{one.unit} would be removed: {one.path}")
        return 0
    if state.pid and not may_end(session):
        session.printer.note("nothing was removed")
        return EXIT_FAILURE
    services.remove(one)
    if state.pid:
        end(session.run_dir, Down())  # the applications that the end of a service keeps
    _tell(session, one, services.state_of(one), f"{one.unit} removed")
    return 0


@command("service status", "yopp service status", "yopp service status --json", needs=Needs.HOST)
def status(session: Session) -> int:
    """Show whether the service is installed and running: exit code 0 if it is running, otherwise 3."""
    from ...cluster import service as services

    one = services.service_here(session.run_dir)
    state = services.state_of(one)
    if state.ours is None:
        told = f"{one.unit} is not installed"
    else:
        foreign = "" if state.ours else ", not made by yopp"
        boot = "" if one.lingers else "; it starts at login: `loginctl enable-linger`"
        told = f"{one.unit} {state.active}, {state.enabled or 'not enabled'}{boot}: {one.path}{foreign}"
    _tell(session, one, state, told)
    return 0 if state.active in ("active", "reloading") else EXIT_NOT_RUNNING


def _tell(session: Session, one: Service, state: State, told: str, **more: str) -> None:
    """Print the state of a service; ``told`` is for users, "" prints nothing."""
    row = {
        "name": one.unit,
        "path": one.path,
        "installed": state.ours is not None,
        "ours": bool(state.ours),
        "enabled": state.enabled,
        "state": state.active,
        "pid": state.pid,
        "lingering": one.lingers,
        "runDir": one.run_dir.path,
    }
    if told or not session.printer.for_people:
        cells = [str(value).lower() if isinstance(value, bool) else str(value) for value in row.values()]
        session.printer.answer(
            {"service": row | more}, told.rstrip("\n"), ids=[one.unit], table=(list(row), [cells])
        )
