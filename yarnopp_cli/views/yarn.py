"""Lists and reports as YARN's own command line prints them, for scripts that parse them. Pure.

The widths, titles and words are copied from ``ApplicationCLI``, ``NodeCLI`` and ``QueueCLI`` of Hadoop 3.4, and from
its ``mapred job`` (``mapreduce.tools.CLI``, ``TypeConverter``). They contain only YARN's output: ``yopp`` called by
its own name prints more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from executor.hints import Any, Generic, TypeVar
from executor.light import Record
from executor.records import MIB, Resource, ResourceUtilization

from ..records.ids import job_id
from ..records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    NodeReport,
    QueueReport,
    YarnApplicationState,
)
from ..records.times import civil
from .applications import document as application_document
from .cluster import container_document
from .text import month_name, weekday

T = TypeVar("T")
_NOT_SET = "<Not set>"

Filters = Mapping[str, Sequence[str]]
"""The filters of a list: ``states``, ``types`` and ``tags``."""


class Layout(Record, Generic[T]):
    """YARN's layout of one kind of entity.

    ``columns`` are (title, width, text of the cell), right-aligned and separated by tabs; ``count`` is the line above
    them, ``details`` the lines below a row if details are requested. ``report`` are the lines of one entity,
    ``heading`` the line above them.
    """

    columns: tuple[tuple[str, int, Callable[[T], str]], ...]
    count: Callable[[int, Filters], str]
    heading: str
    report: Callable[[T, int], list[str]]
    details: Callable[[T], list[str]] | None = None

    def table(self, rows: Sequence[T], filters: Filters, *, details: bool = False) -> str:
        """The whole list. As in YARN, the titles are printed even without rows."""
        lines = [self.count(len(rows), filters), self._line([title for title, _, _ in self.columns])]
        for row in rows:
            lines.append(self._line([cell(row) for _, _, cell in self.columns]))
            if details and self.details is not None:
                lines += self.details(row)
        return "\n".join(lines)

    def text(self, row: T, now_ms: int) -> str:
        """The report of one entity."""
        return "\n".join([self.heading, *self.report(row, now_ms)])

    def _line(self, cells: Sequence[str]) -> str:
        return "\t".join(cell.rjust(width) for cell, (_, width, _) in zip(cells, self.columns, strict=True))


def _fields(pairs: Sequence[tuple[str, object]]) -> list[str]:
    return [f"\t{name} : {value}" for name, value in pairs]


def _date(epoch_ms: int) -> str:
    """A time as YARN's ``Times`` writes it, in UTC; N/A for none."""
    if not epoch_ms:
        return "N/A"
    year, month, day, hours, minutes, seconds, _ = civil(epoch_ms)
    clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{weekday(epoch_ms)} {month_name(month)} {day:02d} {clock} +0000 {year}"


def _heartbeat_time(epoch_ms: int) -> str:
    """A time as ``NodeCLI`` writes it, with 12-hour hours and milliseconds, in UTC."""
    year, month, day, hours, minutes, seconds, milliseconds = civil(epoch_ms)
    clock = f"{hours % 12 or 12:02d}:{minutes:02d}:{seconds:02d}:{milliseconds:02d}"
    return f"{weekday(epoch_ms)} {day:02d}/{month_name(month)}/{year % 100:02d} {clock}UTC"


