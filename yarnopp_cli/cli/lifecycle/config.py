"""``yopp config``: the properties, their values and origins, and the errors in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from executor.hints import Any
from executor.settings import Property

from ...errors import EXIT_CONFIGURATION, YoppError
from ...settings.declarations import PROPERTIES, declared
from ...settings.files import candidate_sites, check_file, chosen_files
from ...settings.loading import Configuration, Findings, default_value, examine
from ...settings.rules import DEFAULT
from ...settings.suggest import printable_path
from ...settings.values import to_text
from ...views.columns import Column, default_columns
from ...views.text import number_of
from ..frame import output as out
from ..frame.command import Needs, command
from ..frame.options import Annotated, Words, argument, option
from ..frame.session import Session

_NAMES = Words(lambda: PROPERTIES)
Key = Annotated[str, argument("KEY", "The name of one property."), _NAMES]
Keys = Annotated[
    list[str] | None,
    argument("[KEY]...", "Names, their beginning (yarn.scheduler), or a word in them (queue)."),
    _NAMES,
]
Origin = Annotated[bool, option("--origin", "Show where each value comes from.")]
All = Annotated[bool, option("-a, --all", "Show also properties that are not set.")]
Files = Annotated[
    list[str] | None,
    argument("[FILE]...", "Check each of these alone, instead of the files that yopp would read."),
]


@command(
    "config show",
    "yopp config show --origin",
    "yopp config show -a yarn.scheduler",
    needs=Needs.QUIET_HOST,
)
def show(session: Session, keys: Keys = None, origin: Origin = False, all_: All = False) -> None:
    """Print properties with their values: those that are set, those that KEY names, or all of them.

    Beside a running cluster, the values are those that a job would have there: the values with which the cluster was
    started, below --conf, YOPP_CONF and -D. Properties of jobs may also come from the site that is found.
    """
    configuration, printer = _shown(session), session.printer
    names = _named(configuration, keys, all_)
    session.configured()
    columns: tuple[Column[str], ...] = (
        Column("name", "PROPERTY", lambda name: name),
        Column("value", "VALUE", lambda name: to_text(configuration.value(name)), flexible=True),
        Column("origin", "ORIGIN", configuration.origin, flexible=True, wide=not origin),
        Column("default", "DEFAULT", lambda name: to_text(_declared(name).default), flexible=True, wide=True),
    )
    printer.listing(
        names,
        default_columns(columns, wide=printer.form == "wide"),
        documents=lambda rows: {"properties": [document(configuration, name) for name in rows]},
        document=lambda name: document(configuration, name),
        identity=lambda name: name,
        empty="every property has its default; -a shows them",
    )


@command(
    "config get",
    "yopp config get yarn.scheduler.maximum-allocation-mb",
    "yopp config get --conf configs/pause.toml yopp.run.memory-mb",
    needs=Needs.QUIET_HOST,
)
def get(session: Session, key: Key) -> None:
    """Print the value of one property and nothing else."""
    printer, configuration = session.printer, _shown(session)
    text = to_text(configuration.value(key))
    table = (("name", "value"), [(key, text)])
    printer.answer(document(configuration, key), text, ids=[text], table=table)


@command(
    "config check",
    "yopp config check",
    "yopp config check /etc/hadoop/yarn-site.xml",
    needs=Needs.QUIET_HOST,
)
def check(session: Session, files: Files = None) -> int:
    """Check the configuration, or each FILE alone, and list all errors. Exits with 78 if there are any."""
    printer, context = session.printer, session.context
    checked: list[Findings] = [
        examine(chosen, context.define, environ=os.environ, state_dir=context.run_dir.state_dir)
        for chosen in ([[file] for file in files] if files else [list(context.conf)])
    ]
    wrong = any(findings.problems for findings in checked)
    code = EXIT_CONFIGURATION if wrong else 0
    if printer.is_json:
        printer.document(_check_document(checked, code))
        return code
    for findings in checked:
        for problem in findings.problems:
            out.error(problem)
        for warning in findings.warnings:
            printer.warn(warning)
        if not findings.problems and printer.form == "name" and not printer.quiet:
            printer.ids(findings.sources)
        elif not findings.problems and not printer.quiet:
            printer.text("\n".join(f"{source}: {_verdict(source, findings)}" for source in findings.sources))
    return code


def _shown(session: Session) -> Configuration:
    """The values that a job would have now; their origin is printed on stderr."""
    if session.of_jobs is not session.configuration:
        session.printer.note(
            f"the values of the cluster that runs in {session.run_dir.path}; --conf and -D are above them"
        )
    return session.of_jobs


def _verdict(source: str, findings: Findings) -> str:
    """The verdict on a file without errors: its own warnings, and those about no file."""
    others = tuple(printable_path(one) + ":" for one in findings.sources if one != source)
    number = sum(not (others and warning.startswith(others)) for warning in findings.warnings)
    return f"no errors, {number_of(number, 'warning')}" if number else "ok"


@command("config path", "yopp config path", "yopp config path --json", needs=Needs.QUIET_HOST)
def path(session: Session) -> None:
    """Print the configuration files that yopp reads, and on stderr the paths that it searches."""
    printer, conf = session.printer, session.context.conf
    read = chosen_files(conf, os.environ)
    if session.context.names_files:
        for one in read:
            check_file(one)
    candidates = candidate_sites(os.environ)
    if printer.is_json:
        printer.document({"path": {"read": read, "candidates": list(candidates)}})
        return
    if session.context.names_files:
        printer.note("named by --conf" if conf else "named by YOPP_CONF")
    else:
        printer.note("the first that exists of:\n" + "\n".join(f"  {candidate}" for candidate in candidates))
    printer.text("\n".join(read))


def _named(configuration: Configuration, keys: Sequence[str] | None, all_: bool) -> list[str]:
    """The names to show: names that equal or begin with a key; without keys, the properties that are set. Raises
    ConfigurationError."""
    known = (*PROPERTIES, *configuration.patterned_properties())
    if not keys:
        return [name for name in known if all_ or configuration.origin(name) != DEFAULT]
    names: list[str] = []
    for key in keys:
        prefix = key.rstrip(".*") + "."
        below = [name for name in known if name == key or name.startswith(prefix)]
        if not below and "." not in key:
            below = [name for name in known if key in name]  # A word: all properties whose names contain it.
        if not below:
            configuration.value(key)  # Raises, with the nearest name.
            below = [key]
        names += [name for name in below if name not in names]
    return names


def _declared(name: str) -> Property:
    """The declaration of a property that the configuration has."""
    found = declared(name)
    assert found is not None, f"the configuration contains {name}, which is not declared"
    return found


def document(configuration: Configuration, name: str) -> dict[str, Any]:
    """A property as --json prints it."""
    declared = _declared(name)
    return {
        "name": name,
        "value": configuration.value(name),
        "default": default_value(declared, configuration.state_dir),
        "origin": configuration.origin(name),
        "type": declared.type.__name__,
    }


def _check_document(checked: Sequence[Findings], code: int) -> dict[str, Any]:
    def story(problem: YoppError) -> dict[str, str]:
        return {"error": problem.message, "because": problem.because, "hint": problem.hint}

    return {
        "check": [
            {
                "read": findings.sources,
                "problems": [story(problem) for problem in findings.problems],
                "warnings": findings.warnings,
            }
            for findings in checked
        ],
        "exit": code,
    }
