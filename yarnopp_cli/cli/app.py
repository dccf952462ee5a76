"""The frame of the command line: loads the chosen command, runs it, prints its error, returns its exit code.

The only place that catches all exceptions. A command function returns None (exit 0) or its exit code as an int, and
raises YoppError for errors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from executor.hints import Any

from .. import upgrade_behind
from ..errors import (
    EXIT_BUG,
    EXIT_FAILURE,
    EXIT_HADOOP_USAGE,
    EXIT_NOT_PERMITTED,
    EXIT_READER_GONE,
    EXIT_TRY_AGAIN,
    EXIT_USAGE,
    UsageError,
    YoppError,
    reason_of,
)
from .frame import output
from .frame.command import leave_alarm, run_with
from .frame.options import BadValueError
from .words import given, own_words, understood


def run(argv: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code. Never raises."""
    output.reset(json_wanted=_asks_for_json(argv), color=_asked_color(argv))
    try:
        # A TAB of the shell: its words are not parsed as a command.
        if list(argv[:2]) == ["completion", "words"]:
            from .help.completion import words

            words(list(argv[2:]))
            return 0
        try:
            code = _invoke(list(argv))
        finally:
            leave_alarm()
        output.flush()
    except output.OutputClosedError as error:
        code = _closed(error)
    except YoppError as error:
        code = _fail(error, argv)
    except BadValueError as error:
        code = _fail(
            UsageError(
                f"invalid value: {error}",
                because="it was read while the command ran",
                hint="`yopp --help` lists the commands; each has its own --help",
            ),
            argv,
        )
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        code = _refused(error, argv)
    except Exception as error:
        code = _print_executor_error(error) or _bug(error)
    _flush_quietly()
    return code


def _invoke(argv: list[str]) -> int:
    """Run the command of the command line: read here if it is well-formed, else by typer."""
    if output.called_mapred() and argv[:1] == ["job"]:
        argv = ["mapred", *argv]
    found = understood(argv)
    if found is None:
        from .frame.argv import rewrite

        argv = rewrite(argv)
        found = understood(argv)
    if found is not None:
        return _call(lambda: run_with(*found))
    from .tree import call

    if os.environ.get("PAGER") and output.is_terminal_out() and _asks_for_help(argv):
        from .help.man import through_pager

        return through_pager(lambda: _call(lambda: call(argv)))
    return _call(lambda: call(argv))


def _asks_for_help(argv: list[str]) -> bool:
    return any(word in ("-h", "--help") for word in own_words(argv))


def _call(command: Callable[[], Any]) -> int:
    try:
        result = command()
    except SystemExit as exit_:  # a command that ends early, or typer after a broken pipe
        result = exit_.code
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _fail(error: YoppError, argv: Sequence[str]) -> int:
    """Print an error and return its exit code; for a usage error, Hadoop's code if that is requested."""
    if error.exit_code == EXIT_USAGE and output.wants_hadoops_codes():
        words = [word for word in argv if not word.startswith("-")]
        if any(
            word in ("dshell", "distributedshell") or word.endswith("distributedshell.Client")
            for word in words[:3]
        ):
            error.exit_code = EXIT_HADOOP_USAGE
    output.error(error)
    return error.exit_code


def _closed(error: output.OutputClosedError) -> int:
    """Report that standard output takes no more data, unless its reader has just ended."""
    output.abandon(sys.stdout)
    if not error.broken_pipe:
        output.error(error)
    return EXIT_READER_GONE if error.broken_pipe else error.exit_code


def _refused(error: OSError, argv: Sequence[str]) -> int:
    """Print an operating system error that no command has handled."""
    if error.filename is None and any(word in ("-h", "--help", "-help") for word in argv):
        return _closed(output.OutputClosedError(error))  # The parser writes its help itself.
    forbidden = isinstance(error, PermissionError)
    problem = YoppError(
        f"cannot use {os.fsdecode(error.filename)}" if error.filename else "the system refused a call",
        because=reason_of(error),
        hint="`ls -ld` shows who owns it" if forbidden else "`yopp doctor` checks what this host allows",
        exit_code=EXIT_NOT_PERMITTED if forbidden else EXIT_FAILURE,
    )
    output.error(problem)
    return problem.exit_code


def _print_executor_error(error: Exception) -> int:
    """Print an ExecutorError and return 1; return 0 for any other error. Help need not import the executor for that."""
    errors = sys.modules.get("executor.errors")
    if errors is None or not isinstance(error, errors.ExecutorError):
        return 0
    output.error(YoppError(str(error.args[0]), because=error.because, hint=error.hint))
    return 1


def _bug(error: Exception) -> int:
    """Write the details of an unexpected exception to a file, and print its path in one line, unless an upgrade has
    caused it."""
    import tempfile
    import traceback

    if (told := upgrade_behind(error)) is not None:
        message, because, hint = told
        output.error(YoppError(message, because=because, hint=hint, exit_code=EXIT_TRY_AGAIN))
        return EXIT_TRY_AGAIN
    story = "".join(traceback.format_exception(error))
    where = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="yopp-crash-", suffix=".txt", delete=False, errors="backslashreplace"
        ) as file:
            file.write(f"{sys.argv!r}\n{story}")
            where = f"; details are in {file.name}"
    except OSError:
        where = f" (details could not be written): {type(error).__name__}: {error}"
    output.error(YoppError(f"this is a bug in yopp{where}", exit_code=EXIT_BUG))
    return EXIT_BUG


def _flush_quietly() -> None:
    """Empty the buffers of the streams, so that the interpreter prints no error at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            output.abandon(stream)


def _asked_color(argv: Sequence[str]) -> str | None:
    """The value of ``--color`` if it is always or never, else None."""
    asked = given(argv, "--color")
    return asked[-1] if asked and asked[-1] in ("always", "never") else None


def _asks_for_json(argv: Sequence[str]) -> bool:
    """Whether errors are to be printed as JSON."""
    words = own_words(argv)
    if "--json" in words:
        return True
    asked = given(argv, "-o", "--output") + [word[2:] for word in words if word in ("-ojson", "-ojsonl")]
    return (asked[-1] if asked else os.environ.get("YOPP_OUTPUT", "")) in ("json", "jsonl")