def _percent(share: float) -> str:
    """As Java's ``DecimalFormat("###.##%")``."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _resource(size: Resource) -> str:
    return str(size)


def _utilization(measured: ResourceUtilization) -> str:
    return f"PMem:{measured.memory_bytes // MIB} MB, VMem:0 MB, VCores:{measured.cpu:.7g}"


def _bracketed(words: Sequence[str]) -> str:
    return f"[{', '.join(words)}]"


# -- applications ----------------------------------------------------------------------------------

_LIVE = ("SUBMITTED", "ACCEPTED", "RUNNING")


def _applications(count: int, filters: Filters) -> str:
    states, types = filters.get("states") or _LIVE, filters.get("types") or ()
    tags = filters.get("tags") or ()
    return (
        f"Total number of applications (application-types: {_bracketed(types)}, states: {_bracketed(states)}"
        f" and tags: {_bracketed(tags)}):{count}"
    )


def _url(app: ApplicationReport) -> str:
    return app.tracking_url or "N/A"


def _seconds(memory: int, vcores: int) -> str:
    return f"{memory} MB-seconds, {vcores} vcore-seconds"


def _application(app: ApplicationReport, now_ms: int) -> list[str]:
    told = application_document(app, now_ms)
    timeout = told["timeouts"]["timeout"][0]
    pairs: list[tuple[str, object]] = [
        ("Application-Id", app.application_id),
        ("Application-Name", app.name),
        ("Application-Type", app.application_type),
        ("User", app.user),
        ("Queue", app.queue),
        ("Application Priority", app.priority),
        ("Start-Time", told["startedTime"]),
        ("Finish-Time", app.finished_at_ms),
        ("Progress", _percent(app.progress)),
        ("State", app.state.value),
        ("Final-State", app.final_status.value),
        ("Tracking-URL", _url(app)),
        ("RPC Port", -1),
        ("AM Host", app.am_node_id.rpartition(":")[0] or "N/A"),
        ("Aggregate Resource Allocation", _seconds(app.memory_seconds, app.vcore_seconds)),
        ("Aggregate Resource Preempted", _preempted(app)),
        ("Log Aggregation Status", told["logAggregationStatus"]),
        ("Diagnostics", app.diagnostics),
        ("Unmanaged Application", str(app.unmanaged).lower()),
        ("Application Node Label Expression", told["appNodeLabelExpression"] or _NOT_SET),
        ("AM container Node Label Expression", told["amNodeLabelExpression"] or _NOT_SET),
    ]
    expiry, left = timeout["expiryTime"], timeout["remainingTimeInSeconds"]
    life = f"\tTimeoutType : {timeout['type']}\tExpiryTime : {expiry}\tRemainingTime : {left}seconds"
    return [*_fields(pairs), life]


def _preempted(app: ApplicationReport) -> str:
    return _seconds(app.usage.preempted_memory_seconds, app.usage.preempted_vcore_seconds)


def _attempt(one: ApplicationAttemptReport, now_ms: int) -> list[str]:
    return _fields(
        [
            ("ApplicationAttempt-Id", one.attempt_id),
            ("State", one.state),
            ("AMContainer", one.am_container_id or "N/A"),
            ("Tracking-URL", "N/A"),
            ("RPC Port", -1),
            ("AM Host", one.am_node_id.rpartition(":")[0] or "N/A"),
            ("Diagnostics", one.diagnostics),
        ]
    )


# -- MapReduce jobs --------------------------------------------------------------------------------

_PRIORITIES = ("DEFAULT", "VERY_LOW", "LOW", "NORMAL", "HIGH", "VERY_HIGH")


def _job_state(app: ApplicationReport) -> str:
    if app.state is YarnApplicationState.FINISHED:
        return "SUCCEEDED" if app.final_status is FinalApplicationStatus.SUCCEEDED else app.final_status.value
    if app.state in FINAL_STATES or app.state is YarnApplicationState.RUNNING:
        return app.state.value
    return "PREP"


def _job_priority(app: ApplicationReport) -> str:
    known = 0 <= app.priority < len(_PRIORITIES)
    return _PRIORITIES[app.priority] if known else "UNDEFINED_PRIORITY"


def _used(app: ApplicationReport, *names: str, unit: str = "") -> str:
    """The sum of the application document's values of these names; N/A once it has ended."""
    if app.state in FINAL_STATES:
        return "N/A"
    told = application_document(app, 0)
    return f"{sum(int(told[name]) for name in names)}{unit}"


def _job(app: ApplicationReport, now_ms: int) -> list[str]:
    return [
        f"Job: {job_id(app.application_id)}",
        f"Job Tracking URL : {_url(app)}",
        "Uber job : false",
        f"Job state: {_job_state(app)}",
        "retired: false",
        f"reason for failure: {app.diagnostics}",
    ]


# -- containers and nodes --------------------------------------------------------------------------


def _value_of(one: ContainerReport, name: str) -> str:
    """The value of a name in YARN's document of a container."""
    return str(container_document(one, "", 0)[name])


def _log_url(one: ContainerReport) -> str:
    return f"file://{one.log_directory}" if one.log_directory else "N/A"


def _container(one: ContainerReport, now_ms: int) -> list[str]:
    return _fields(
        [
            ("Container-Id", one.container_id),
            ("Start-Time", _value_of(one, "startedTime")),
            ("Finish-Time", one.finished_at_ms),
            ("State", _value_of(one, "containerState")),
            ("Execution-Type", one.execution_type.value),
            ("LOG-URL", _log_url(one)),
            ("Host", one.node_id),
            ("NodeHttpAddress", "N/A"),
            ("Diagnostics", one.diagnostics.strip()),
        ]
    )


def _node_details(node: NodeReport) -> list[str]:
    return [
        "Detailed Node Information :",
        *_fields(
            [
                ("Configured Resources", _resource(node.total)),
                ("Allocated Resources", _resource(node.used)),
                *_measured(node),
                ("Node-Labels", ",".join(sorted(node.labels))),
            ]
        ),
    ]


def _measured(node: NodeReport) -> list[tuple[str, object]]:
    return [
        ("Resource Utilization by Node", _utilization(node.node_utilization)),
        ("Resource Utilization by Containers", _utilization(node.containers_utilization)),
    ]


def labels_line(labels: Sequence[str]) -> str:
    """The output of ``yarn cluster -lnl``."""
    return "Node Labels: " + ",".join(f"<{label}:exclusivity=true>" for label in labels)


