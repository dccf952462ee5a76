"""Targets: what people type, and the files of lines that they name."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable
from typing import Any

from executor.light import replace
from tests.cli.test_argv import ROWS
from tests.fuzzing.target import INT64, Target, lines, of_file, text_of
from yarnopp_cli.cli.frame import naming, options
from yarnopp_cli.cli.frame.argv import rewrite
from yarnopp_cli.cli.frame.options import BadValueError
from yarnopp_cli.cli.jobs import common, dshell, joblog, sweep
from yarnopp_cli.cli.words import understood
from yarnopp_cli.errors import InvalidIdError, UsageError
from yarnopp_cli.jobs import tasklines
from yarnopp_cli.masters import sweeps
from yarnopp_cli.records import ids
from yarnopp_cli.records.jobs import Sweep
from yarnopp_cli.records.methods import MOST_TEXT


def argv(data: bytes) -> None:
    """Words with NUL between. Hadoop's spellings are refused as usage errors, and ours mean what they say."""
    words = text_of(data).split("\0")
    found = understood(words)
    try:
        rewritten = rewrite(words)
    except UsageError as error:
        assert error.exit_code == 2 and error.message
        return
    if found is not None and rewritten != words:
        assert understood(rewritten) == found


def identifiers(data: bytes) -> None:
    text = text_of(data)
    for kind in (ids.ApplicationId, ids.ApplicationAttemptId, ids.ContainerId, ids.NodeId):
        for read in {kind.parse, getattr(kind, "read", kind.parse)}:
            try:
                found = read(text)
            except InvalidIdError:
                continue
            assert kind.parse(str(found)) == found
    for shown in (ids.dotted, ids.short, ids.suffix, ids.short_id):
        assert isinstance(shown(text), str)
    naming.is_container(text)
    with contextlib.suppress(UsageError):
        naming._range(text)


VALUES: tuple[tuple[Callable[[str], Any], type[Exception], Callable[[Any], bool]], ...] = (
    (options.duration, BadValueError, lambda found: 0 <= found <= 1e9),
    (options.interval, BadValueError, lambda found: 0.1 <= found <= 1e9),
    (options.moment, BadValueError, INT64.__contains__),
    (options.coming, BadValueError, INT64.__contains__),
    (options.size_mb, BadValueError, lambda found: 0 <= found <= options.LARGEST),
    (dshell.milliseconds, BadValueError, INT64.__contains__),
    (dshell.error_codes, BadValueError, lambda found: all(isinstance(one, int) for one in found)),
    (common.resources, UsageError, lambda found: found.memory in INT64 and found.vcores in INT64),
    (
        lambda text: common.others_of(None, text.split(" ")),
        UsageError,
        lambda found: isinstance(found, tuple),
    ),
    (lambda text: sweep.numbers_of(text, "h"), UsageError, lambda found: sum(map(len, found)) > 0),
)


def values(data: bytes) -> None:
    """A value of every option that has a parser of its own."""
    text = text_of(data)
    for read, refusal, fits in VALUES:
        try:
            found = read(text)
        except refusal:
            continue
        assert fits(found)


def templates(data: bytes) -> None:
    """A command, and sources of values between NULs; the first line says how. What fits can be launched."""
    first, _, rest = text_of(data).partition("\n")
    command, *sources = (tuple(part.split("\n")) for part in rest.split("\0"))
    spec = Sweep(
        tuple(sources),
        shell="s" in first,
        linked=tuple(at for at in range(1, len(sources)) if str(at) in first),
        prefix=("nice", "{#}") if "p" in first else (),
    )
    if not sources or sweeps.problem_of(spec) or sweeps.highest_source(command) > len(sources):
        return
    if sweeps.longest_of(command, spec) > MOST_TEXT:
        return
    numbers = range(1, min(spec.size, 5) + 1)
    if sweeps.unfit(command, spec, numbers, 100_000) is not None:
        return
    for number in numbers:
        words, variables = sweeps.launch_of(command, spec, number)
        assert words and sweeps.unfit(command, spec, [number], 10**9) is None
        found = sweeps.values_of(spec, number)
        assert len(found) == len(sources) and list(variables.values()) == [" ".join(found)]
        if spec.shell and not spec.prefix:
            line = sweeps.launch_of(("x", "{}"), replace(spec, linked=spec.linked), number)[0][-1]
            assert shlex.split(line) == ["x", *found]


def job_log(path: str) -> None:
    with contextlib.suppress(UsageError):
        joblog.lines_of(path)


def task_lines(path: str) -> None:
    for read in (
        lambda: tasklines.commands_of(path, None),
        lambda: tasklines.values_of(path),
        lambda: tasklines.values_of(path, null=True),
    ):
        try:
            for _, text in read():
                assert "\0" not in text and len(text.encode()) <= tasklines.LONGEST
        except UsageError:
            pass


TARGETS = {
    "argv": Target(
        argv,
        tuple("\0".join(shlex.split(words)).encode() for row in ROWS for words in row),
        (
            "\0-list",
            "\0--json",
            "\0-shell_args\0",
            "\0--\0",
            "-D",
            "\0-status\0",
            "dshell",
            "\0-o\0",
            "=",
            "--daemon\0",
        ),
    ),
    "identifiers": Target(
        identifiers,
        lines(
            "application_1765400000000_0001",
            "application_1765400000000_1",
            "appattempt_1765400000000_0001_000001",
            "container_e07_1765400000000_0001_01_000002",
            "host1:45454",
            "3.2-5",
            "last.2",
            "last.c2-3",
        ),
        ("_", ":", ".", "-", "e01_", "٣", "²"),
    ),
    "values": Target(
        values,
        lines(
            "1h30m",
            "250ms",
            "2026-01-31T12:00:00Z",
            "19:00",
            "+2h",
            "512M",
            "1.5 GiB",
            "1,75",
            "5-50:5",
            "1,3,7-9",
            "memory-mb=512,vcores=2,yarn.io/gpu=1",
            "license=1 yarn.io/gpu=2",
            "-1000",
            "9999-12-31",
            "0001-01-01",
            "1" * 4301,
            "memory=" + "1" * 4301,
        ),
        ("ms", "h", "T", "+", ":", "=", "Z", "e", "p", "²", "٣"),
    ),
    "templates": Target(
        templates,
        (
            b"\necho\n{}\n{.}\0a.b\nc\0d",
            b"s1\necho {1} \"{2/}\" '{//}' {#} \\{}\0a b\n'\0/x/y.z\n$(z)",
            b"p\n\0ls -l\n'x y'\0",
            b"s\n{2/.}\0a\0b",
        ),
        ("{}", "{1}", "{2/.}", "{//}", "{#}", '"', "'", "\\", "$("),
    ),
    "job_log": Target(
        of_file(job_log),
        (joblog.HEADER.encode() + b"1\t:\t1765400000.000\t0.1\t0\t0\t3\t0\tls -l\n", joblog.HEADER.encode()),
        ("\t", "\n"),
    ),
    "task_lines": Target(of_file(task_lines), (b"ls -l\n# a\n\necho 'b c'\n", b"a\0b\n\0c", b"\xff\n")),
}
