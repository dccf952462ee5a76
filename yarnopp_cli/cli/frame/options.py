"""The options of several commands, declared once, and the parsers of durations and sizes."""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Callable, Iterable

from executor.hints import TYPE_CHECKING, Any
from executor.light import Record, pattern

LEAST_INTERVAL = 0.1
PASSED_SECONDS = 60
"""Seconds for which a time that has passed is still accepted as a future time."""
LARGEST = 2**53
"""The largest whole number of an option: every JSON reader represents it exactly."""
_DURATION = pattern(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d)?)", re.ASCII)
_DATE = pattern(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = pattern(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = pattern(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_MEGABYTES = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}


if TYPE_CHECKING:
    from typing import Annotated as Annotated
else:  # Creating typing's own takes longer than all declarations of a command.

    class Annotated:
        """``Annotated[TYPE, MARK…]``: a type, and the marks of an option."""

        def __init__(self, kind, *marks):
            inner = isinstance(kind, Annotated)
            self.__origin__ = kind.__origin__ if inner else kind
            self.__metadata__ = (*kind.__metadata__, *marks) if inner else marks

        def __class_getitem__(cls, items):
            return cls(*items)


class BadValueError(Exception):
    """A word is not a valid value of its option; the message is for the command line's error."""


class OptionDeclaration(Record):
    """The declaration of an option, or of an argument, which has no ``spellings``. ``settings`` are settings of typer:
    min, max, count, parser, envvar, hidden, show_default."""

    spellings: tuple[str, ...]
    metavar: str | None
    help: str
    settings: dict[str, Any]


def option(spelled: str, help: str, **settings: Any) -> Any:
    """An option, spelled as in the help: ``-n, --num-containers N``."""
    names, _, metavar = spelled.replace(", -", ",-").partition(" ")
    return OptionDeclaration(tuple(names.split(",")), metavar or None, help, settings)


def argument(metavar: str, help: str, **settings: Any) -> Any:
    """An argument, named as in the help: ``ID...``."""
    return OptionDeclaration((), metavar, help, settings)


Format = enum.StrEnum("Format", "table wide json jsonl tsv name")
"""The formats of ``-o``."""
ExitRule = enum.StrEnum("ExitRule", "highest first any")
"""The values of ``--exit-code``."""
EngineName = enum.StrEnum("EngineName", "local yarn")
"""The values of ``--engine``."""
ColorMode = enum.StrEnum("ColorMode", "auto always never")
"""The values of ``--color``."""


def duration(text: str) -> float:
    """Seconds from ``90s``, ``5m``, ``1h30m``, ``250ms`` or plain seconds. Raises BadValueError (exit 2)."""
    if isinstance(text, (int, float)):  # A default value is passed through here, too.
        return float(text)
    compact = text.strip().lower()
    parts = list(_DURATION.finditer(compact))
    if not parts or "".join(part[0] for part in parts) != compact:
        raise BadValueError(f"{text!r} is not a duration; write 90s, 5m, 2h or 1h30m")
    seconds = sum(float(part[1]) * _UNITS[part[2] or ""] for part in parts)
    if seconds > 1e9:
        raise BadValueError(f"{text!r} is too long")
    return seconds


def interval(text: str) -> float:
    """Read an interval as ``duration`` does: at least 0.1 s."""
    seconds = duration(text)
    if seconds < LEAST_INTERVAL:
        raise BadValueError(f"{seconds:g} s is too short: it must be at least {LEAST_INTERVAL} s")
    return seconds


def moment(text: str) -> int:
    """Epoch milliseconds from ``10m`` (so long ago) or ISO 8601 (``2026-01-31T12:00:00Z``; without a zone: local).

    Raises BadValueError (exit 2).
    """
    if isinstance(text, int):
        return text
    if _DATE.match(text):
        from datetime import datetime

        try:
            return round(datetime.fromisoformat(text).timestamp() * 1000)
        except (ValueError, OverflowError, OSError) as error:
            raise BadValueError(f"{text!r} is not a time: {error}; write 2026-01-31T12:00:00Z") from None
    try:
        return round((time.time() - duration(text)) * 1000)
    except BadValueError:
        raise BadValueError(
            f"{text!r} is neither a duration nor a time; write 10m or 2026-01-31T12:00:00Z"
        ) from None


def coming(text: str) -> int:
    """Epoch milliseconds from ``now``, ``+2h`` (from now), ``19:00`` (the next one, local) or ISO 8601. A time in the
    past is an error, except within the last minute, because a script may have computed it. Raises BadValueError."""
    if isinstance(text, int):
        return text
    now = time.time()
    if text == "now":
        return round(now * 1000)
    if text.startswith("+"):
        return round((now + duration(text[1:])) * 1000)
    if clock := _CLOCK.fullmatch(text):
        from datetime import datetime, timedelta

        hour, minute, second = (int(one or 0) for one in clock.groups())
        if hour < 24 and minute < 60 and second < 60:
            here = datetime.fromtimestamp(now)
            found = here.replace(hour=hour, minute=minute, second=second, microsecond=0)
            return round((found if found > here else found + timedelta(days=1)).timestamp() * 1000)
    if not _DATE.match(text):
        raise BadValueError(f"{text!r} is not a future time; write +2h, 19:00 or 2026-01-31T12:00:00Z")
    then = moment(text)
    if then < (now - PASSED_SECONDS) * 1000:
        raise BadValueError(f"{text!r} is in the past; write +2h, 19:00 or 2026-01-31T12:00:00Z")
    return then


def beginning(text: str) -> int:
    """As ``coming``; 0 for a time in the past. Raises BadValueError."""
    found = coming(text)
    return found if found > time.time() * 1000 else 0


def size_mb(text: str) -> int:
    """Whole MB from ``512M``, ``2G``, or a bare number of MB as in YARN. Raises BadValueError (exit 2)."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise BadValueError(f"{text!r} is not a size; write 512 (MB), 512M or 2G")
    megabytes = float(match[1]) * _MEGABYTES[match[2].lower()]
    if megabytes > LARGEST:
        raise BadValueError(f"{text!r} is larger than any memory")
    if megabytes != int(megabytes):
        raise BadValueError(f"{text!r} is not a whole number of MB")
    return int(megabytes)


Conf = Annotated[list[str] | None, option("--conf PATH", "Configuration file or directory (repeatable).")]
Define = Annotated[list[str] | None, option("-D, --define NAME=VALUE", "Set one property (repeatable).")]
RunDirOption = Annotated[
    str | None, option("--run-dir DIR", "The cluster's run directory. [env: YOPP_RUN_DIR]")
]
EngineOption = Annotated[
    EngineName | None,
    option(
        "--engine",
        "Work on this host, or on a YARN cluster through its REST API. [env: YOPP_ENGINE]",
        show_default=False,
    ),
]
Rm = Annotated[
    list[str] | None, option("--rm URL", "That cluster's ResourceManager (repeatable). [env: YOPP_RM]")
]
Json = Annotated[bool, option("--json", "Print JSON (same as -o json).")]
Output = Annotated[Format | None, option("-o, --output", "The output format.", show_default=False)]
Quiet = Annotated[bool, option("-q, --quiet", "Print only ids, and only errors on stderr.")]
Verbose = Annotated[
    int, option("-v, --verbose", "Log each call on stderr; twice to log requests and answers.", count=True)
]
Color = Annotated[ColorMode | None, option("--color", "Colours.", show_default=False)]
NoProgress = Annotated[bool, option("--no-progress", "Print no progress line on stderr.")]
Timeout = Annotated[
    float | None,
    option(
        "--timeout DUR",
        "Give up after this time: 90s, 5m, 2h. [env: YOPP_TIMEOUT]",
        parser=duration,
        envvar="YOPP_TIMEOUT",
        show_envvar=False,
    ),
]
JobTimeout = Annotated[
    float | None,
    option(
        "--timeout TIME",
        "Stop the job itself this long after it has begun: 90s, 5m, 2h; exit 124. The start of its cluster counts. "
        "[env: YOPP_TIMEOUT]",
        parser=duration,
        envvar="YOPP_TIMEOUT",
        show_envvar=False,
    ),
]
Yes = Annotated[bool, option("-y, --yes", "Answer yes to every question.")]
ExitCode = Annotated[
    ExitRule,
    option(
        "--exit-code",
        "Which exit code to return when several fail: the highest, the first in time, or 1 for any.",
    ),
]
Tags = Annotated[list[str] | None, option("--tag TAG", "A tag of the application (repeatable, or A,B).")]
DryRun = Annotated[bool, option("--dry-run", "Show what would happen, and change nothing.")]
NoWait = Annotated[bool, option("--no-wait", "Return at once; do not wait for the result.")]
Watch = Annotated[
    float | None,
    option("-w, --watch SECS", "Print again every SECS seconds, in place on a terminal.", parser=interval),
]
State = Annotated[str | None, option("--state S,…", "Only in these states.")]
Sort = Annotated[str | None, option("--sort COL[,-COL]", "Sort by columns; - means descending.")]
Columns = Annotated[str | None, option("--columns A,B", "Show these columns (not with -o json).")]
Limit = Annotated[int | None, option("--limit N", "Show at most N.", min=0)]
NEWEST = "Show at most N: the newest, or with --sort the first ones."


def common(
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    state: State = None,
    sort: Sort = None,
    columns: Columns = None,
    limit: Limit = None,
    watch: Watch = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    engine: EngineOption = None,
    rm: Rm = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
    no_progress: NoProgress = False,
    timeout: Timeout = None,
    yes: Yes = False,
) -> None:
    """The options that the frame adds to commands, in the order of their help; each command has some of them."""


class Options(Record):
    """Options that belong together, as the fields of a record: a command's function takes the record."""


class Live(Record):
    """Mark of an argument or option: the kinds of entities whose ids completion offers for it (app, container, node,
    queue); among containers and queues, those that ``fits`` accepts. ``ended``: also the latest applications that have
    ended."""

    kinds: tuple[str, ...]
    fits: Callable[[Any], bool] | None = None
    ended: bool = False


class Words(Record):
    """Mark of an argument or option: the words that completion offers for it. ``several``: a list with commas, in any
    case."""

    words: Callable[[], Iterable[str]]
    several: bool = False


class HereOnly(Record):
    """Mark of an option: a YARN cluster does not support it, and the option is refused."""

    because: str = "YARN's REST API does not support it"


HERE_ONLY = HereOnly()
WITHOUT_UPLOAD = HereOnly("Hadoop's distributed shell cannot do that without an upload")

_APPLICATIONS = "Full id, number, unique suffix, name, `last`, 1-3, `all`, or - for stdin"
AttemptIds = Annotated[list[str], argument("ID...", "Full id, `last`, or - for stdin.")]
_ONE = argument("ID", "Full id, number, unique suffix, name, or `last`.")
OneApplication = Annotated[str, _ONE, Live(("app",), ended=True)]
LiveApplication = Annotated[str, _ONE, Live(("app",))]
ApplicationIds = Annotated[list[str], argument("ID...", f"{_APPLICATIONS}."), Live(("app",))]
AnyApplicationIds = Annotated[
    list[str],
    argument("ID...", f"{_APPLICATIONS}; 3.2 or `NAME.2` mean its task's application."),
    Live(("app",), ended=True),
]
CONTAINER_IDS = argument(
    "ID...",
    "Full id, 3.c2, unique suffix, `last`, `all`, or - for stdin; 3.2, 3.2-5, `NAME.2`, `last.2`: of a task.",
)
ContainerIds = Annotated[list[str], CONTAINER_IDS, Live(("container",))]
OfApplication = Annotated[
    str | None, option("--app ID", "Only of this application."), Live(("app",), ended=True)
]
NodeIds = Annotated[
    list[str],
    argument("ID...", "Full id, port, unique part, `last`, `all`, or - for stdin."),
    Live(("node",)),
]
LEAF_QUEUE = Live(("queue",), fits=lambda one: one.leaf)
"""The argument of an application's queue: a parent queue accepts no applications."""
Queue = Annotated[str, option("--queue QUEUE", "The queue it is submitted to."), LEAF_QUEUE]
QueueNames = Annotated[list[str], argument("QUEUE...", "Name, `all`, or - for stdin."), Live(("queue",))]
JobIds = Annotated[
    list[str],
    argument("ID...", f"{_APPLICATIONS}; of tasks: 3.2, 3.2-5, `last.2`, `NAME.2`; of containers: 3.c2."),
    Live(("app", "container"), ended=True),
]
AnyIds = Annotated[
    list[str],
    argument(
        "ID...",
        f"{_APPLICATIONS}; of tasks: 3.2, `NAME.2`; of containers: 3.c2; of nodes: a port or full id.",
    ),
    Live(("app", "container", "node"), ended=True),
]
