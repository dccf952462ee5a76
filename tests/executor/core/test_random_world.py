"""A world that does whatever the contract allows, in any order, and crashes in the middle of things.

Processes are modelled here from the commands alone, so that the book-keeping of the machine is compared with
something that it did not write. Every step is validated; at the end all that can run is let run, and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from executor.core.commands import (
    CleanUpContainer,
    Command,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
    RevokeNext,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import (
    ContainerExited,
    ContainerKillRequested,
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerPauseFailed,
    ContainerPauseRequested,
    ContainerResumed,
    ContainerResumeRequested,
    ContainerScheduled,
    ContainerUpdated,
    Event,
    GuaranteedAwaited,
    NodeUtilizationSampled,
    QueuingLimitReceived,
    UsageSampled,
)
from executor.core.queues import ORDERS
from executor.core.reclaim import POLICIES
from executor.core.scheduler import ContainerScheduler
from executor.light import replace
from executor.records import (
    GPU,
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerState,
    ContainerStatus,
    ContainerUsage,
    ExecutionType,
    HostUtilization,
    Resource,
)

from .recovering import Finding, reconcile
from .world import a_scheduler, a_spec

TOTAL = Resource(2048, 4)
DEVICES = ("0:0", "1:1")


@dataclass
class Process:
    """A container's processes. ``under_way`` is the command that has yet to end in its event."""

    limits_of: Resource
    lowered_to: int | None = None
    reclaims: bool = False
    under_way: str = "launch"
    alive: bool = False
    stopped: bool = False
    killed: bool = False
    exit_code: int | None = None

    @property
    def uses_vcores(self) -> bool:
        """One that is killed while it stands still wakes up only to end."""
        return not (self.stopped and self.under_way == "")


