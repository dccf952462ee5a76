"""Looking at a YARN cluster where that is another thing than looking at this host's."""

from __future__ import annotations

import time

from ..client.yarn import ALIVE, LIVE_STATES, YarnRestClient
from ..errors import EXIT_TIMEOUT, UsageError, YoppError
from ..records.reports import FINAL_STATES, ApplicationReport, YarnApplicationState
from ..views import applications as view
from ..views.text import timestamp
from .frame import naming
from .frame.naming import is_container, words
from .frame.output import Printer
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
