"""What queueing at nodes gains: the share of time in which slots run tasks, by the length of the tasks.

Guaranteed containers wait for heartbeats: the node reports the end of a task at its next one, the RM then allocates the
room to a waiting request, and the master learns of that at its own next one. Opportunistic containers wait at the node,
so a slot has the next task at once, as long as the queue lasts (here per slot; YARN's property counts per node). Three
clusters run at once: with heartbeats of 3 s and of 1 s, as in YARN, and at each change, as in yopp by default. The
masters are the bench's own, with heartbeats of the same period and of various phases. The tasks sleep, and record when.
"Model" is the utilisation that bench/model.py computes for such heartbeats.

--plot FILE draws the curves as SVG (with matplotlib: pip install -e '.[report]').
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from executor.records import ExecutionType, Resource
from yarnopp_cli.errors import YoppError
from yarnopp_cli.records.client_protocol import GetClusterNodesRequest

from .cluster import Cluster, stamps
from .harness import Table, program
from .master import Master
from .model import phase_of, utilisation, waiting
from .native import tool

LENGTHS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
QUEUES = (0, 1, 2, 5, 10)
CALM = 0.5
"""The shortest tasks that leave the host idle when many slots run them."""
VCORES = 72
"""The vcores of each node; a slot of a cell is a part of them."""


@dataclass(frozen=True)
class Kind:
    """A way to run tasks: ``beat`` seconds between heartbeats, 0 for at once; ``queue`` tasks wait at each slot."""

    execution: ExecutionType
    beat: float
    queue: int = 0

    @property
    def slots(self) -> int:
        """The slots of a cell: if the phase matters, enough for many phases."""
        return 4 if self.queue or not self.beat else 12

    @property
    def outstanding(self) -> int:
        """How many tasks a master has asked for at any time: a guaranteed ask waits at the RM while all slots
        are taken."""
        return 2 if self.execution is ExecutionType.GUARANTEED else 1 + self.queue

    def model(self, seconds: float) -> float:
        """The utilisation that heartbeats allow, according to the model."""
        if self.execution is ExecutionType.GUARANTEED:
            return waiting(seconds, self.beat, self.beat)
        return utilisation(seconds, self.beat, self.beat, self.queue, self.slots)

    @property
    def name(self) -> str:
        """The name in the table and the plot."""
        when = f"heartbeats of {self.beat:g} s" if self.beat else "heartbeats at once"
        if self.execution is ExecutionType.GUARANTEED:
            return f"guaranteed, {when}"
        return f"opportunistic, queue of {self.queue}, {when}"


Cell = tuple[Kind, float]
"""A kind, and the seconds of its tasks."""
Found = dict[Cell, float]


def measured(lines: Iterable[Sequence[int]], slots: int, begin: float, end: float) -> float:
    """The share of time between ``begin`` and ``end``, in seconds, that tasks ran on ``slots`` slots.

    ``lines`` are those that tasks write: the ns of their first and of their last instruction.
    """
    ran = sum(max(0.0, min(last / 1e9, end) - max(first / 1e9, begin)) for first, last in lines)
    return ran / (slots * (end - begin))


class Slot(threading.Thread):
    """A master that keeps one slot busy, and ``queue`` more tasks at its node."""

    def __init__(
        self, socket: str, node: str, kind: Kind, seconds: float, number: int, file: Path, until: float
    ) -> None:
        super().__init__(daemon=True)
        self._socket, self._node, self._kind, self._number, self._until = socket, node, kind, number, until
        self._command = [*tool("task"), str(file), str(seconds)]
        self.file = file
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run tasks until the time is over."""
        try:
            master = Master(self._socket, name=f"slot {self._number}")
            try:
                self._drive(master)
            finally:
                master.finish()
        except (YoppError, RuntimeError) as error:
            self.error = error

    def _drive(self, master: Master) -> None:
        kind, size = self._kind, Resource(16, VCORES // self._kind.slots)
        tick = time.monotonic() + kind.beat * phase_of(self._number)
        ended: set[str] = set()
        asked = 0
        while time.monotonic() < self._until:
            if kind.beat:
                time.sleep(max(0.0, tick - time.monotonic()))
                tick += kind.beat
            answer = master.call(wait_ms=0 if kind.beat else 500)
            master.start(master.new(answer), self._command)
            ended.update(one.container_id for one in answer.completed)
            if missing := kind.outstanding - (asked - len(ended)):
                asked += missing
                answer = master.call(master.ask(missing, kind.execution, size, self._node), wait_ms=0)
                master.start(master.new(answer), self._command)


def cell(cluster: Cluster, node: str, kind: Kind, seconds: float, span: float, folder: Path) -> float:
    """The utilisation of one kind with tasks of one length."""
    begun = time.monotonic()
    warm = 1.0 + 2 * kind.beat + min(seconds, 1.0)
    until = begun + warm + span
    slots = [
        Slot(cluster.socket, node, kind, seconds, number, folder / f"{kind.name} {seconds} {number}", until)
        for number in range(kind.slots)
    ]
    for slot in slots:
        slot.start()
    for slot in slots:
        slot.join()
        if slot.error is not None:
            raise slot.error
    # Which slot a task ran on does not matter; tasks that still run have not written a line.
    lines = [line for slot in slots for line in stamps(slot.file)]
    return measured(lines, kind.slots, begun + warm, until - seconds)


def span_of(kind: Kind, seconds: float, *, short: bool) -> float:
    """How many seconds a cell is measured: some turns of its slots, and all its phases."""
    turns = 2 if short else 5 if kind.beat > 1 else 3  # the slowest cluster has fewer cells, and so more time
    return max(turns * (seconds + kind.beat), 1.0 if short else 4.0) + seconds


def one_cluster(beat: float, turns: Sequence[Sequence[Cell]], given: argparse.Namespace) -> Found:
    """Measure the cells of each turn at once, each on its own node; one turn after the other."""
    properties = ["yarn.nodemanager.opportunistic-containers-max-queue-length=1000", *given.define]
    if beat:
        properties.append(f"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms={round(1000 * beat)}")
        properties.append("yopp.nodemanager.heartbeat-mode=periodic")
    found: Found = {}
    if not any(turns):
        return found
    most = max(map(len, turns))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yobench")))
        cluster = stack.enter_context(Cluster(*properties, vcores=VCORES, memory=1024, nodes=most))
        nodes = [one.node_id for one in cluster.call(GetClusterNodesRequest()).nodes]
        pool = stack.enter_context(ThreadPoolExecutor(most))
        for turn in turns:
            spans = [span_of(*one, short=given.short) for one in turn]
            running = [
                pool.submit(cell, cluster, node, *one, span, folder)
                for one, span, node in zip(turn, spans, nodes, strict=False)
            ]
            found |= {one: result.result() for one, result in zip(turn, running, strict=True)}
    return found


def plot(target: Path, found: Found) -> None:
    """Draw the curves: measured values as points and lines, the model of kinds that wait for heartbeats as dots."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "yopp", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        for kind in dict.fromkeys(kind for kind, _ in found):
            lengths = sorted(seconds for one, seconds in found if one is kind)
            (line,) = axes.plot(
                lengths,
                [100 * found[kind, seconds] for seconds in lengths],
                marker="o",
                markersize=3,
                label=kind.name,
            )
            if kind.beat:
                model = [100 * kind.model(seconds) for seconds in lengths]
                axes.plot(lengths, model, linestyle=":", color=line.get_color())
        axes.set(
            xscale="log", xlabel="length of a task, s", ylabel="utilisation of the slots, %", ylim=(0, 102)
        )
        axes.set_xticks(LENGTHS, [f"{seconds:g}" for seconds in LENGTHS])
        axes.minorticks_off()
        figure.legend(fontsize=8, loc="outside right upper")
        axes.grid(alpha=0.3)
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument(
        "--lengths", type=float, nargs="*", help="seconds of a task (0.1 to 10; short 0.5 and 1)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curves")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table of all clusters."""
    lengths = sorted(given.lengths or ((0.5, 1.0) if given.short else LENGTHS))
    guaranteed, opportunistic = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC
    slow = [Kind(guaranteed, 3.0)]
    fast = [Kind(guaranteed, 1.0), *(Kind(opportunistic, 1.0, queue) for queue in QUEUES)]
    event = [Kind(guaranteed, 0.0), Kind(opportunistic, 0.0, 2)]
    by_beat = {3.0: slow, 1.0: fast, 0.0: event}
    # Together, the shortest tasks would keep the host busy and not their slots: run one cell of them at a time.
    busy, calm = [one for one in lengths if one < CALM], [one for one in lengths if one >= CALM]
    found: Found = {}
    for beat, kinds in by_beat.items():
        found |= one_cluster(beat, [[(kind, seconds)] for seconds in busy for kind in kinds], given)
    plans: list[tuple[float, list[list[Cell]]]] = [
        (3.0, [[(kind, seconds) for kind in slow for seconds in calm]]),
        (1.0, [[(kind, seconds) for kind in fast] for seconds in calm[::-1]]),
        (0.0, [[(kind, seconds) for kind in event] for seconds in calm]),
    ]
    with ThreadPoolExecutor(len(plans)) as pool:
        for one in [pool.submit(one_cluster, beat, turns, given) for beat, turns in plans]:
            found |= one.result()
    table = Table(
        "Utilisation of slots by the length of their tasks, % (of the model)",
        ("how tasks come to slots", *(f"{seconds:g} s" for seconds in lengths)),
    )
    for kind in (*slow, *fast, *event):
        cells = []
        for seconds in lengths:
            model = 100 * kind.model(seconds)
            cells.append(f"{100 * found[kind, seconds]:.1f} ({model:.0f})")
        table.rows.append((kind.name, *cells))
    if given.plot:
        plot(given.plot, found)
        table.notes.append(f"drawn in {given.plot}")
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
