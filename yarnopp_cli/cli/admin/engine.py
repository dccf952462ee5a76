"""``yopp engine list|test|use``: the engine on which commands work, and whether a YARN cluster answers."""

from __future__ import annotations

import os

from executor.hints import Any

from ...client.choice import (
    ADDRESSES_PROPERTY,
    ENGINE_VARIABLE,
    LOCAL,
    NAME_PROPERTY,
    NAMES,
    RM_VARIABLE,
    YARN,
    addresses,
    choose,
)
from ...client.choice import Choice as Chosen
from ...errors import EXIT_UNREACHABLE, ConnectionFailedError, UsageError, YoppError
from ...records.times import timestamp
from ...views.columns import Column
from ...views.text import number_of
from ..frame.command import Needs, command
from ..frame.engine_options import connected
from ..frame.options import Annotated, Conf, EngineName, Rm, argument
from ..frame.output import Printer
from ..frame.session import Context, Session

_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("engine", "ENGINE", lambda row: row["name"]),
    Column("used", "USED", lambda row: "yes" if row["used"] else "no"),
    Column("origin", "BECAUSE OF", lambda row: row["origin"] or "-", flexible=True),
    Column("where", "WHERE", lambda row: row["where"] or "-", flexible=True),
)
_OPPORTUNISTIC = {
    True: "nodes run or queue some, so they are enabled",
    None: "unknown: nodes report them, and have none now; YARN's REST API does not show whether they are enabled",
    False: "its nodes do not report any: Hadoop before 3.0, or another product",
}


def _chosen(session: Session) -> Chosen:
    assert session.engine is not None, "the commands are declared to need it"
    return session.engine


@command("engine list", "yopp engine list", "yopp engine list --json", needs=Needs.ENGINE)
def list_engines(session: Session) -> None:
    """List the engines, which one is in use, and what selects it."""
    chosen, context = _chosen(session), session.context
    remote = chosen
    if chosen.name != YARN:
        remote = choose(YARN, None, conf=context.conf, define=context.define, environ=os.environ)
    places = {LOCAL: session.run_dir.path, YARN: ",".join(remote.addresses)}
    rows = [
        {
            "name": name,
            "used": name == chosen.name,
            "origin": chosen.origin if name == chosen.name else None,
            "where": places[name],
        }
        for name in NAMES
    ]
    session.printer.listing(
        rows,
        _COLUMNS,
        documents=lambda every: {"engines": every},
        document=lambda row: row,
        identity=lambda row: str(row["name"]),
    )


def _none_named(hint: str) -> UsageError:
    return UsageError(
        "no ResourceManager is configured",
        because="yarn works through the REST API of a cluster's ResourceManager",
        hint=hint,
    )


@command("engine test", "yopp engine test", "yopp engine test --engine local --json", needs=Needs.ENGINE)
def test(session: Session) -> int:
    """Test the engine in use: exit code 0 if it answers, 69 if it does not, 77 if it requires authentication."""
    chosen, printer = _chosen(session), session.printer
    if chosen.name == LOCAL:
        return _test_local(session, chosen)
    if not chosen.addresses:
        raise _none_named("--rm http://rm:8088, or YOPP_RM")
    answers, problems = [], []
    for address in chosen.addresses:
        try:
            answers.append(_ask(address, printer))
        except YoppError as error:
            problems.append((address, error))
    if not answers:
        first = problems[0][1]
        if isinstance(first, ConnectionFailedError):
            first.hint = "--rm names another one, and `yopp engine use local` returns to this host"
        raise first
    opportunistic = _opportunistic(chosen, printer)
    failed = [
        {"address": address, "error": problem.message, "because": problem.because}
        for address, problem in problems
    ]
    document = {
        "engine": YARN,
        "origin": chosen.origin,
        "resourceManagers": answers,
        "unreachable": failed,
        "opportunistic": opportunistic,
    }
    told = [_line(one) for one in answers] + [f"opportunistic containers: {_OPPORTUNISTIC[opportunistic]}"]
    printer.answer(document, "\n".join(told))
    for address, problem in problems if printer.for_people else ():
        printer.warn(f"{address}: {problem.brief}")
    active = any(one["haState"] in ("ACTIVE", "") for one in answers)
    return 0 if active else EXIT_UNREACHABLE


