"""``yopp down``: ends the cluster, and removes the files and cgroups of dead daemons."""

from __future__ import annotations

from ...errors import EXIT_FAILURE, YoppError
from ...views.text import listed, number_of
from ..frame.command import Needs, command
from ..frame.options import Annotated, Timeout, option
from ..frame.session import Session

KeepContainers = Annotated[
    bool,
    option(
        "--keep-containers",
        "Leave containers running. The next `yopp up` continues them and their applications if "
        "yarn.resourcemanager.recovery.enabled is on, and ends them otherwise; `yopp down` ends them.",
    ),
]
Force = Annotated[
    bool,
    option(
        "--force",
        "Kill daemons that do not end when asked to, also daemons of this run directory whose files are gone.",
    ),
]

ANSWER_SECONDS = 3.0
"""The time limit for the ResourceManager to report what would be lost."""


@command("down", "yopp down", "yopp down --force", needs=Needs.HOST, asks=True)
def down(
    session: Session, keep_containers: KeepContainers = False, force: Force = False, timeout: Timeout = None
) -> int:
    """End the cluster: its applications, its nodes and the ResourceManager.

    It also removes the leftovers of killed daemons. If there are containers or waiting applications, it asks first,
    unless -y or --force is given. The next `yopp up` starts without state; `yopp report` still shows ended jobs.
    Succeeds if nothing is running.
    """
    from ...cluster.lifecycle import end
    from ...daemons.state_report import stored_applications
    from ...machine.life import STOP_SECONDS, Down

    printer = session.printer
    if not keep_containers and not force and not may_end(session):
        printer.note("nothing was ended")
        return EXIT_FAILURE
    forgets = not keep_containers and session.run_dir.daemon("rm") is None
    stored = stored_applications(session.run_dir) if forgets else (0, 0)
    wanted = Down(keep_containers, timeout=STOP_SECONDS if timeout is None else timeout)
    ended = end(session.run_dir, wanted, force=force)
    for line in ended.cleared.problems:
        printer.warn(line)
    forgotten = None if stored is None else sum(stored)
    cleared = {"containers": list(ended.cleared.containers), "cgroups": list(ended.cleared.cgroups)}
    printer.answer(
        {"yopp": {"ended": list(ended.names), "cleared": cleared, "forgotten": forgotten}},
        _sentence(ended.names, ended.cleared.containers, stored),
        ids=() if printer.quiet else ended.names,
        table=(("ended",), [[one] for one in ended.names]),
    )
    return EXIT_FAILURE if ended.cleared.problems else 0


def may_end(session: Session) -> bool:
    """Whether no work would be lost, or the user agrees. Raises UsageError without a terminal.

    If no ResourceManager answers, the records of nodes and the stored state show what would be lost.
    """
    from ...cluster.cleanup import live_records
    from ...daemons.state_report import stored_applications

    if session.yes:
        return True
    unreadable = False
    try:
        with session.context.client() as client:
            info = client.cluster_info(timeout=ANSWER_SECONDS)
        live = (
            info.containers_running + info.containers_queued + info.containers_paused + info.containers_kept
        )
        running, waiting = info.applications_running, info.applications_pending
    except YoppError:
        live, stored = len(live_records(session.run_dir)), stored_applications(session.run_dir)
        unreadable = stored is None
        running, waiting = stored or (0, 0)
    if not live and not running and not waiting and not unreadable:
        return True
    lost = [number_of(live, "container")] * (live > 0)
    lost += [f"{number_of(running, 'application')} without containers"] * (running > 0 and not live)
    lost += [number_of(waiting, "waiting application")] * (waiting > 0)
    lost += ["stored state, which cannot be read"] * unreadable
    return session.printer.confirm(f"End the cluster and its {listed(lost)}?", yes=False)


def _sentence(ended: tuple[str, ...], containers: tuple[str, ...], stored: tuple[int, int] | None) -> str:
    said = f"down: ended {', '.join(ended)}" if ended else "down: nothing was running"
    if stored is None:
        said += "; forgot a stored state that could not be read"
    elif any(stored):
        said += f"; forgot {number_of(sum(stored), 'stored application')}"
    if containers:
        said += f"; ended {number_of(len(containers), 'container')} left by dead nodes"
    return said
