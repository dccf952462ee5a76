"""Nodes, applications, containers, queues and tasks of MapReduce jobs as tables, and the tiles of both
daemons' pages.

The columns are declared by ``views``. A cell is drawn by its column's kind, except for the few links and bars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from executor.records import ExecutionType, Resource, ResourceInformation

from ...clock import now_ms
from ...records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
)
from ...views import applications, containers, nodes
from ...views.columns import STATE, TIME, Column
from ...views.html import Html, Keyed, join, link, meter, moment, section, shares, stacked, state, table, tag
from ...views.rest.mapreduce import FAILED, KILLED, RUNNING, SUCCEEDED, JobView, TaskView, is_measured
from ...views.text import megabytes, of_megabytes, span
from .frame import path

T = TypeVar("T")
Titles = tuple[tuple[str, str], ...]
"""The titles of a table, each with the key of its column."""
MOST_ROWS = 500
"""The most applications or containers in a table; if there are more, the newest or the live ones are shown."""
_PLAIN_NODES: Titles = tuple(
    (title.removesuffix(" (G)").removeprefix("Running ") if title.endswith(" (G)") else title, key)
    for title, key in nodes.PAGE
    if not title.endswith(" (O)") and title != "Queued Containers"
)
_ATTEMPTS: Titles = (
    ("Attempt ID", "id"),
    ("State", "state"),
    ("AM Container", "container"),
    ("Started", "started"),
    ("Finished", "finished"),
    ("Diagnostics", "diagnostics"),
)
_CONTAINERS: Titles = (
    ("Container ID", "id"),
    ("Execution Type", "type"),
    ("State", "state"),
    ("Node", "node"),
    ("Time", "time"),
    ("Memory", "allocated"),
    ("VCores", "vcores"),
    ("Logs", "logs"),
    ("Exit", "exit"),
)
_QUEUES: Titles = (
    ("Node", "node"),
    ("Running (O)", "runningO"),
    ("Queued", "queued"),
    ("Queue capacity", "capacity"),
    ("Limit of the RM", "limit"),
    ("Paused", "paused"),
    ("Estimated wait", "wait"),
)
MAP_REDUCE = "MAPREDUCE"
_TASK_TITLES = (
    "TaskView", "State", "Attempts", "Execution Type", "Started", "Elapsed", "CPU", "Peak memory", "Node", "Container",
)  # fmt: skip
_TASK_NUMBERS = frozenset({"Attempts", "Elapsed", "CPU", "Peak memory"})
MOST_TASKS = 500


def listed(
    titles: Titles,
    columns: Mapping[str, Column[T]],
    rows: Sequence[T],
    *,
    empty: str,
    now: int = 0,
    **drawn: Callable[[T], object],
) -> Html:
    """Rows in the columns that the titles name; ``drawn`` are functions for cells that no kind draws. Times
    on the day of ``now`` are shown without the date.
    """

    def cell(row: T, key: str) -> object:
        if key in drawn:
            return drawn[key](row)
        column = columns[key]
        value = column.value(row)
        if column.kind is STATE:
            return state(value)
        if column.kind is TIME:
            return moment(value, now)
        shown = column.kind.text(value)
        return Keyed(shown, value) if isinstance(value, (int, float)) else shown

    return table(
        [title for title, _ in titles],
        [[cell(row, key) for _, key in titles] for row in rows],
        empty=empty,
        numeric=frozenset(title for title, key in titles if key in columns and columns[key].numeric),
    )


def nodes_table(rows: Sequence[NodeReport], *, opportunistic: bool) -> Html:
    """YARN's Nodes page; without the opportunistic columns if such containers are disabled, as in YARN."""

    def http(node: NodeReport) -> object:
        return link(f"http://{node.http_address}/node", node.http_address) if node.http_address else "N/A"

    titles = nodes.PAGE if opportunistic else _PLAIN_NODES
    return listed(titles, nodes.BY_KEY, rows, empty="No nodes.", now=now_ms(), http=http)


def queue_limits_table(rows: Sequence[NodeReport]) -> Html:
    """The queue of each running node and its limits."""
    running = [node for node in rows if node.state is NodeState.RUNNING]
    return listed(_QUEUES, nodes.BY_KEY, running, empty="No nodes.", limit=nodes.limit_text)


def applications_table(rows: Sequence[ApplicationReport]) -> Html:
    """YARN's page of applications."""
    now = now_ms()
    columns = applications.by_key(now)
    columns["progress"] = Column("progress", "", lambda app: app.progress)  # its bar is aligned to the left
    return listed(
        applications.PAGE,
        columns,
        rows,
        empty="No applications.",
        now=now,
        id=lambda app: link(path("cluster", "app", app.application_id), app.application_id),
        progress=progress,
    )


def progress(app: ApplicationReport) -> Html:
    """An application's progress as a bar."""
    return meter(app.progress, 1, f"{app.progress:.0%}")


def attempts_table(rows: Sequence[ApplicationAttemptReport]) -> Html:
    """The attempts of an application."""
    columns = {column.key: column for column in applications.ATTEMPT_COLUMNS}
    return listed(
        _ATTEMPTS,
        columns,
        rows,
        empty="No attempts.",
        container=master,
    )


def master(report: ApplicationReport | ApplicationAttemptReport) -> object:
    """A link to the container of a master, or the place of a master without a container."""
    if not (container_id := report.am_container_id):
        return applications.where_without_container(report)
    return link(path("cluster", "container", container_id), container_id)


