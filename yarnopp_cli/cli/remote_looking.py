"""Looking at a YARN cluster: the REST API's own bytes with ``--json``, and our tables otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..client.yarn import ALIVE, LIVE_STATES, LOG_BYTES, Listing, YarnEngine, cut, node_named
from ..errors import EXIT_NO_SUCH, ApplicationNotFoundError, UsageError, YoppError
from ..records.ids import ApplicationAttemptId
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from ..views import applications as application_view
from ..views import containers as container_view
from ..views import nodes as node_view
from ..views import queues as queue_view
from ..views.columns import Column
from ..views.text import harmless, number_of, timestamp
from .frame.filters import named_queue
from .frame.listing import Choice, Documents, empty_text, repeat, show, words_of
from .frame.naming import ALL, is_container, nodes, one_of, words
from .frame.output import Printer, is_terminal_out
from .looking.application import now_ms
from .looking.container import STATES as CONTAINER_STATES
from .looking.container import Filters, execution_type
from .remote import Values
from .remote_naming import application_id, application_ids, container_ids, node_reports, states_of

T = TypeVar("T")
_OURS_ONLY = {
    "node": frozenset({"limit", "paused", "pid", "address"}),
    "app": frozenset({"command"}),
    "container": frozenset({"position", "cpu", "memory", "command", "pid", "throttled", "yarnState"}),
    "queue": frozenset({"guaranteed", "opportunistic"}),
}
"""Columns of what only yopp tells of its clusters: from YARN they would show zeros that nobody measured."""
_FIELDS_OURS_ONLY = frozenset(
    {"Queue-Limit", "Queue-Wait", "Pid", "Allocated", "Ran", "Command", "Opportunistic"}
)
_MASTERS_FILES = ("AppMaster.stdout", "AppMaster.stderr")


def raw(printer: Printer, body: bytes) -> None:
    """Print an answer as it came; for a person at a terminal, indented and harmless."""
    if is_terminal_out():
        printer.document(json.loads(body))
    else:
        printer.raw(body if body.endswith(b"\n") else body + b"\n")


def known_columns(columns: Sequence[Column[T]], kind: str, ours: bool) -> tuple[Column[T], ...]:
    """The columns whose values the cluster tells."""
    if ours:
        return tuple(columns)
    kept = [one for one in columns if one.key not in _OURS_ONLY[kind]]
    if kind == "node":  # how many may wait is not told: a number alone
        kept = [replace(one, shown=None) if one.key == "queued" else one for one in kept]
    return tuple(kept)


def known_fields(pairs: Sequence[tuple[str, str]], ours: bool) -> list[tuple[str, str]]:
    """The lines of a ``status`` whose values the cluster tells."""
    if ours:
        return list(pairs)
    # "0/0" of a queue: how many may wait is not told
    return [
        (name, value.partition("/")[0] if name == "Queued" else value)
        for name, value in pairs
        if name not in _FIELDS_OURS_ONLY and value
    ]


def _list(
    printer: Printer,
    listing: Listing,
    kind: tuple[str, str],
    columns: Sequence[Column[Any]],
    values: Values,
    *,
    identity: Callable[[Any], str],
    empty: str,
    rows: Sequence[Any] | None = None,
) -> None:
    """Print a list; ``rows`` are those of it that are wanted, None for all."""
    choice = Choice(values.get("columns"), values.get("sort"), values.get("limit"))
    if printer.form == "json" and rows is None and choice.sort is None and choice.limit is None:
        raw(printer, listing.body)
        return
    plural, singular = kind
    by_row = {
        id(report): document for report, document in zip(listing.reports, listing.documents, strict=True)
    }
    show(
        printer,
        listing.reports if rows is None else rows,
        columns,
        Documents(
            lambda shown: {plural: {singular: [by_row[id(one)] for one in shown]} if shown else None},
            lambda one: by_row[id(one)],
        ),
        choice,
        identity=identity,
        empty=empty,
    )


def details(
    printer: Printer,
    found: Sequence[Listing],
    *,
    fields: Callable[[Any], Sequence[tuple[str, str]]],
    columns: Sequence[Column[Any]],
    identity: Callable[[Any], str],
) -> None:
    """Print one or several things in full."""
    if printer.is_json:
        for one in found:
            raw(printer, one.body)
        return
    ours = {id(one.reports[0]): one.ours for one in found}
    printer.details(
        [one.reports[0] for one in found],
        key="",
        document=lambda report: {},  # of no use: JSON has been printed
        fields=lambda report: known_fields(fields(report), ours[id(report)]),
        columns=columns,
        identity=identity,
    )


# -- the cluster -----------------------------------------------------------------------------------------------


def status(engine: YarnEngine, printer: Printer, values: Values) -> int:
    """``yopp status``: 0 where an active ResourceManager has started."""
    answer = engine.info()
    if printer.is_json:
        raw(printer, answer.body)
        return 0
    if printer.quiet or printer.form == "name":
        for node in engine.nodes(states_of(ALIVE)).reports:
            printer.text(node.node_id)
        return 0
    info, metrics = answer.document().get("clusterInfo") or {}, engine.metrics()
    state = str(info.get("state") or "unknown")
    since = info.get("startedOn")
    lines = [
        ("running" if state == "STARTED" else state.lower())
        + (f" since {timestamp(since)}" if isinstance(since, int) and since else ""),
        f"  rm {engine.rest.address}, {info.get('resourceManagerVersion') or 'of unknown version'}, "
        f"{str(info.get('haState') or 'unknown').lower()}",
        f"  nodes: {metrics.get('activeNodes', 0)} active, {metrics.get('lostNodes', 0)} lost, "
        f"{metrics.get('unhealthyNodes', 0)} unhealthy",
        f"  {metrics.get('appsRunning', 0)} applications run, {metrics.get('appsPending', 0)} wait; "
        f"{metrics.get('containersAllocated', 0)} guaranteed containers, "
        f"{metrics.get('containersPending', 0)} asked for",
    ]
    printer.text("\n".join(lines))
    return 0 if state == "STARTED" else 4


# -- nodes -----------------------------------------------------------------------------------------------------


def node_list(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp node list``."""
    allowed = ("ALL", *states_of(tuple(NodeState)))
    states: Sequence[str] = words_of(values["state"], allowed, "--state")
    if values["every"] or "ALL" in states:
        states = allowed[1:]
    states = states or states_of(ALIVE)

    def once() -> None:
        listing = engine.nodes(states)
        _list(
            printer, listing, ("nodes", "node"), known_columns(node_view.COLUMNS, "node", listing.ours), values,
            identity=lambda node: node.node_id, empty="no nodes",
        )  # fmt: skip

    repeat(printer, values["watch"], once)


