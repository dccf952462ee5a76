"""The program ``yopp``: hands its arguments to the command line and ends with the code that comes back.

``yopp --help`` is what people type first and scripts type often: its text is kept ready (``cli/help.txt``, generated
by ``yarnopp_cli.manual``), so that it costs a start of Python and not the import of a command line.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums, which take a millisecond to be made
import errno
import gc
import os
import sys

from . import upgrade_behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_GARBAGE = 20_000
"""How many objects are made before garbage is looked for: what a short command imports is none."""


def main() -> None:
    """Run the command line that this process was started with, and exit."""
    own = signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL)
    if own:  # in the middle of an import Python would tell the story of its own modules
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_GARBAGE)
    _secure_standard_streams()
    try:
        from .started import use_utf8

        use_utf8()
        if sys.argv[1:] in (["--help"], ["-h"]) and _shows_ready_help():
            sys.exit(0)
        from .cli.app import run

        if own:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # beside what `run` catches
        code = 130
    except (ImportError, AttributeError, NameError, SyntaxError, TypeError, ValueError, EOFError) as error:
        if (told := upgrade_behind(error)) is None:
            raise
        sys.stderr.write("error: {}\n  because: {}\n  hint: {}\n".format(*told))
        code = 75
    if own:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _end(code)


def _end(code: int) -> NoReturn:
    """End this process; at once where nobody has anything to do at its end, which saves taking all apart."""
    import atexit

    if "threading" not in sys.modules and not atexit._ncallbacks():
        os._exit(code)
    sys.exit(code)


def _secure_standard_streams() -> None:
    """Fill closed standard descriptors, so that no socket or file of ours ever becomes number 0, 1 or 2.

    A closed stdout is filled with a descriptor that cannot be written: what should have been printed is then
    an error, as it should be, and not silence.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != descriptor:  # the lowest free one is taken, so this cannot be; but be sure
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _shows_ready_help() -> bool:
    """Print the kept text; False where that is not to be had, and the command line itself shall see why."""
    if os.environ.get("PAGER") and sys.stdout is not None and sys.stdout.isatty():
        return False
    try:
        with open(os.path.join(os.path.dirname(__file__), "cli", "help.txt"), encoding="utf-8") as kept:
            text = kept.read()
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main()
