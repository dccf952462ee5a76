"""The tasks of a MapReduce job, on its application's page."""

from __future__ import annotations

from typing import Final

from ...views.html import Html, join, link, moment, section, stacked, state, table, tag
from ...views.rest.mapreduce import FAILED, KILLED, RUNNING, SUCCEEDED, JobView, Task, is_measured
from ...views.text import megabytes, span
from .frame import path
from .tables import kind

MAP_REDUCE: Final = "MAPREDUCE"
TITLES = (
    "Task", "State", "Attempts", "Execution Type", "Started", "Elapsed", "CPU", "Peak memory", "Node", "Container",
)  # fmt: skip
NUMBERS = frozenset({"Attempts", "Elapsed", "CPU", "Peak memory"})
MOST_TASKS = 500


def map_reduce_section(view: JobView, now: int) -> Html:
    """How far its maps and reduces are, and each task with its last attempt."""
    shown = view.tasks[:MOST_TASKS]
    rows = [_row(view, task, now) for task in shown]
    parts: list[object] = [
        _progress(view, "Maps", is_reduce=False),
        _progress(view, "Reduces", is_reduce=True),
        table(TITLES, rows, empty="No tasks.", numeric=NUMBERS),
    ]
    if len(view.tasks) > MOST_TASKS:
        parts.append(tag("p", f"The first {MOST_TASKS} of {len(view.tasks)}.", class_="more"))
    return section(f"Job {view.id}", join(parts))


def _progress(view: JobView, name: str, *, is_reduce: bool) -> Html:
    states = [one.state for one in view.tasks if one.is_reduce is is_reduce]
    counts = {word: states.count(word) for word in (SUCCEEDED, RUNNING, FAILED, KILLED)}
    waiting = len(states) - sum(counts.values())
    bar = stacked(
        [
            ("done", counts[SUCCEEDED]),
            ("failed", counts[FAILED] + counts[KILLED]),
            ("running", counts[RUNNING]),
            ("pending", waiting),
        ]
    )
    words = [f"{counts[SUCCEEDED]} of {len(states)} done"]
    words += [f"{counts[word]} {word.lower()}" for word in (RUNNING, FAILED, KILLED) if counts[word]]
    words += [f"{waiting} waiting"] if waiting else []
    return tag("div", join([bar, tag("p", f"{name}: {', '.join(words)}", class_="more")]), class_="counts")


def _row(view: JobView, task: Task, now: int) -> list[object]:
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
