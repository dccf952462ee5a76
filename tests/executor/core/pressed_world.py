"""A World on a machine whose processors and memory are modelled, in virtual time.

Each tick the processors are divided as the kernel does: by weight, first among yopp's group, with the weight that the
machine gives it, and each thread outside, then inside the group, and what one does not want the others get. The machine
under test sees nothing but the readings.
"""

from __future__ import annotations

from collections.abc import Mapping

from executor.core.commands import WatchHost
from executor.core.events import NodeUtilizationSampled, UsageSampled
from executor.core.limits import SHARES
from executor.records import ContainerState, ContainerUsage, ExecutionType, HostUtilization

from .world import World

MIB = 1 << 20
MOVING = (ContainerState.LAUNCHING, ContainerState.RUNNING, ContainerState.RESUMING, ContainerState.KILLING)


def divided(cores: float, wants: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Cores for each by (weight, cores wanted)."""
    got = dict.fromkeys(wants, 0.0)
    hungry = {name for name, (_, wanted) in wants.items() if wanted > 0}
    left = cores
    while hungry and left > 1e-9:
        weights = sum(wants[name][0] for name in hungry)
        shares = {name: left * wants[name][0] / weights for name in hungry}
        for name in list(hungry):
            given = min(shares[name], wants[name][1] - got[name])
            got[name] += given
            left -= given
            if wants[name][1] - got[name] < 1e-9:
                hungry.discard(name)
    return got


class PressedWorld(World):
    """``wants`` is what each container would use, in cores, and ``holds`` in MiB; ``outside`` threads of processes
    outside yopp, each of which wants a core, or a part of one; ``others`` threads of another node's containers want one
    each, and weigh as much as ours. ``other_memory`` is theirs, in MiB. ``yields``: the node
    is told that its weights count. ``cost`` is what each reading takes, in CPU seconds; ``daemons`` what yopp's
    daemons seem to use, in cores; ``waiting`` what processes outside seem to wait for."""

    def __init__(
        self, cores: int = 2, *, machine_memory: int = 8192, tick: float = 0.25, **node: object
    ) -> None:
        node.setdefault("vcores", cores)
        super().__init__(cores=cores, **node)  # type: ignore[arg-type]
        self.machine_cores = cores
        self.machine_memory = machine_memory
        self.tick_seconds = tick
        self.wants: dict[str, float] = {}
        self.holds: dict[str, int] = {}
        self.outside: list[float] = []
        self.others = 0
        self.other_memory = 0
        self.swap = 0
        self.used: dict[str, float] = {}
        self.got: dict[str, float] = {}
        self.watched_ms = 0
        self.hurried = 0  # how often a reading was wanted before the interval was over
        self.paused: set[str] = set()
        self.yields = False
        self.cost = 0.0
        self.daemons = 0.0
        self.waiting = -1.0

    def statuses_live(self) -> list[str]:
        return [s.container_id for s in self.machine.statuses() if s.state is not ContainerState.DONE]

    def tick(self, seconds: float = 0.0) -> None:
        """Let time pass, with a reading at each tick while one is wanted."""
        until = self.now + (seconds or self.tick_seconds)
        while self.now < until - 1e-9:
            self._divide(self.tick_seconds)
            self.advance(self.tick_seconds)
            for command in self.commands:
                if isinstance(command, WatchHost):
                    self.watched_ms = command.interval_ms
                    self.hurried += 0 < command.next_ms < 250
            self.commands.clear()
            if self.watched_ms:
                self._read()

    def pass_unread(self, seconds: float) -> None:
        """Let time pass without a reading."""
        self._divide(seconds)
        self.advance(seconds)

    def _divide(self, seconds: float) -> None:
        outside = {f"outside {number}": (1024.0, wanted) for number, wanted in enumerate(self.outside)}
        inside: dict[str, tuple[float, float]] = {}
        for name in self.statuses_live():
            status = self.status(name)
            if status.state in MOVING:
                guaranteed = status.execution_type is ExecutionType.GUARANTEED
                weight = 1024.0 * max(status.resource.vcores, 1) if guaranteed else 2.0
                inside[name] = (weight, self.wants.get(name, 0.0))
        weight = 1024.0 if self.weight is None else SHARES.of_vcores(self.weight)
        group = weight, sum(wanted for _, wanted in inside.values())
        theirs = {"others": (weight, float(self.others))}
        self.got = divided(float(self.machine_cores), outside | theirs | {"yopp": group})
        self.got |= divided(self.got.pop("yopp"), inside)
        self.runnable = sum(wanted > 0 for _, wanted in (outside | inside).values()) + self.others
        for name, cores in self.got.items():
            self.used[name] = self.used.get(name, 0.0) + cores * seconds

    def _read(self) -> None:
        usages, memory, yopp = {}, self.other_memory, 0.0
        paused, self.paused = self.paused, set()
        for name in self.statuses_live():
            status = self.status(name)
            if status.pid:
                memory += self.holds.get(name, 0)
                yopp += self.got.get(name, 0.0)
                if status.state is ContainerState.PAUSED:
                    self.paused.add(name)
                    if name in paused:
                        continue  # it is measured seldom
                usages[name] = ContainerUsage(
                    cpu_seconds=self.used.get(name, 0.0),
                    memory_bytes=self.holds.get(name, 1) * MIB,
                    sampled_at=self.now,
                    runnable=round(self.wants.get(name, 0.0)) if status.state in MOVING else 0,
                )
        busy, yopp = sum(self.got.values()), yopp + self.got.get("others", 0.0)
        self.tell_more(UsageSampled(usages))
        host = HostUtilization(
            cores=self.machine_cores,
            cpu=busy,
            idle=self.machine_cores - busy,
            yopp_cpu=yopp + self.daemons,
            daemons_cpu=self.daemons,
            runnable=self.runnable,
            runnable_others=self.others if busy > 0.9 * self.machine_cores else -1,
            memory_total=self.machine_memory * MIB,
            memory_available=max(self.machine_memory - memory, 0) * MIB,
            swap_free=self.swap * MIB,
            yields=self.yields,
            outside_waiting=self.waiting,
            cost=self.cost,
        )
        self.tell_more(NodeUtilizationSampled(host))

    def changes(self, container_id: str, state: ContainerState) -> int:
        """How often it came into a state."""
        return self.history.get(container_id, []).count(state)