def _node(node: NodeReport, now_ms: int) -> list[str]:
    return _fields(
        [
            ("Node-Id", node.node_id),
            ("Rack", node.rack),
            ("Node-State", node.state.value),
            ("Node-Http-Address", node.http_address),
            ("Last-Health-Update", _heartbeat_time(node.last_heartbeat_ms)),
            ("Health-Report", node.health_report),
            ("Containers", node.num_containers),
            ("Memory-Used", f"{node.used.memory}MB"),
            ("Memory-Capacity", f"{node.total.memory}MB"),
            ("CPU-Used", f"{node.used.vcores} vcores"),
            ("CPU-Capacity", f"{node.total.vcores} vcores"),
            ("Node-Labels", ",".join(sorted(node.labels))),
            ("Node Attributes", ""),
            *_measured(node),
        ]
    )


# -- queues ----------------------------------------------------------------------------------------


def _capacity(percent: float) -> str:
    """As Java's ``DecimalFormat("#.0")``, which writes no zero before the point."""
    return f"{percent:.1f}%".removeprefix("0") if 0 <= percent < 1 else f"{percent:.1f}%"


def _queue(queue: QueueReport, now_ms: int) -> list[str]:
    fields = _fields(
        [
            ("Queue Path", queue.path or queue.name),
            ("State", queue.state),
            ("Capacity", _capacity(queue.capacity)),
            ("Current Capacity", _capacity(queue.used_capacity)),
            ("Maximum Capacity", _capacity(queue.maximum_capacity)),
            ("Default Node Label expression", "<DEFAULT_PARTITION>"),
            ("Accessible Node Labels", "*"),
            ("Preemption", "disabled" if queue.preemption_disabled else "enabled"),
            ("Intra-queue Preemption", "disabled"),
        ]
    )
    return [f"Queue Name : {queue.name}", *fields]


LAYOUTS: dict[str, Layout[Any]] = {
    "app": Layout[ApplicationReport](
        (
            ("Application-Id", 30, lambda app: app.application_id),
            ("Application-Name", 20, lambda app: app.name),
            ("Application-Type", 20, lambda app: app.application_type),
            ("User", 10, lambda app: app.user),
            ("Queue", 10, lambda app: app.queue),
            ("State", 18, lambda app: app.state.value),
            ("Final-State", 18, lambda app: app.final_status.value),
            ("Progress", 15, lambda app: _percent(app.progress)),
            ("Tracking-URL", 35, _url),
        ),
        _applications,
        "Application Report : ",
        _application,
    ),
    "job": Layout[ApplicationReport](
        (
            ("JobId", 23, lambda app: job_id(app.application_id)),
            ("JobName", 20, lambda app: app.name[:20]),
            ("State", 10, _job_state),
            ("StartTime", 14, lambda app: str(application_document(app, 0)["startedTime"])),
            ("UserName", 12, lambda app: app.user),
            ("Queue", 12, lambda app: app.queue),
            ("Priority", 10, _job_priority),
            ("UsedContainers", 15, lambda app: _used(app, "runningContainers")),
            ("RsvdContainers", 15, lambda app: _used(app)),
            ("UsedMem", 8, lambda app: _used(app, "allocatedMB", unit="M")),
            ("RsvdMem", 8, lambda app: _used(app, "reservedMB", unit="M")),
            ("NeededMem", 10, lambda app: _used(app, "allocatedMB", "reservedMB", unit="M")),
            ("AM info", 10, _url),
        ),
        lambda count, _: f"Total jobs:{count}",
        "",
        _job,
    ),
    "appAttempt": Layout[ApplicationAttemptReport](
        (
            ("ApplicationAttempt-Id", 30, lambda one: one.attempt_id),
            ("State", 20, lambda one: one.state),
            ("AM-Container-Id", 35, lambda one: one.am_container_id or "N/A"),
            ("Tracking-URL", 35, lambda one: "N/A"),
        ),
        lambda count, _: f"Total number of application attempts :{count}",
        "Application Attempt Report : ",
        _attempt,
    ),
    "container": Layout[ContainerReport](
        (
            ("Container-Id", 30, lambda one: one.container_id),
            ("Start Time", 20, lambda one: _date(int(_value_of(one, "startedTime")))),
            ("Finish Time", 20, lambda one: _date(one.finished_at_ms)),
            ("State", 20, lambda one: _value_of(one, "containerState")),
            ("Host", 20, lambda one: one.node_id),
            ("Node Http Address", 20, lambda one: "N/A"),
            ("LOG-URL", 35, _log_url),
        ),
        lambda count, _: f"Total number of containers :{count}",
        "Container Report : ",
        _container,
    ),
    "node": Layout[NodeReport](
        (
            ("Node-Id", 16, lambda node: node.node_id),
            ("Node-State", 15, lambda node: node.state.value),
            ("Node-Http-Address", 17, lambda node: node.http_address),
            ("Number-of-Running-Containers", 28, lambda node: str(node.num_containers)),
        ),
        lambda count, _: f"Total Nodes:{count}",
        "Node Report : ",
        _node,
        _node_details,
    ),
    "queue": Layout[QueueReport]((), lambda count, _: "", "Queue Information : ", _queue),
}
"""The layouts of YARN's command line, by the name in YARN's JSON (``Noun.singular``). YARN has no list of
queues.
"""