def containers_table(
    reports: Sequence[ContainerReport], empty: str, http_addresses: Mapping[str, str] | None = None
) -> Html:
    """Containers in the order given; of too many, the running ones, then the waiting ones, then the last that
    ended.

    ``http_addresses`` are the addresses of the nodes' pages, by id; the page of a container's own node needs none.
    """
    shown, addresses = list(reports), http_addresses or {}
    if len(shown) > MOST_ROWS:
        ranked = sorted(range(len(shown)), key=lambda at: (_rank(shown[at]), -at))
        shown = [shown[at] for at in sorted(ranked[:MOST_ROWS])]

    def at_node(report: ContainerReport, *parts: str) -> str:
        address = addresses.get(report.node_id, "")
        return (f"http://{address}" if address else "") + path("node", *parts)

    def logs(report: ContainerReport) -> object:
        if not report.started_at_ms:
            return ""
        return link(at_node(report, "containerlogs", report.container_id, report.user or "-"), "logs")

    def ended(report: ContainerReport) -> object:
        live = containers.is_live(report)
        return "" if live else containers.exit_text(report).partition(",")[0]

    found = listed(
        _CONTAINERS,
        containers.by_key(now_ms()),
        shown,
        empty=empty,
        id=lambda one: link(at_node(one, "container", one.container_id), one.container_id),
        type=lambda one: kind(one.execution_type),
        logs=logs,
        exit=ended,
    )
    if len(shown) == len(reports):
        return found
    words = f"{len(shown)} of {len(reports)}: running containers first, then waiting ones, then ended ones."
    return join([found, tag("p", words, class_="more")])


def _rank(report: ContainerReport) -> int:
    if not containers.is_live(report):
        return 2
    return 0 if report.started_at_ms else 1


def kind(execution_type: ExecutionType) -> Html:
    """The execution type."""
    return tag("span", execution_type.value, class_=f"kind {execution_type.value.lower()}")


def resource_tiles(
    guaranteed: Resource, opportunistic: Resource, total: Resource
) -> list[tuple[str, Html, str]]:
    """The memory, vcores and further resource types that containers of both types hold, as tiles."""
    memory = of_megabytes(guaranteed.memory, total.memory)
    vcores = f"{guaranteed.vcores} of {total.vcores}"
    memory_bar = shares(guaranteed.memory, opportunistic.memory, total.memory, memory)
    vcores_bar = shares(guaranteed.vcores, opportunistic.vcores, total.vcores, vcores)
    return [
        ("Memory", memory_bar, f"guaranteed · {megabytes(opportunistic.memory)} opportunistic"),
        ("VCores", vcores_bar, f"guaranteed · {opportunistic.vcores} opportunistic"),
        *(_other_tile(one, guaranteed, opportunistic) for one in total.others),
    ]


def _other_tile(
    total: ResourceInformation, guaranteed: Resource, opportunistic: Resource
) -> tuple[str, Html, str]:
    held, lent = guaranteed.amount(total.name), opportunistic.amount(total.name)
    bar = shares(held, lent, total.value, f"{held} of {total.value}")
    return total.name, bar, f"guaranteed · {lent} opportunistic"


def map_reduce_section(view: JobView, now: int) -> Html:
    """The progress of a job's maps and reduces, and each task with its last attempt."""
    shown = view.tasks[:MOST_TASKS]
    rows = [_task_row(view, task, now) for task in shown]
    parts: list[object] = [
        _task_progress(view, "Maps", is_reduce=False),
        _task_progress(view, "Reduces", is_reduce=True),
        table(_TASK_TITLES, rows, empty="No tasks.", numeric=_TASK_NUMBERS),
    ]
    if len(view.tasks) > MOST_TASKS:
        parts.append(tag("p", f"The first {MOST_TASKS} of {len(view.tasks)}.", class_="more"))
    return section(f"Job {view.id}", join(parts))


def _task_progress(view: JobView, name: str, *, is_reduce: bool) -> Html:
    states = [one.state for one in view.tasks if one.is_reduce is is_reduce]
    counts = {word: states.count(word) for word in (SUCCEEDED, RUNNING, FAILED, KILLED)}
    waiting = len(states) - sum(counts.values())
    parts = [
        ("done", counts[SUCCEEDED]),
        ("failed", counts[FAILED] + counts[KILLED]),
        ("running", counts[RUNNING]),
        ("pending", waiting),
    ]
    words = [f"{counts[SUCCEEDED]} of {len(states)} done"]
    words += [f"{counts[word]} {word.lower()}" for word in (RUNNING, FAILED, KILLED) if counts[word]]
    words += [f"{waiting} waiting"] if waiting else []
    return stacked(parts, f"{name}: {', '.join(words)}")


def _task_row(view: JobView, task: TaskView, now: int) -> list[object]:
    tried = task.successful or (task.attempts[-1] if task.attempts else None)
    short = tag("span", task.id.removeprefix(f"task_{view.id.removeprefix('job_')}_"), title=task.id)
    if tried is None:
        return [short, state(task.state), 0, "", "", "", "", "", "", ""]
    document = view.attempt_document(task, tried)
    container: object = tried.container_id
    if tried.node_http_address:
        page = path("node", "container", tried.container_id)
        container = link(f"http://{tried.node_http_address}{page}", container)
    has_run, measured = bool(tried.started_at_ms), is_measured(tried)
    return [
        short,
        state(task.state),
        len(task.attempts),
        kind(tried.execution_type),
        moment(tried.started_at_ms, now) if has_run else "",
        span(document["elapsedTime"]) if has_run else "",
        span(tried.cpu_ms) if measured else "",
        megabytes(round(tried.peak_bytes / (1 << 20), 1)) if measured else "",
        tried.node_id,
        container,
    ]
