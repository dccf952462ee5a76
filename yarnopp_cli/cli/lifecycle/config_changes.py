"""``yopp config set|unset|import``: change the user's configuration file, after a check of the result."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from executor.hints import Any
from executor.light import Record
from executor.regular import write_whole

from ...errors import EXIT_NO_SUCH, ConfigurationError, InvalidPropertyError, UsageError, YoppError, reason_of
from ...settings.declarations import PROPERTIES, declared
from ...settings.editing import with_values
from ...settings.entries import PropertyEntry
from ...settings.files import candidate_sites, chosen_files, named_files, read_file
from ...settings.loading import Configuration, default_value, examine, load, unknown_property
from ...settings.refused import REFUSED
from ...settings.rules import AMRM_PROXY, why_not_here
from ...settings.suggest import nearest
from ...settings.toml import read_toml
from ...settings.values import Refused, Value, from_text, quoted, to_text
from ...views.columns import Column
from ..frame.command import Needs, command
from ..frame.options import Annotated, DryRun, argument
from ..frame.output import Printer
from ..frame.session import Context, Session
from .config import Key, document

SITE = "yarn-site.toml"


@command(
    "config set",
    "yopp config set yarn.nodemanager.opportunistic-containers-max-queue-length 20",
    "yopp config set --dry-run yopp.run.memory-mb 256",
    needs=Needs.QUIET_HOST,
    context_settings={"ignore_unknown_options": True},  # -1 is a value
)
def set_(
    session: Session,
    key: Key,
    value: Annotated[str, argument("VALUE", "Its new value.")],
    dry_run: DryRun = False,
) -> None:
    """Set a property in your configuration file, or in the one that --conf names; the rest of it does not change.

    If you have no such file yet, it starts as a copy of the file that yopp reads now, so that no other value changes.
    Running clusters keep the settings with which they were started.
    """
    printer, context = session.printer, session.context
    known = declared(key)
    if known is None:
        raise unknown_property(key)
    if not value.isprintable() and any("\ud800" <= one <= "\udfff" for one in value):
        raise InvalidPropertyError(
            f"{key} cannot be set",
            because="the value is not UTF-8, which TOML requires",
            hint="type it in UTF-8",
        )
    try:
        # A variable is stored as it was typed: its value may change.
        wanted: Value = value if "${" in value else from_text(known, value)
    except Refused as error:
        raise InvalidPropertyError(
            f"{key} cannot be set", because=str(error), hint=f"`yopp config get {key}` shows its value"
        ) from None
    configuration, path = change(printer, context, {key: wanted}, dry_run=dry_run)
    would = "would be " if dry_run else ""
    text = f"{key} = {to_text(configuration.value(key)) or quoted('')}  ({would}in {path})"
    if printer.form == "tsv":
        printer.text(text)
    else:
        told = document(configuration, key) | ({"dryRun": True} if dry_run else {})
        printer.answer(told, text, ids=[key])
    if not (printer.is_json or printer.ids_only):
        _tell_running(printer, context, dry_run)


@command(
    "config unset",
    "yopp config unset --dry-run yarn.nodemanager.opportunistic-containers-max-queue-length",
    "yopp config unset yarn.nodemanager.opportunistic-containers-max-queue-length",
    needs=Needs.QUIET_HOST,
)
def unset(session: Session, key: Key, dry_run: DryRun = False) -> None:
    """Remove a property from your configuration file, or from the one that --conf names; the rest of it does not
    change.

    The property then has the value of another file, or its default. If you have no such file yet, it starts as with
    `yopp config set`.
    """
    printer, context = session.printer, session.context
    path = _target(context)
    text, source = _site(context, path)
    if key not in {entry.name for entry in read_toml(text, path).entries}:
        raise YoppError(
            f"{key} is not set in {source or path}",
            because="no line of the file sets it",
            hint=f"`yopp config show --origin {key}` shows where its value comes from",
            exit_code=EXIT_NO_SUCH,
        )
    configuration, path = change(printer, context, {key: None}, dry_run=dry_run)
    told: dict[str, Any] = {"name": key}
    value = ""
    if declared(key) is not None:
        told = document(configuration, key)
        value = f": it is {to_text(configuration.value(key)) or quoted('')} ({configuration.origin(key)})"
    printer.answer(told, f"{key} {'would be' if dry_run else 'is'} removed from {path}{value}", ids=[key])
    if not (printer.is_json or printer.ids_only):
        _tell_running(printer, context, dry_run)


@command(
    "config import",
    "yopp config import --dry-run /etc/hadoop/yarn-site.xml",
    "yopp config import /etc/hadoop/yarn-site.xml --json",
    needs=Needs.QUIET_HOST,
)
def import_(
    session: Session,
    files: Annotated[list[str], argument("FILE...", "yarn-site.xml and other Hadoop site files.")],
    dry_run: DryRun = False,
) -> None:
    """Import the properties of a Hadoop site file into your configuration file, and show whether each was
    imported.

    Properties without a meaning on one host are left out, with the reason. If any value is wrong, nothing is
    written.
    """
    printer, context = session.printer, session.context
    lines = _judged(files, context, printer)
    taken = {one.name: one.value for one in lines if one.value is not None}
    path = _target(context)
    if taken:
        _, path = change(printer, context, taken, dry_run=dry_run)
    if printer.is_json:
        told = [_document(one) for one in lines]
        printer.document({"import": {"to": path, "dryRun": dry_run, "properties": told}})
        return
    columns: tuple[Column[_Judged], ...] = (
        Column("name", "PROPERTY", lambda one: one.name),
        Column("value", "VALUE", lambda one: one.text, flexible=True),
        Column("taken", "TAKEN", lambda one: "no" if one.value is None else "yes"),
        Column("why", "WHY", lambda one: one.why, flexible=True),
    )
    printer.listing(
        lines,
        columns,
        documents=list,
        document=_document,
        identity=lambda one: one.name,
        empty="it contains no property",
    )
    if printer.for_people:
        would = "would be imported" if dry_run else "imported"
        what = f"{len(taken)} of {len(lines)} properties {would} into {path}"
        printer.note(what if taken else f"nothing to import; {path} is unchanged")
        if taken:
            _tell_running(printer, context, dry_run)


# ---- checking a Hadoop file


class _Judged(Record):
    """The import of one property: ``value`` is the imported value, None if it is not imported, with the reason."""

    name: str
    text: str
    origin: str
    value: Value | None
    why: str


def _document(one: _Judged) -> dict[str, Any]:
    taken = one.value is not None
    return {"name": one.name, "value": one.text, "origin": one.origin, "taken": taken, "why": one.why}


def _judged(files: Sequence[str], context: Context, printer: Printer) -> list[_Judged]:
    """Every property of the files, in order. Raises ConfigurationError if a property is unreadable or wrong."""
    paths = chosen_files(files, os.environ)
    entries: list[PropertyEntry] = []
    for path in paths:
        reading = read_file(path)
        if reading.problems:
            raise reading.problems[0]
        entries += reading.entries
        for warning in reading.warnings:
            printer.warn(warning)
        if any(not entry.from_xml for entry in reading.entries):
            raise UsageError(
                f"{path} is not a Hadoop site file",
                because="it is not XML",
                hint="use it directly: --conf FILE",
            )
    findings = examine(paths, (), environ=os.environ, state_dir=context.run_dir.state_dir)
    if findings.configuration is None:
        first = findings.problems[0]
        more = len(findings.problems) - 1
        hint = f"{more} more: `yopp config check {paths[0]}` lists all" if more else first.hint
        raise ConfigurationError(f"nothing was imported: {first.message}", because=first.because, hint=hint)
    return [_judge(entry, findings.configuration) for entry in entries]


def _judge(entry: PropertyEntry, configuration: Configuration) -> _Judged:
    known = declared(entry.name)
    text = str(entry.value)

    def left(why: str) -> _Judged:
        return _Judged(entry.name, text, entry.origin, None, why)

    if known is None:
        if (refusal := REFUSED.get(entry.name)) is not None:
            return left("it is what yopp does anyway" if refusal.stands(text) else refusal.because)
        near = nearest(entry.name, PROPERTIES, cutoff=0.93)
        return left(f"unknown; did you mean {near}?" if near else "yopp does not use it")
    if configuration.origin(entry.name) != entry.origin:
        if why := why_not_here(entry.name, text, configuration.value(AMRM_PROXY), os.uname().nodename):
            return left(why)
        return left(f"{configuration.origin(entry.name)} takes precedence")
    value = configuration.value(entry.name)
    remarks = ["the default"] if value == default_value(known, configuration.state_dir) else []
    if to_text(value) != text.strip():
        remarks.append(f"as {to_text(value)}")
    if entry.final:
        remarks.append("not as final: nothing overrides your file")
    return _Judged(entry.name, text, entry.origin, value, "; ".join(remarks))


# ---- writing


def _target(context: Context) -> str:
    """The file to change: the one that --conf or YOPP_CONF names, else the user's. Raises UsageError."""
    named = named_files(context.conf, os.environ)
    if not named:
        return candidate_sites(os.environ)[0]
    path = os.path.join(named[-1], SITE) if os.path.isdir(named[-1]) else named[-1]
    if path.endswith(".xml"):
        raise UsageError(
            f"{path} is not changed", because="yopp writes TOML only", hint=f"`yopp config import {path}`"
        )
    return path