def _line(one: dict[str, Any]) -> str:
    since = f", since {timestamp(one['startedOn'])}" if one["startedOn"] else ""
    high = one["haState"] or "no high availability"
    return f"{one['address']}: {one['state']}, {high}, {one['version'] or 'of unknown version'}{since}"


def _ask(address: str, printer: Printer) -> dict[str, Any]:
    """The facts that a ResourceManager reports about itself."""
    info = connected(Chosen(YARN, "", (address,)), printer).info(anybody=True)
    found = info.document().get("clusterInfo")
    if not isinstance(found, dict):
        raise info.strange("it has no clusterInfo")
    started = found.get("startedOn")
    return {
        "address": address,
        "state": str(found.get("state") or ""),
        "haState": str(found.get("haState") or ""),
        "version": str(found.get("resourceManagerVersion") or ""),
        "startedOn": started if isinstance(started, int) else 0,
    }


def _opportunistic(chosen: Chosen, printer: Printer) -> bool | None:
    """Whether opportunistic containers are scheduled there, by the documents of its nodes; None if that is unknown."""
    client = connected(chosen, printer)
    try:
        documents = [client.document_of(one) for one in client.nodes()]
    except YoppError:
        return None
    if not documents:
        return None
    if not any("numQueuedContainers" in one for one in documents):
        return False
    counted = ("numRunningOpportContainers", "numQueuedContainers")
    return True if any(one.get(name) for one in documents for name in counted) else None


def _test_local(session: Session, chosen: Chosen) -> int:
    info, place = session.client.cluster_info(), session.run_dir.path
    document = {
        "engine": LOCAL,
        "origin": chosen.origin,
        "runDir": place,
        "version": info.version,
        "opportunistic": info.opportunistic_enabled,
    }
    enabled = "on" if info.opportunistic_enabled else "off"
    session.printer.answer(
        document,
        f"{place}: yopp {info.version}, {number_of(info.nodes_running, 'node')}; opportunistic: {enabled}",
    )
    return 0


@command(
    "engine use", "yopp engine use yarn --rm http://rm:8088", "yopp engine use local", needs=Needs.NOTHING
)
def use(
    session: Session,
    name: Annotated[EngineName, argument("ENGINE", "local, or yarn.")],
    rm: Rm = None,
    conf: Conf = None,
) -> None:
    """Store the choice of engine in your configuration file, or in the one that --conf names.

    `yopp config show --origin` shows it. --engine, --rm, YOPP_ENGINE and YOPP_RM take precedence over it.
    """
    from ..lifecycle.config_changes import change

    printer = session.printer
    named = addresses([one for text in rm or () for one in text.split(",")])
    if name is EngineName.local and named:
        raise UsageError(
            "the local engine has no --rm",
            because="it finds its cluster in the run directory",
            hint="yopp engine use yarn --rm URL",
        )
    before = choose(YARN, None, conf=conf, define=None, environ={**os.environ, RM_VARIABLE: ""})
    if name is EngineName.yarn and not (named or before.addresses):
        raise _none_named("yopp engine use yarn --rm http://rm:8088")
    wanted = {NAME_PROPERTY: name.value}
    if named:
        wanted[ADDRESSES_PROPERTY] = ",".join(named)
    _, path = change(printer, Context.of(conf=conf), wanted, dry_run=False)
    printer.answer(
        {"engine": name.value, "where": list(named or before.addresses), "file": path},
        f"{path}: {', '.join(f'{key} = {value}' for key, value in wanted.items())}",
    )
    for variable in (ENGINE_VARIABLE, RM_VARIABLE):
        if overriding := os.environ.get(variable):
            printer.warn(f"{variable} is {overriding}, and takes precedence")
