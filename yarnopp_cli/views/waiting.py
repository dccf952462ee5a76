"""Why a container does not run, in words, from what a picture shows. Pure."""

from __future__ import annotations

from executor.records import ContainerState, Resource

from ..records.reports import ContainerReport, NodeReport, NodeState
from .picture import Picture
from .text import megabytes, vcores, width

WAITING = (ContainerState.SCHEDULED, ContainerState.PAUSED, ContainerState.PAUSING, ContainerState.RESUMING)


def free_of(node: NodeReport) -> Resource:
    """What neither guaranteed nor opportunistic containers of a node have now, as far as the RM was told."""
    held = node.used + Resource(node.opportunistic.memory_used, node.opportunistic.vcores_used)
    return (node.total - held).at_least_zero()


def is_waiting(report: ContainerReport) -> bool:
    """Whether it wants to run and does not: queued, paused, or not yet spoken of by its node."""
    return report.state is None or report.state in WAITING


def reason(report: ContainerReport, picture: Picture) -> str:
    """One sentence without a full stop; empty for a container that does not wait."""
    if not is_waiting(report):
        return ""
    node = picture.node(report.node_id)
    if report.state is None:
        return "granted; its master has not started it yet"
    if node is None or node.state is not NodeState.RUNNING:
        return f"its node is {node.state.value if node is not None else 'not known'}"
    if not node.connected:
        return "its node is silent: nothing newer is known"
    if report.state in (ContainerState.PAUSED, ContainerState.PAUSING, ContainerState.RESUMING):
        return _paused_reason(report, node)
    if not report.resource.fits_in(node.total):
        return f"never: it asks for more than its node has ({_words(node.total)})"
    short = _short_of(report.resource, free_of(node))
    if short:
        return f"waits for {short}"
    if report.position > 1:
        return f"behind {report.position - 1} in the queue"
    return "next: nothing is short"


_IN_SHORT = (
    ("make room for Guaranteed", "gave way"),
    ("guaranteed containers use", "gave way"),
    ("gives way", "gave way"),
    ("reclaimed", "gave way"),
    ("outside yopp", "machine is busy"),
)


def short_reason(report: ContainerReport, picture: Picture, cells: int) -> str:
    """``reason`` where it fits into ``cells``, else the same in up to 16."""
    full = reason(report, picture)
    if width(full) <= cells or not full:
        return full
    node = picture.node(report.node_id)
    if report.state is None:
        return "not started yet"
    if node is None or node.state is not NodeState.RUNNING:
        return f"node {node.state.value if node is not None else 'unknown'}"
    if not node.connected:
        return "node is silent"
    if full.startswith("never"):
        return "never: too big"
    for words, short in _IN_SHORT:
        if words in full:
            return short
    if "by hand" in full:
        return "paused by hand"
    short_of = _short_of(_needs(report), free_of(node), bare=True)
    if short_of:
        return f"no {short_of} free"
    return f"behind {report.position - 1}" if report.position > 1 else full


def _needs(report: ContainerReport) -> Resource:
    """What it lacks to run: a paused one keeps its memory."""
    return (
        report.resource if report.state is ContainerState.SCHEDULED else Resource(0, report.resource.vcores)
    )


def _paused_reason(report: ContainerReport, node: NodeReport) -> str:
    if report.state is ContainerState.RESUMING:
        return "goes on in a moment"
    last = report.diagnostics.strip().rpartition("\n")[2]
    if last:
        return last
    short = _short_of(_needs(report), free_of(node))
    return f"paused; waits for {short}" if short else "paused by hand: `r` lets it go on"


def _short_of(needs: Resource, free: Resource, *, bare: bool = False) -> str:
    """What is missing, in words: "a vcore (0 free)"; ``bare`` says no figures."""
    missing = []
    if bare:
        missing += ["vcore"] if needs.vcores > free.vcores else []
        missing += ["memory"] if needs.memory > free.memory else []
        return ", ".join(missing)
    if needs.vcores > free.vcores:
        wanted = "a vcore" if needs.vcores == 1 else f"{needs.vcores} vcores"
        missing.append(f"{wanted} ({free.vcores} free)")
    if needs.memory > free.memory:
        missing.append(f"{megabytes(needs.memory)} of memory ({megabytes(free.memory)} free)")
    return " and ".join(missing)


def _words(resource: Resource) -> str:
    return f"{megabytes(resource.memory)}, {vcores(resource.vcores)}"