def _site(context: Context, path: str) -> tuple[str, str]:
    """The present text of the file; if the file does not exist, the text that it starts with, and the path of the
    copied file. Raises ConfigurationError if it is not TOML."""
    source = path
    if not os.path.lexists(path):
        if context.names_files:
            return "", ""
        [source] = chosen_files((), os.environ)
    reading = read_file(source)
    if reading.problems:
        raise reading.problems[0]
    with open(source, encoding="utf-8", newline="") as file:
        return file.read(), "" if source == path else source


def change(
    printer: Printer, context: Context, values: Mapping[str, Value | None], *, dry_run: bool
) -> tuple[Configuration, str]:
    """Set the values, or remove those that are None, check the result, and write the file. Returns the new
    configuration, and the path of the file. Raises ConfigurationError, YoppError."""
    named = _target(context)
    path = os.path.realpath(named)
    _check_place(path)
    with _directory(os.path.dirname(path), create=not dry_run):
        before, copied = _site(context, named)
        text = with_values(before, values)
        if text is None:
            raise ConfigurationError(
                f"{named} was not changed",
                because="the file cannot be edited without changing other parts of it",
                hint="edit it with an editor; `yopp config check` checks it",
            )
        configuration = _tried(context, path, text)
        if copied:
            printer.note(f"{named} starts as a copy of {copied}")
        for warning in configuration.warnings:
            printer.warn(warning)
        if not dry_run:
            _write(path, text)
    return configuration, named


