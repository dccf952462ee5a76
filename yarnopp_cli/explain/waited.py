"""How long a container has waited for its start: since its application was submitted, and since it was eligible.

Eligible is what only a lack of room keeps waiting: a container is from the moment its master asks for it, and not while
its application's earlier phases or its master were not so far. Work that was shed or preempted before it ran on is
eligible since it was first asked for. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from executor.records import ContainerState

from ..records.reports import ContainerReport


class Waited(NamedTuple):
    """Milliseconds until the start; until the end of one that never began, until now of one that waits. -1 where the
    beginning is not known, as of a container that only its node tells of.
    """

    since_submit: int
    since_eligible: int


def waited(report: ContainerReport, now_ms: int) -> Waited:
    """Both of them."""
    ended = report.finished_at_ms if report.state is ContainerState.DONE else 0
    until = report.started_at_ms or ended or now_ms

    def since(begin: int) -> int:
        return max(0, until - begin) if begin else -1

    return Waited(since(report.submitted_at_ms), since(report.eligible_at_ms))
