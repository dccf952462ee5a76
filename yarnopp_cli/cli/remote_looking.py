"""Looking at a YARN cluster where that is another thing than looking at this host's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..client.yarn import ALIVE, LIVE_STATES, LOG_BYTES, YarnRestClient
from ..errors import EXIT_NO_SUCH, EXIT_TIMEOUT, UsageError, YoppError
from ..records.reports import FINAL_STATES, ApplicationReport, NodeReport, YarnApplicationState
from ..views import applications as view
from ..views.text import harmless, timestamp
from .frame import naming
from .frame.naming import is_container, words
from .frame.output import Printer, is_terminal_out
from .frame.session import print_raw
from .jobs.wait import Seen, code_of, print_seen, target_of
from .remote import Values

_MASTERS_FILES = ("AppMaster.stdout", "AppMaster.stderr")
_ORDER = (*LIVE_STATES, "FINISHED")


def status(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    """``yopp status``: 0 where an active ResourceManager has started."""
    answer = engine.info()
    if printer.is_json:
        print_raw(printer, answer.body)
        return 0
    if printer.quiet or printer.form == "name":
        for node in engine.nodes_in(ALIVE):
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


def logs(engine: YarnRestClient, printer: Printer, values: Values) -> int:
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


def _logged(
    engine: YarnRestClient, named: Sequence[str], *, masters_only: bool
) -> list[tuple[NodeReport, str]]:
    """The containers whose output is wanted, with their nodes."""
    by_id: dict[str, NodeReport] = {one.node_id: one for one in engine.nodes()}
    found: list[tuple[NodeReport, str]] = []
    for word in named:
        if is_container(word):
            found += [(engine.node_of(one), one) for one in naming.containers(engine, [word])]
            continue
        for one in naming.applications(engine, [word]):
            found += _of_application(engine, one, by_id, masters_only)
    return list(dict.fromkeys(found))


def _of_application(
    engine: YarnRestClient, identifier: str, by_id: Mapping[str, NodeReport], masters_only: bool
) -> list[tuple[NodeReport, str]]:
    """An application's containers with their nodes; its masters too where there is nothing else."""
    attempts = engine.attempts(identifier)
    masters = {one.am_container_id: one.am_node_id for one in attempts if one.am_container_id}
    others = {}
    for attempt in () if masters_only else attempts:
        for one in engine.attempt_containers(attempt):
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


def wait(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    """``yopp wait``, for applications: YARN tells nobody how a container ended."""
    named = words(values["ids"])
    for one in named:
        if is_container(one):
            raise UsageError(
                f"cannot wait for {one}",
                because="YARN forgets containers as they end, and their exit codes with them",
                hint="wait for its application",
            )
    target, some = target_of(values["state"]), values["any_of_them"]
    wanted = _ORDER.index(target) if target in _ORDER else _ORDER.index("RUNNING") if target else len(_ORDER)
    if target in ("DONE", "FINISHED", "FAILED", "KILLED"):
        wanted = len(_ORDER)
    ids = naming.applications(engine, named)

    def seen_of(report: ApplicationReport) -> Seen:
        ended = report.state in FINAL_STATES
        place = len(_ORDER) if ended else _ORDER.index(report.state.value)
        why = " ".join(report.diagnostics.split()) if ended else ""
        code = view.exit_code(report)
        final = report.final_status.value
        there = ended or place >= wanted
        return Seen(report.application_id, report.state.value, final, code, there, why, report.finished_at_ms)

    timeout = values["timeout"]
    until = None if timeout is None else time.monotonic() + timeout
    states = () if wanted == len(_ORDER) else (YarnApplicationState(_ORDER[wanted]),)
    while True:
        left = 60.0 if until is None else max(0.0, until - time.monotonic())
        response = engine.wait_for_applications(ids, states=states, any_of_them=some, wait=min(left, 60.0))
        if response.satisfied or (until is not None and time.monotonic() >= until):
            break
    seen = [seen_of(one) for one in response.applications]
    reached = [one for one in seen if one.reached]
    if not (reached if some else len(reached) == len(seen)):
        missing = [one for one in seen if not one.reached]
        if not printer.for_people and not printer.quiet:  # how far they have come is an answer, too
            print_seen(printer, seen, EXIT_TIMEOUT)
        raise YoppError(
            f"{', '.join(one.id for one in missing)} did not get there within {timeout:g} s",
            because=", ".join(f"{one.id} is {one.state}" for one in missing),
            hint="it goes on; `yopp wait` again, or `yopp app kill`",
            exit_code=EXIT_TIMEOUT,
        )
    code = code_of(reached, target, values["exit_code"])
    print_seen(printer, seen, code)
    return code