def _tried(context: Context, path: str, text: str) -> Configuration:
    """The configuration with ``text`` in the file. Raises ConfigurationError."""
    given = chosen_files(context.conf, os.environ) if context.names_files else [path]
    read = [path if os.path.realpath(one) == path else one for one in given]
    try:
        return load(
            read if path in read else [*read, path],
            context.define,
            environ=os.environ,
            state_dir=context.run_dir.state_dir,
            texts={path: text},
        )
    except ConfigurationError as error:
        raise type(error)(
            f"nothing was written: {error.message}", because=error.because, hint=error.hint
        ) from None


def _check_place(path: str) -> None:
    """Raise YoppError for a path that must not be replaced, such as a device or a read-only file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_write(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise _cannot_write(path, OSError(errno.EINVAL, "it is not a regular file"))
    if not os.access(path, os.W_OK):
        raise _cannot_write(path, PermissionError(errno.EACCES, "it is not writable"))


@contextmanager
def _directory(path: str, *, create: bool) -> Iterator[None]:
    """Lock a directory against other changes of a file in it. Raises YoppError if it cannot be used."""
    try:
        if create:
            os.makedirs(path, mode=0o755, exist_ok=True)
        elif not os.path.isdir(path):
            yield
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: str, text: str) -> None:
    """Write the file atomically, with its present mode and owner. Raises YoppError."""
    try:
        before = os.stat(path) if os.path.exists(path) else None
        mode = 0o644 if before is None else stat.S_IMODE(before.st_mode)
        # When root changes a user's file, the owner stays.
        owner = (before.st_uid, before.st_gid) if before is not None and os.geteuid() == 0 else None
        write_whole(path, text.encode(), mode=mode, owner=owner, durable=True)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: str, error: OSError) -> YoppError:
    return YoppError(f"cannot write {path}", because=reason_of(error), hint="--conf names another file")


def _tell_running(printer: Printer, context: Context, dry_run: bool) -> None:
    if not dry_run and os.path.exists(context.run_dir.rm_socket):
        printer.note("the running cluster keeps its settings: `yopp down`, then `yopp up`")