class RandomWorld(RuleBasedStateMachine):
    """The rules are the things that can happen; ``crash_after`` cuts a list of commands short."""

    @initialize(
        pause=st.booleans(),
        queue=st.sampled_from([0, 2, 10]),
        overtakes=st.sampled_from([0, 1, 100]),
        polling=st.booleans(),
        policies=st.fixed_dictionaries(
            {
                "queue_policy": st.sampled_from(sorted(ORDERS)),
                "preemption_policy": st.sampled_from(sorted(POLICIES)),
                "paused_place": st.sampled_from(["ARRIVAL", "TAIL"]),
                "admission": st.sampled_from(["BY_QUEUE_LEN", "BY_QUEUE_LEN", "BY_RESOURCES"]),
                "all_pass_through_queue": st.booleans(),
                "paused_memory": st.sampled_from(["keep", "reclaim", "release"]),
                "max_wait_ms": st.sampled_from([0, 300]),
                "hold_for_guaranteed_ms": st.sampled_from([0, 100, 400]),
                "pressure_enabled": st.booleans(),
                "pressure_sustained_ms": st.just(200),
                "pressure_quiet_ms": st.just(300),
                "utilization_tracker": st.sampled_from(["ALLOCATION", "ALLOCATION", "UTILIZATION"]),
                "overallocation_ramp_ms": st.just(200),
                "paused_resources": st.sampled_from(["kill", "keep"]),
            }
        ),
    )
    def begin(self, pause: bool, queue: int, overtakes: int, polling: bool, policies: dict[str, Any]) -> None:
        self.node: dict[str, Any] = {
            "memory": TOTAL.memory,
            "vcores": TOTAL.vcores,
            "use_pause_for_preemption": pause,
            "max_queue_length": queue,
            "max_overtakes": overtakes,
            "polling": polling,
            "devices": DEVICES,
            **policies,
        }
        self.now = 0.0
        self.count = 0
        self.processes: dict[str, Process] = {}
        self.records: dict[str, ContainerRecord] = {}
        self.reports: dict[str, ContainerStatus] = {}
        self.late: list[Event] = []
        #: who follows whom, as the launchers know it
        self.next: dict[str, str] = {}
        #: ends that the machine is still to hear of, and who has begun in their place
        self.unheard: dict[str, ContainerExited] = {}
        #: those that were told to end, and have not begun
        self.never_begun: list[str] = []
        self.crash_after: int | None = None
        self.grew = False
        self.machine: ContainerScheduler = a_scheduler(**self.node)

    # -- the loop around the machine

    def tell(self, event: Event) -> None:
        self.perform(self.machine.handle(event, self.now))

    def perform(self, commands: list[Command]) -> None:
        self.machine.validate()
        for number, command in enumerate(commands):
            if self.crash_after is not None and number >= self.crash_after:
                self.crash_after = None
                self.crash()
                return
            self.perform_one(command)

    def perform_one(self, command: Command) -> None:
        match command:
            case StoreContainer(record):
                self.records[record.spec.container_id] = record
            case ForgetContainer(container_id):
                del self.records[container_id]
            case LaunchNext(spec, _, after):
                assert self.records[spec.container_id].state is ContainerState.SCHEDULED, "it waits"
                assert after in self.processes
                if self.has_begun_unheard(spec.container_id):
                    return  # behind another one
                assert spec.container_id not in self.processes
                if after not in self.unheard and not self.has_begun_unheard(after):
                    assert spec.container_id not in self.next.values() and after not in self.next
                    self.next[after] = spec.container_id
            case RevokeNext(container_id, ends):
                self.take_back(container_id)
                if ends and not self.has_begun_unheard(container_id):
                    self.never_begun.append(container_id)
            case LaunchContainer(spec) if self.has_begun_unheard(spec.container_id):
                pass
            case (
                PauseContainer(container_id)
                | ResumeContainer(container_id)
                | KillContainer(container_id)
                | SetLimits(container_id)
                | SignalContainer(container_id)
            ) if container_id in self.unheard:
                pass  # it has ended
            case LaunchContainer(spec):
                self.take_back(spec.container_id)
                assert self.records[spec.container_id].state is ContainerState.LAUNCHING, "not written"
                assert spec.container_id not in self.processes, f"{spec.container_id} launched twice"
                self.processes[spec.container_id] = Process(spec.resource)
            case PauseContainer(container_id, reclaim_memory):
                assert self.records[container_id].state is ContainerState.PAUSING, "not written"
                assert container_id not in self.next, "whoever follows it would be stopped"
                self.begin_act(container_id, "pause")
                self.processes[container_id].reclaims = reclaim_memory
            case ResumeContainer(container_id):
                assert self.records[container_id].state is ContainerState.RESUMING, "not written"
                assert self.processes[container_id].lowered_to is None, "it would be short of memory"
                self.begin_act(container_id, "resume")
            case KillContainer(container_id) if container_id not in self.processes:
                assert container_id in self.never_begun
            case KillContainer(container_id):
                assert container_id not in self.next, "whoever follows it would be killed"
                self.processes[container_id].killed = True
            case SetLimits(container_id):
                self.next.pop(container_id, None)
                self.processes[container_id].limits_of = self.records[container_id].spec.resource
                self.processes[container_id].lowered_to = None
            case SignalContainer(container_id):
                self.next.pop(container_id, None)
                assert container_id in self.processes
            case CleanUpContainer(container_id):
                left = self.processes.pop(container_id, None)
                assert left is None or not left.alive, f"{container_id} cleaned up alive"
                assert self.records[container_id].state is ContainerState.DONE
            case ReportStatus(status):
                self.reports[status.container_id] = status

    def take_back(self, container_id: str) -> None:
        self.next = {first: following for first, following in self.next.items() if following != container_id}

    def has_begun_unheard(self, container_id: str) -> bool:
        return container_id in self.processes and any(
            end.following == container_id for end in self.unheard.values()
        )

    def begin_act(self, container_id: str, act: str) -> None:
        process = self.processes[container_id]
        assert process.alive and not process.under_way, f"{act} while {process.under_way}"
        assert process.stopped == (act == "resume")
        process.under_way = act

    # -- what people and the cluster do

    @rule(
        guaranteed=st.booleans(),
        memory=st.sampled_from([256, 512, 0, 1024, 2048, 3000]),
        vcores=st.sampled_from([1, 2, 0, 4]),
        gpus=st.sampled_from([0, 0, 0, 1, 1, 2, 3]),
        timeout=st.sampled_from([0, 0, 0, 3000]),
        hint=st.sampled_from([0, 0, 500, 5000]),
        crash_after=st.sampled_from([None] * 8 + [0, 1, 2, 3]),
    )
    def schedule(
        self,
        guaranteed: bool,
        memory: int,
        vcores: int,
        gpus: int,
        timeout: int,
        hint: int,
        crash_after: int | None,
    ) -> None:
        self.count += 1
        kind = ExecutionType.GUARANTEED if guaranteed else ExecutionType.OPPORTUNISTIC
        self.crash_after = crash_after
        spec = a_spec(
            f"c{self.count}",
            kind,
            memory,
            vcores,
            gpus,
            timeout_ms=timeout,
            duration_hint_ms=hint,
            application_id=f"application_{self.count % 3}",
        )
        self.tell(ContainerScheduled(spec))
        self.crash_after = None

    @precondition(lambda self: self.count < 20)  # each of them is seen to end
    @rule(
        number=st.integers(4, 7),
        vcores=st.sampled_from([1, 2]),
        ends=st.lists(st.sampled_from(["heard", "heard", "unheard", ""]), max_size=4),
        crash_after=st.sampled_from([None] * 8 + [0, 1, 2]),
    )
    def run_a_job(self, number: int, vcores: int, ends: list[str], crash_after: int | None) -> None:
        """Containers that are all alike, of which some follow others."""
        for _ in range(number):
            self.schedule(False, 256, vcores, 0, 0, 0, None)
        for next_begins in ends:
            self.answer_all()
            if self.seen_alive():
                self.exit(number, 0, False, next_begins)
        self.schedule(False, 256, vcores, 0, 0, 0, crash_after)

    def some(self, number: int) -> str:
        """Mostly one that lives: there is little to be seen of the others."""
        known = [s.container_id for s in self.machine.statuses()] or ["unknown"]
        live = [s.container_id for s in self.machine.statuses() if s.state is not ContainerState.DONE]
        return known[number % len(known)] if number > 25 or not live else live[number % len(live)]

    @rule(rarely=st.integers(0, 2), number=st.integers(0, 30), force=st.booleans())
    def kill(self, rarely: int, number: int, force: bool) -> None:
        if rarely < 2:
            return
        self.tell(ContainerKillRequested(self.some(number), -105, "Container killed by its AM.", force))

    @rule(number=st.integers(0, 30))
    def pause(self, number: int) -> None:
        self.tell(ContainerPauseRequested(self.some(number)))

    @rule(number=st.integers(0, 30))
    def resume(self, number: int) -> None:
        self.tell(ContainerResumeRequested(self.some(number)))

    @rule(
        number=st.integers(0, 30),
        kind=st.sampled_from([None, *ExecutionType]),
        memory=st.sampled_from([None, 256, 1024, 2048]),
        vcores=st.integers(0, 4),
    )
    def update(self, number: int, kind: ExecutionType | None, memory: int | None, vcores: int) -> None:
        status = self.machine.status(self.some(number))
        if status is not None:
            resource = None if memory is None else Resource(memory, vcores, status.resource.others)
            self.grew = self.grew or resource is not None
            self.tell(ContainerUpdated(status.container_id, status.version + 1, kind, resource))

    @rule(limit=st.sampled_from([-1, 3, 2, 1, 0]))
    def shed(self, limit: int) -> None:
        self.tell(QueuingLimitReceived(ContainerQueuingLimit(limit)))
        seen = self.machine.opportunistic_status()
        paused = seen.paused if self.node["paused_place"] == "TAIL" else 0
        assert limit < 0 or seen.queued - paused <= limit

    @rule(waiting=st.booleans())
    def await_guaranteed(self, waiting: bool) -> None:
        self.tell(GuaranteedAwaited(waiting))

    @rule(memory=st.sampled_from([100, 200, 600, 3000]), cores=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def sample(self, memory: int, cores: float) -> None:
        usage = ContainerUsage(memory_bytes=memory << 20, cpu_seconds=cores * self.now, sampled_at=self.now)
        self.tell(UsageSampled({name: usage for name, p in self.processes.items() if p.alive}))

    @rule(
        outside=st.sampled_from([0.0, 0.4, 1.0, 2.5, 4.0]),
        yopp=st.sampled_from([0.0, 1.0, 4.0]),
        available=st.sampled_from([4000, 4000, 100, 10]),
        swap=st.sampled_from([0, 4000]),
    )
    def measure(self, outside: float, yopp: float, available: int, swap: int) -> None:
        """Whatever the machine does, and mostly for long enough to matter."""
        cpu = min(4.0, outside + yopp)
        for _ in range(3):
            self.wait(0.11)
            host = HostUtilization(4, cpu, 4 - cpu, cpu - outside, 4, 4096 << 20, available << 20, swap << 20)
            self.tell(NodeUtilizationSampled(host))

    @rule(seconds=st.sampled_from([0.1, 0.3, 2.5]))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            self.perform(self.machine.advance(self.now))
        self.now = until

    # -- what containers do

    @precondition(lambda self: any(p.under_way for p in self.processes.values()))
    @rule()
    def answer_all(self) -> None:
        for name in sorted(self.processes):
            if name in self.processes and self.processes[name].under_way:
                self.answer_one(name)

    @precondition(lambda self: any(p.under_way for p in self.processes.values()))
    @rule(
        number=st.integers(0, 30),
        fails=st.integers(0, 5),
        ends=st.booleans(),
        crash_after=st.sampled_from([None] * 5 + [0, 1]),
    )
    def answer(self, number: int, fails: int, ends: bool, crash_after: int | None) -> None:
        waiting = sorted(name for name, process in self.processes.items() if process.under_way)
        container_id = waiting[number % len(waiting)]
        self.crash_after = crash_after
        if ends and self.processes[container_id].under_way == "launch":
            self.launched_and_ended(container_id)
        else:
            self.answer_one(container_id, fails == 0)
        self.crash_after = None

    def launched_and_ended(self, container_id: str) -> None:
        """A container is so short that its start is told with its end."""
        process = self.processes[container_id]
        process.under_way, process.exit_code = "", 0
        self.next.pop(container_id, None)
        launched = ContainerLaunched(container_id, pid=9, process_start=9)
        self.tell(ContainerExited(container_id, 0, launched=launched))

    def answer_one(self, container_id: str, fails: bool = False) -> None:
        process = self.processes[container_id]
        act, process.under_way = process.under_way, ""
        if act == "launch" and fails:
            self.next.pop(container_id, None)  # the launcher gives back whoever was to follow
            self.tell(ContainerLaunchFailed(container_id, "it was not to be", 127))
        elif act == "launch":
            process.alive = True
            self.tell(ContainerLaunched(container_id, pid=9, process_start=9))
        elif act == "pause" and fails:
            self.tell(ContainerPauseFailed(container_id, "it would not stop"))
        elif act == "pause":
            process.stopped = not process.killed
            if process.reclaims:
                # sometimes less than was expected comes back, sometimes nothing
                before = self.records[container_id].spec.resource.memory
                process.lowered_to = min(before, (110, 640, before)[self.count % 3])
            self.tell(ContainerPaused(container_id, -1 if process.lowered_to is None else process.lowered_to))
        else:
            process.stopped = False
            self.tell(ContainerResumed(container_id))

    def seen_alive(self) -> list[str]:
        """Those that run, as far as the machine was told."""
        return sorted(
            name for name, one in self.processes.items() if one.alive and not self.has_begun_unheard(name)
        )

    @precondition(lambda self: bool(self.seen_alive()))
    @rule(
        number=st.integers(0, 30),
        code=st.sampled_from([0, 0, 1, 137, None]),
        oom=st.booleans(),
        next_begins=st.sampled_from(["", "heard", "unheard"]),
    )
    def exit(self, number: int, code: int | None, oom: bool, next_begins: str) -> None:
        names = sorted(
            name for name in self.next if self.processes[name].alive and not self.processes[name].under_way
        )
        if next_begins and names:
            self.exit_and_begin_next(names[number % len(names)], code, next_begins == "heard")
            return
        alive = self.seen_alive()
        self.exit_one(alive[number % len(alive)], code, oom)

    def exit_one(self, container_id: str, code: int | None = 0, oom: bool = False) -> None:
        process = self.processes[container_id]
        act, process.under_way, process.alive = process.under_way, "", False
        late = {"pause": ContainerPaused, "resume": ContainerResumed}.get(act)
        if late is not None:  # what was under way for it still ends in its event
            self.late.append(late(container_id))
        self.next.pop(container_id, None)
        self.tell(ContainerExited(container_id, code, ContainerUsage(oom_kills=int(oom))))

    def exit_and_begin_next(self, container_id: str, code: int | None, at_once: bool) -> None:
        """One ends and another one begins, before the machine hears of either; meanwhile it decides on."""
        process, following = self.processes[container_id], self.next.pop(container_id)
        process.alive, process.exit_code = False, code
        self.processes[following] = Process(self.records[following].spec.resource, under_way="", alive=True)
        self.unheard[container_id] = ContainerExited(container_id, code, following=following)
        if at_once:
            self.hear(container_id)
        else:
            self.grew = True  # what it holds may have been promised to another one

    @precondition(lambda self: bool(self.unheard))
    @rule()
    def hear_the_first(self) -> None:
        self.hear(next(iter(self.unheard)))

    @precondition(lambda self: bool(self.never_begun))
    @rule()
    def hear_that_it_has_not_begun(self) -> None:
        self.tell(ContainerExited(self.never_begun.pop(0), None))

    def hear(self, container_id: str) -> None:
        event = self.unheard.pop(container_id)
        following = self.processes.get(event.following)
        if following is not None:
            following.under_way, following.alive = "launch", False
        self.tell(event)
        assert following is None or self.records[event.following].state is not ContainerState.SCHEDULED

    @precondition(lambda self: bool(self.late))
    @rule()
    def late_answer(self) -> None:
        event = self.late.pop(0)
        assert self.machine.handle(event, self.now) == []

    @rule()
    def acknowledge(self) -> None:
        done = [s.container_id for s in self.machine.statuses() if s.state is ContainerState.DONE]
        self.perform(self.machine.forget(done))

    # -- the crash

    @rule(rarely=st.integers(0, 7), acts_happened=st.booleans(), ended=st.integers(0, 3), code=st.booleans())
    def crash_now(self, rarely: int, acts_happened: bool, ended: int, code: bool) -> None:
        if rarely == 7:
            self.crash(acts_happened, ended, code)

    def crash(self, acts_happened: bool = True, ended: int = 3, leaves_code: bool = True) -> None:
        """The machine is gone. What was under way has happened or not; meanwhile one container may end."""
        self.late.clear()
        self.next.clear()
        self.never_begun.clear()
        for end in self.unheard.values():  # the journal tells of who has begun
            record = self.records.get(end.following)
            if record is not None and record.state is ContainerState.SCHEDULED:
                self.records[end.following] = replace(record, state=ContainerState.LAUNCHING)
        self.unheard.clear()
        for process in self.processes.values():
            act, process.under_way = process.under_way, ""
            if acts_happened and act == "launch":
                process.alive = True
            elif acts_happened and act in ("pause", "resume"):
                process.stopped = act == "pause"
        self.processes = {name: p for name, p in self.processes.items() if p.alive or name in self.records}
        alive = sorted(name for name, process in self.processes.items() if process.alive)
        if ended < len(alive):
            self.processes[alive[ended]].alive = False
            self.processes[alive[ended]].exit_code = 4 if leaves_code else None
        for name, process in self.processes.items():
            assert not process.alive or name in self.records, f"{name} lives and nobody knows"
        findings = {
            name: Finding(alive=p.alive, stopped=p.alive and p.stopped, exit_code=p.exit_code)
            for name, p in self.processes.items()
        }
        kept = self.machine
        self.machine = a_scheduler(**self.node)
        expected = {name for name, record in self.records.items()}
        for event in reconcile(list(self.records.values()), findings):
            self.forget_unlaunched(event)
            self.tell(event)
        assert {s.container_id for s in self.machine.statuses()} == expected
        for status in kept.statuses():
            again = self.machine.status(status.container_id)
            if again is not None and status.state is ContainerState.DONE and self.is_recorded_done(status):
                assert again.exit_status == status.exit_status

    def is_recorded_done(self, status: ContainerStatus) -> bool:
        record = self.records.get(status.container_id)
        return record is not None and record.state is ContainerState.DONE

    def forget_unlaunched(self, event: Event) -> None:
        """A launch that had not happened left nothing behind, so that it can be done again."""
        record = getattr(event, "record", None)
        if record is not None and record.state is ContainerState.LAUNCHING:
            process = self.processes.get(record.spec.container_id)
            if process is not None and not process.alive and process.exit_code is None:
                del self.processes[record.spec.container_id]

    # -- what must hold

    @invariant()
    def no_more_is_used_than_there_is(self) -> None:
        """By the processes themselves, and not by the machine's own book."""
        if not hasattr(self, "machine") or self.grew:
            return
        sizes = {name: record.spec.resource for name, record in self.records.items()}
        promised_twice = self.node["paused_memory"] == "release"  # YARN's rule
        memory = sum(
            sizes[name].memory if p.lowered_to is None else p.lowered_to
            for name, p in self.processes.items()
            if p.uses_vcores or not promised_twice
        )
        vcores = sum(sizes[name].vcores for name, p in self.processes.items() if p.uses_vcores)
        lent = 2 if self.node["utilization_tracker"] == "UTILIZATION" else 1
        assert memory <= lent * TOTAL.memory, memory
        assert vcores <= lent * TOTAL.vcores, vcores

    @invariant()
    def no_gpu_is_given_to_two(self) -> None:
        if not hasattr(self, "machine"):
            return
        specs = [record.spec for name, record in self.records.items() if name in self.processes]
        given = [device for spec in specs for device in spec.devices]
        assert len(given) == len(set(given)) and set(given) <= set(DEVICES), given
        assert all(len(spec.devices) == spec.resource.amount(GPU) for spec in specs)

    @invariant()
    def reports_tell_the_truth(self) -> None:
        if not hasattr(self, "machine"):
            return
        for status in self.machine.statuses():
            assert self.reports[status.container_id].state is status.state, status.container_id

    def can_end(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.alive and (process.killed or not process.stopped)

    def teardown(self) -> None:
        """Let everything end, and see that it has."""
        if not hasattr(self, "machine"):
            return
        for _ in range(20 * (self.count + 1)):
            while self.unheard:
                self.hear_the_first()
            while self.never_begun:
                self.hear_that_it_has_not_begun()
            live = [s for s in self.machine.statuses() if s.state is not ContainerState.DONE]
            if not live:
                break
            for status in live:
                self.tell(ContainerResumeRequested(status.container_id))
            for name in sorted(self.processes):
                if name in self.processes and self.processes[name].under_way:
                    self.answer_one(name)
            for name in sorted(self.processes):
                if self.can_end(name):
                    self.exit_one(name)
                    break
            calm = HostUtilization(4, 0.0, 4.0, memory_total=4096 << 20, memory_available=4000 << 20)
            self.tell(NodeUtilizationSampled(calm))
            self.wait(2.5)
        else:
            raise AssertionError(f"never ends: {[(s.container_id, s.state.value) for s in live]}")
        assert self.machine.allocated == Resource()
        assert not self.processes
        assert all(record.state is ContainerState.DONE for record in self.records.values())


TestRandomWorld = RandomWorld.TestCase
TestRandomWorld.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRandomWorld.pytestmark = [pytest.mark.timeout(60)]
