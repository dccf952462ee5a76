"""``yopp top``: the screens, or a plain frame without a terminal. Only this module imports Textual."""

from __future__ import annotations

import os
import sys
import time

from executor.hints import TYPE_CHECKING

from ...errors import UsageError
from ..frame.command import command
from ..frame.options import Annotated, option
from ..frame.options import interval as shortest_interval
from ..frame.output import WORDS, Printer, is_terminal
from ..frame.session import Session

if TYPE_CHECKING:
    from ...tui.source import Source


@command("top", "yopp top --readonly", "yopp top --batch -n 3 -d 5", forms=WORDS)
def top(
    session: Session,
    readonly: Annotated[
        bool | None,
        option(
            "--readonly/--no-readonly",
            "Disable all keys that change anything. [default: only in other users' clusters]",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[bool, option("-b, --batch", "Print plain frames, as without a terminal.")] = False,
    count: Annotated[int | None, option("-n, --count N", "Number of frames. [default: 1]", min=1)] = None,
    interval: Annotated[
        float,
        option(
            "-d, --interval DUR",
            "The time between two updates. [default: 1s]",
            parser=shortest_interval,
            show_default=False,
        ),
    ] = 1.0,
    rows: Annotated[int | None, option("--rows N", "At most N rows of each table in a frame.", min=0)] = None,
    theme: Annotated[str | None, option("--theme NAME", "Textual's theme, such as ansi-dark.")] = None,
) -> int | None:
    """Watch the cluster live: nodes, containers, applications, the queue, events, logs; kill, pause, promote.

    The last line shows the main keys, `?` shows all keys, and `:` finds every command by name. Without a
    terminal, with --batch or with --json it prints frames and exits. It keeps running while the cluster is
    down. docs/top.md has a picture of every screen.
    """
    printer, place = session.printer, session.run_dir
    from ...client.local import LocalClient
    from ...tui.source import Source

    place.check(guest=True)  # Root may look at any user's cluster.
    LocalClient(place.rm_socket).close()  # No cluster, no screens: exit 69 with the hint.

    source = Source(place.rm_socket, place.path)
    plain = batch or count is not None or printer.is_json or not _has_terminal()
    try:
        if plain:
            _frames(printer, source, count or 1, interval, rows)
            return None
        from ...tui.terminal import unechoed

        with unechoed(sys.stdin):
            printer.status_line("yopp top: connecting …")
            try:
                return _screens(source, _readonly(readonly, place.path), interval, theme or "", printer.color)
            finally:
                printer.status_line("")
    finally:
        source.close()


def _has_terminal() -> bool:
    """Whether all three streams are terminals: Textual reads stdin and draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(is_terminal(stream) for stream in streams) and os.environ.get("TERM", "dumb") != "dumb"


def _readonly(wanted: bool | None, run_dir: str) -> bool:
    """Whether keys that change anything are disabled: in another user's cluster, unless --no-readonly is given."""
    if wanted is not None:
        return wanted
    try:
        return os.stat(run_dir).st_uid != os.geteuid()
    except OSError:
        return False


def _frames(printer: Printer, source: Source, count: int, interval: float, rows: int | None) -> None:
    """Print frames. Rates need two samples, so one is taken before the first frame."""
    from ...views.top import lines as frame
    from ...views.top.sampling import History

    history = History()
    history.add(source.picture(finished=False))
    time.sleep(min(interval, 1.0))
    for number in range(count):
        if number:
            time.sleep(interval)
        picture = source.picture(finished=False)
        history.add(picture)
        if printer.is_json:
            shown = frame.frame_document(picture, history)
            printer.document(shown) if count == 1 and printer.form == "json" else printer.stream_line(shown)
        else:
            told = frame.frame_lines(picture, history, rows)
            printer.text("\n".join(["", *told] if number else told))


def _screens(source: Source, readonly: bool, interval: float, theme: str, color: str | None) -> int:
    if not os.environ.get("NO_COLOR", "1") or (color == "always"):
        os.environ.pop("NO_COLOR", None)  # Textual would take an empty one as set.
    if color == "never":
        os.environ["NO_COLOR"] = "1"
    from ...tui.app import THEMES, YoppTop
    from ...tui.terminal import fleeting

    if theme and theme not in THEMES:
        raise UsageError(
            f"unknown theme {theme!r}",
            because="--theme takes the name of one of Textual's themes",
            hint="choose from " + ", ".join(sorted(THEMES)),
        )
    app = YoppTop(source, readonly=readonly, interval=interval, theme=theme)
    with fleeting(app.terminal_gone):
        app.run()
    if app._exception is not None:
        raise app._exception
    return app.return_code or 0
