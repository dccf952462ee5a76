"""``yopp stats``: samples of the usage of nodes and containers, beside their allocation."""

from __future__ import annotations

import time
from collections.abc import Sequence

from executor.hints import TYPE_CHECKING

from ...clock import now_ms
from ...records.client_protocol import GetContainersRequest
from ...records.reports import GONE, ContainerReport, NodeReport
from ...views import stats as view
from ...views.columns import default_columns
from ...views.containers import is_live, shown_state
from ..frame.command import command
from ..frame.naming import is_container, things
from ..frame.options import Annotated, Live, argument, interval, option
from ..frame.output import Printer, is_terminal_out
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient


@command("stats", "yopp stats", "yopp stats -n 10 -d 5 --json last")
def stats(
    session: Session,
    ids: Annotated[
        list[str] | None,
        argument("[ID]...", "Only these nodes, applications or containers; - for stdin."),
        Live(("app", "container", "node")),
    ] = None,
    count: Annotated[int, option("-n, --count N", "Number of samples; 0 until Ctrl-C.", min=0)] = 1,
    delay: Annotated[float, option("-d, --delay DUR", "The time between samples.", parser=interval)] = 1.0,
) -> None:
    """Print the measured CPU and memory of nodes and live containers beside their allocation.

    CPU is in percent of one core, between two measurements of the node. With --json, each line is the object of one
    node. For ended containers, mean CPU and peak memory are shown.
    """
    sampler = _Sampler(session.client, set(things(session.client, ids)) if ids else None)
    sampler.sample()  # Rates need two samples.
    taken = 0
    while count == 0 or taken < count:
        time.sleep(delay)
        samples = sampler.sample()
        if taken == 0:
            for line in sampler.remarks:
                session.printer.note(line)
        _show(session.printer, samples, first=taken == 0)
        taken += 1


_Samples = list[tuple[NodeReport, view.Stat, list[view.Stat]]]


class _Sampler:
    """Calls the cluster, and remembers the samples that rates need."""

    def __init__(self, client: LocalClient, chosen: set[str] | None) -> None:
        self._client = client
        self._chosen = chosen
        self._rates = view.Rates()
        self.remarks: list[str] = []

    def sample(self) -> _Samples:
        """A sample of each node with its containers; ``remarks`` name entities without containers."""
        every = self._client.nodes()
        reports = [one for one in self._client.containers(nodes=every) if is_live(one)]
        ended = self._last_known(every, reports)
        t = now_ms()
        found: _Samples = []
        for node in every:
            if node.state in GONE:
                continue
            here = [
                (one, view.container_stat(one, self._rates.cpu(one, t), t, shown_state(one)))
                for one in reports
                if one.node_id == node.node_id
            ]
            shown = [stat for one, stat in here if self._wants(one)]
            shown += [
                view.ended_stat(one, t, shown_state(one)) for one in ended if one.node_id == node.node_id
            ]
            if self._chosen is None or shown or node.node_id in self._chosen:
                found.append((node, view.node_stat(node, [stat for _, stat in here], t), shown))
        self._rates.forget_others(one.container_id for one in reports)
        return found

    def _last_known(
        self, every: Sequence[NodeReport], live: Sequence[ContainerReport]
    ) -> list[ContainerReport]:
        """The ended containers of the named entities, if they have no live ones."""
        there = {name for one in live for name in (one.container_id, one.application_id)}
        there.update(node.node_id for node in every)
        missing = sorted((self._chosen or set()) - there)
        if not missing:
            self.remarks = []
            return []
        request = GetContainersRequest(finished=True)
        found = [
            one
            for one in self._client.containers(request, nodes=every)
            if not is_live(one) and (one.application_id in missing or one.container_id in missing)
        ]
        known = {name for one in found for name in (one.container_id, one.application_id)}
        self.remarks = [
            f"{name} has no live containers: these are the last figures of its ended ones"
            if name in known and not is_container(name)
            else f"{name} has ended: these are its last figures"
            if name in known
            else f"{name} has had no container"
            for name in missing
        ]
        return found

    def _wants(self, report: ContainerReport) -> bool:
        names = (report.container_id, report.application_id, report.node_id)
        return self._chosen is None or any(name in self._chosen for name in names)


def _show(printer: Printer, samples: _Samples, *, first: bool) -> None:
    if printer.is_json:
        for node, stat, shown in samples:
            printer.stream_line(view.document(node, stat, shown))
        if not samples:
            printer.stream_line({"t": now_ms(), "node": None, "containers": []})
        return
    rows = [row for _, stat, shown in samples for row in (stat, *shown)]
    printer.listing(
        rows,
        default_columns(view.COLUMNS, wide=printer.form == "wide"),
        documents=list,
        document=view.row_document,
        identity=lambda row: row.id,
        header=first or is_terminal_out(),
    )