def node_status(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp node status``."""
    named = words(values["ids"])
    if not all(":" in one for one in named):
        named = [one.node_id for one in nodes(node_reports(engine), named)]
    found = [engine.node(one) for one in named]
    columns = known_columns(node_view.COLUMNS, "node", all(one.ours for one in found))
    details(printer, found, fields=node_view.fields, columns=columns, identity=lambda node: node.node_id)


# -- applications ----------------------------------------------------------------------------------------------


def app_list(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp app list``: YARN filters, but for names and the number of them."""
    allowed = ("ALL", *(state.value for state in YarnApplicationState))
    states: Sequence[str] = words_of(values["state"], allowed, "--state")
    if not states and not values["every"]:
        states = LIVE_STATES
    query = [
        ("states", "" if "ALL" in states else ",".join(states)),
        ("applicationTypes", values["kind"]),
        ("applicationTags", values["tag"]),
        ("user", values["user"]),
        ("queue", values["queue"]),
    ]
    filters = [(name, text) for name, text in query if text]

    def once() -> None:
        listing = engine.applications(filters)
        rows: list[ApplicationReport] | None = None
        if values["name"] or values["limit"] is not None:
            rows = [one for one in listing.reports if not values["name"] or one.name == values["name"]]
            rows = list(cut(rows, None if values["sort"] else values["limit"]))
        now = now_ms()
        _list(
            printer, listing, ("apps", "app"),
            known_columns(application_view.columns(now), "app", listing.ours), values, rows=rows,
            identity=lambda app: app.application_id,
            empty=empty_text(
                "applications", Choice(limit=values["limit"]),
                narrowed=bool(filters[1:] or values["name"] or (states and states != LIVE_STATES)),
                live_only=states == LIVE_STATES,
            ),
        )  # fmt: skip

    repeat(printer, values["watch"], once)


def app_status(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp app status``."""
    app_details(printer, [engine.application(one) for one in application_ids(engine, values["ids"])])


def app_details(printer: Printer, found: Sequence[Listing]) -> None:
    """Everything about applications."""
    now = now_ms()
    columns = known_columns(application_view.columns(now), "app", all(one.ours for one in found))
    details(
        printer,
        found,
        fields=lambda app: application_view.fields(app, now),
        columns=columns,
        identity=lambda app: app.application_id,
    )


def attempt_list(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp attempt list``."""
    [application_id] = application_ids(engine, [values["application"]])
    _list(
        printer, engine.attempts(application_id), ("appAttempts", "appAttempt"), application_view.ATTEMPT_COLUMNS,
        values, identity=lambda one: one.attempt_id, empty="no attempts",
    )  # fmt: skip


def attempt_status(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp attempt status``."""
    found = []
    for word in words(values["ids"]):
        attempt_id = "" if word == "last" else str(ApplicationAttemptId.parse(word))
        owner = application_id(engine, word)
        listing = engine.attempts(owner)
        chosen = [
            (report, document)
            for report, document in zip(listing.reports, listing.documents, strict=True)
            if attempt_id in ("", report.attempt_id)
        ][-1:]
        if not chosen:
            raise ApplicationNotFoundError(
                f"no attempt {word}",
                because=f"{owner} has none of that number",
                hint=f"`yopp attempt list {owner}` shows those there are",
            )
        document = {"appAttempt": chosen[0][1]}
        found.append(
            Listing([chosen[0][0]], [chosen[0][1]], json.dumps(document, ensure_ascii=False).encode())
        )
    details(
        printer,
        found,
        fields=application_view.attempt_fields,
        columns=application_view.ATTEMPT_COLUMNS,
        identity=lambda one: one.attempt_id,
    )


# -- containers ------------------------------------------------------------------------------------------------


def container_list(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp container list``: of one node or of all as the NodeManagers know them, of one application as the
    ResourceManager does."""
    filters = Filters(
        values["every"],
        words_of(values["state"], CONTAINER_STATES, "--state"),
        execution_type(values["kind"]),
        _application_or_attempt(engine, values["app"]) if values["app"] else "",
        one_of(nodes(node_reports(engine), [values["node"]]), values["node"]).node_id
        if values["node"]
        else "",
        values["user"],
    )

    def once() -> None:
        listing = _containers(engine, printer, filters)
        rows = [one for one in listing.reports if filters.pass_(one)]
        if values["limit"] is not None and not values["sort"]:
            rows = rows[max(0, len(rows) - values["limit"]) :]
        now = now_ms()
        _list(
            printer, listing, ("containers", "container"),
            known_columns(container_view.columns(now), "container", listing.ours), values,
            rows=None if len(rows) == len(listing.reports) else rows, identity=lambda one: one.container_id,
            empty=empty_text(
                "containers", Choice(limit=values["limit"]), narrowed=filters.narrow,
                live_only=not filters.ended_too,
            ),
        )  # fmt: skip

    repeat(printer, values["watch"], once)


def _application_or_attempt(engine: YarnEngine, word: str) -> str:
    return word if word.startswith("appattempt_") else application_id(engine, word)


def _containers(engine: YarnEngine, printer: Printer, filters: Filters) -> Listing:
    if filters.application:
        listing = _merged([engine.attempt_containers(one) for one in _attempts(engine, filters.application)])
        return engine.in_truth(listing, engine.nodes(states_of(ALIVE)).reports)
    alive = engine.nodes(states_of(ALIVE)).reports
    if filters.node:
        one = node_named(alive, filters.node)
        if one is None:
            raise UsageError(
                f"node {filters.node} does not run",
                because="only NodeManagers that run tell of their containers",
                hint="`yopp node status` says more",
            )
        return engine.node_containers(one)
    found, failed = engine.containers_of(alive)
    for node_id, error in failed:
        printer.warn(f"node {node_id} does not answer: {error.because or error.message}")
    return _merged(found)


def _attempts(engine: YarnEngine, identifier: str) -> list[ApplicationAttemptReport]:
    """An attempt, or those of an application."""
    if identifier.startswith("appattempt_"):
        return [ApplicationAttemptReport(str(ApplicationAttemptId.parse(identifier)), "")]
    return engine.attempts(identifier).reports


def _merged(found: Sequence[Listing]) -> Listing:
    if len(found) == 1:
        return found[0]
    documents = [one for listing in found for one in listing.documents]
    whole = {"containers": {"container": documents} if documents else None}
    body = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    return Listing([one for listing in found for one in listing.reports], documents, body)


def container_status(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp container status``."""
    container_details(printer, [engine.container(one) for one in container_ids(engine, values["ids"])])


_LIMITS_UNTOLD = "not known: YARN's REST API does not tell them"


def container_details(printer: Printer, found: Sequence[Listing]) -> None:
    """Everything about containers."""
    now = now_ms()
    columns = known_columns(container_view.columns(now), "container", all(one.ours for one in found))
    if printer.is_json or printer.quiet or printer.form in ("name", "tsv"):
        details(printer, found, fields=lambda one: [], columns=columns, identity=lambda one: one.container_id)
        return
    for number, listing in enumerate(found):
        if number:
            printer.text("")
        one: ContainerReport = listing.reports[0]
        pairs = container_view.fields(one, now, None)
        pairs = [(key, _LIMITS_UNTOLD if key == "Limits" else value) for key, value in pairs]
        if not listing.ours:  # those that a NodeManager tells
            pairs = [
                ("Container-Id", one.container_id),
                ("Execution-Type", one.execution_type.value),
                ("State", str(listing.documents[0].get("state", ""))),
                ("Application", one.application_id),
                ("Node", one.node_id),
                ("User", one.user),
                ("Needs", f"{one.resource.memory} MB, {number_of(one.resource.vcores, 'vcore')}"),
                ("Exit", "-" if one.exit_code is None else str(one.exit_code)),
                ("Logs", one.log_directory),
                ("Diagnostics", one.diagnostics),
            ]
        printer.fields(pairs)


# -- queues ----------------------------------------------------------------------------------------------------


def queue_list(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp queue list``; with ``--json`` the scheduler's document, whichever scheduler it is."""
    if printer.form == "json":
        raw(printer, engine.scheduler().body)
        return
    pairs, body = engine.queues()
    listing = Listing([report for report, _ in pairs], [document for _, document in pairs], body)
    columns = known_columns(queue_view.COLUMNS, "queue", listing.ours)
    _list(
        printer,
        listing,
        ("queues", "queue"),
        columns,
        values,
        identity=lambda one: one.name,
        empty="no queues",
    )


def queue_status(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp queue status``."""
    pairs, _ = engine.queues()
    reports: tuple[QueueReport, ...] = tuple(report for report, _ in pairs)
    given = words(values["ids"])
    chosen = reports if given == [ALL] else [named_queue(reports, name) for name in given]
    found = []
    for report in chosen:
        document = next(document for one, document in pairs if one is report)
        body = json.dumps({"queue": document}, ensure_ascii=False, separators=(",", ":")).encode()
        found.append(Listing([report], [document], body))
    columns = known_columns(queue_view.COLUMNS, "queue", all(one.ours for one in found))
    details(printer, found, fields=queue_view.fields, columns=columns, identity=lambda one: one.name)


# -- logs ------------------------------------------------------------------------------------------------------


def logs(engine: YarnEngine, printer: Printer, values: Values) -> int:
    """``yopp logs``: what the NodeManagers still have of containers' output."""
    targets = _logged(engine, words(values["ids"]), masters_only=values["masters"])
    wanted = {name for name in ("stdout", "stderr") if values[name]}
    prefixed = len(targets) > 1 and not values["no_prefix"]
    shown = 0
    for node, container_id in targets:
        for name in engine.log_files(node, container_id):
            short = name.rpartition(".")[2] if name in _MASTERS_FILES else name
            if (wanted or not values["masters"]) and short not in (wanted or {"stdout", "stderr"}):
                continue  # prelaunch.out, directory.info, …: of interest where somebody asks for the master's
            if name in _MASTERS_FILES and not (wanted or values["masters"]):
                continue
            data = engine.log(node, container_id, name)
            if len(data) >= LOG_BYTES:
                printer.note(f"{container_id} {name}: only its last {LOG_BYTES >> 20} MB")
            shown += 1
            _print_log(printer, container_id, name, data, values["tail"], prefixed)
    if not shown and not printer.quiet:
        printer.note(
            "nothing was written, or it has been aggregated: `yarn logs -applicationId ID` has it then"
        )
    return 0


def _print_log(
    printer: Printer, container_id: str, name: str, data: bytes, tail: int | None, prefixed: bool
) -> None:
    lines = data.splitlines(keepends=True)
    if tail is not None:
        lines = lines[max(0, len(lines) - tail) :]
    if printer.is_json:
        for line in lines:
            text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
            printer.stream_line({"id": container_id, "stream": name, "t": None, "line": text})
        return
    mark = f"{int(container_id.rpartition('_')[2])}: " if prefixed else ""
    if not mark and not is_terminal_out():
        printer.raw(b"".join(lines))
        return
    for line in lines:
        text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        printer.text(mark + harmless(text, keep="\t"))


def _logged(engine: YarnEngine, named: Sequence[str], *, masters_only: bool) -> list[tuple[NodeReport, str]]:
    """The containers whose output is wanted, with their nodes."""
    by_id: dict[str, NodeReport] = {one.node_id: one for one in node_reports(engine)}
    found: list[tuple[NodeReport, str]] = []
    for word in named:
        if is_container(word):
            found += [(engine.node_of(one), one) for one in container_ids(engine, [word])]
            continue
        for one in application_ids(engine, [word]):
            found += _of_application(engine, one, by_id, masters_only)
    return list(dict.fromkeys(found))


def _of_application(
    engine: YarnEngine, identifier: str, by_id: Mapping[str, NodeReport], masters_only: bool
) -> list[tuple[NodeReport, str]]:
    """An application's containers with their nodes; its masters too where there is nothing else."""
    attempts = engine.attempts(identifier).reports
    masters = {one.am_container_id: one.am_node_id for one in attempts if one.am_container_id}
    others = {}
    for attempt in () if masters_only else attempts:
        for one in engine.attempt_containers(attempt).reports:
            if one.container_id not in masters:
                others[one.container_id] = one.node_id
    places = others or masters
    if not any(node_id in by_id for node_id in places.values()):
        raise YoppError(
            f"no node knows containers of {identifier}",
            because="the ResourceManager forgets them when their application has ended",
            hint=f"aggregated logs: `yarn logs -applicationId {identifier}`",
            exit_code=EXIT_NO_SUCH,
        )
    return [(by_id[node_id], key) for key, node_id in sorted(places.items()) if node_id in by_id]
