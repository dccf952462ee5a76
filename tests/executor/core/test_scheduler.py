"""What the scheduler does beyond YARN's own cases: kills, ends, pauses, updates, measurements, views."""

from __future__ import annotations

import pytest

from executor.causes import Cause, CauseKind, of_kind
from executor.core.actions import PAUSE_PATIENCE
from executor.core.commands import (
    CleanUpContainer,
    Command,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
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
    ContainerRecovered,
    ContainerResumed,
    ContainerResumeRequested,
    ContainerSignalRequested,
    RecoveryCompleted,
    UsageSampled,
    WallClockStepped,
)
from executor.errors import InvalidTransitionError
from executor.records import (
    ContainerExitStatus,
    ContainerState,
    ContainerUsage,
    ExecutionType,
    Resource,
    ResourceUtilization,
)

from .world import EPOCH, G, O, World, id_of

MIB = 1 << 20
KILLED = "Container Killed to make room for Guaranteed Container."


def names(commands: list[Command]) -> list[str]:
    return [f"{type(command).__name__} {id_of(command)}" for command in commands]


class TestOrderOfCommands:
    def test_a_start_is_written_first(self) -> None:
        world = World(answers=False)
        assert names(world.schedule("c")) == ["StoreContainer c", "LaunchContainer c", "ReportStatus c"]
        assert world.records["c"].state is ContainerState.LAUNCHING

    def test_a_guaranteed_one_is_written_before_anyone_is_touched_for_it(self) -> None:
        world = World(answers=False)
        world.schedule("o", O, 2048)
        world.tell(ContainerLaunched("o", 1, 1))
        assert names(world.schedule("g", G, 2048)) == [
            "StoreContainer g", "ReportStatus g", "StoreContainer o", "KillContainer o", "ReportStatus o",
        ]  # fmt: skip

    def test_at_an_end_the_next_one_is_under_way_first_and_the_record_precedes_cleaning_up(self) -> None:
        world = World(answers=False)
        world.schedule("c", O, 2048)
        world.tell(ContainerLaunched("c", 1, 1))
        world.schedule("d", O, 2048)
        assert names(world.exit("c")) == [
            "StoreContainer d", "LaunchContainer d", "ReportStatus d",
            "StoreContainer c", "CleanUpContainer c", "ReportStatus c",
        ]  # fmt: skip
        assert world.records["c"].state is ContainerState.DONE

    def test_a_start_that_is_told_with_its_end_is_written_and_reported_once(self) -> None:
        world = World(answers=False)
        world.schedule("c", O)
        world.advance(2)
        exited = ContainerExited("c", 3, launched=ContainerLaunched("c", 17, 18, "/group", began=1.998))
        assert names(world.tell(exited)) == ["StoreContainer c", "CleanUpContainer c", "ReportStatus c"]
        record = world.records["c"]
        assert (record.state, record.exit_code, record.pid) == (ContainerState.DONE, 3, 17)
        assert record.process_start == 18 and record.finished_at_ms - record.started_at_ms == 2
        assert record.ran_ms == 2


class TestArrival:
    def test_the_same_container_twice_is_one(self) -> None:
        world = World()
        world.schedule("c")
        assert world.schedule("c") == []
        world.exit("c")
        assert world.schedule("c") == [], "nor after it has ended"

    @pytest.mark.parametrize(("memory", "vcores"), [(-1, 1), (512, -1), (2049, 1), (512, 5), (1 << 50, 1)])
    def test_what_can_never_run_here_ends_at_once(self, memory: int, vcores: int) -> None:
        world = World()
        commands = world.schedule("c", G, memory, vcores)
        assert not any(isinstance(c, LaunchContainer | CleanUpContainer) for c in commands)
        assert world.status("c").exit_status == 125
        assert world.machine.allocated == Resource()

    def test_guaranteed_ones_are_never_refused(self) -> None:
        world = World(max_queue_length=0)
        for number in range(50):
            world.schedule(f"g{number}", G, 2048)
        assert world.queued() == (49, 0)

    def test_an_opportunistic_one_takes_nothing_that_a_guaranteed_one_waits_for(self) -> None:
        world = World(memory=4096, vcores=4)
        world.schedule("g0", G, 1024, 3)
        world.schedule("g1", G, 1024, 2)  # waits for vcores, of which one is free
        world.schedule("o1", O, 512, 1)
        assert world.states("g1", "o1") == ["SCHEDULED", "SCHEDULED"]
        world.schedule("o2", O, 512, 0)  # takes none
        assert world.state("o2") is ContainerState.RUNNING
        world.schedule("o3", O, 2048, 0)  # would take memory that g1 needs
        assert world.state("o3") is ContainerState.SCHEDULED

    def test_small_ones_overtake_a_large_one_so_often(self) -> None:
        world = World(memory=8192, vcores=4, max_overtakes=2)
        world.schedule("busy", O, 512, 3)
        world.schedule("large", O, 512, 4)
        for number in range(3):
            world.schedule(f"small{number}", O, 512, 1)
            world.exit("small0") if number == 0 else None
        assert world.states("small0", "small1") == ["DONE", "RUNNING"]
        assert world.states("large", "small2") == ["SCHEDULED", "SCHEDULED"]
        world.exit("small1")
        assert world.state("small2") is ContainerState.SCHEDULED, "the large one was overtaken twice"
        world.exit("busy")
        assert world.states("large", "small2") == ["RUNNING", "SCHEDULED"]


class TestKilling:
    def test_sigterm_then_sigkill(self) -> None:
        world = World(answers=False, sleep_delay_before_sigkill_ms=250)
        world.schedule("c")
        world.tell(ContainerLaunched("c", 1, 1))
        world.stop("c")
        assert world.given(KillContainer) == [KillContainer("c", force=False)]
        assert world.records["c"].exit_status == -105
        assert world.machine.next_deadline() == pytest.approx(0.25)
        assert not world.advance(0.24)
        assert world.advance(0.02) == [KillContainer("c", force=True)]
        assert world.machine.next_deadline() is None
        world.exit("c", 137)
        status = world.status("c")
        assert (status.exit_status, status.exit_code) == (-105, 137)
        assert status.diagnostics == "Container killed by its AM."

    @pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
    @pytest.mark.parametrize("code", [0, 1, 143, None])
    def test_one_that_gives_way_and_ends_well_has_succeeded(self, code: int | None, again: bool) -> None:
        """As in YARN: what ended with 0 while it was killed is not run again."""
        world = World(answers=False, vcores=1)
        world.schedule("o", O)
        world.tell(ContainerLaunched("o", 1, 1))
        world.schedule("g", G)
        assert world.given(KillContainer) == [KillContainer("o", force=False)]
        if again:
            record = world.records["o"]
            world = World(answers=False, vcores=1)
            world.tell(ContainerRecovered(record, alive=False, exit_code=code))
            world.tell(RecoveryCompleted())
        else:
            world.exit("o", code)
        status = world.status("o")
        if code == 0:
            assert (status.exit_status, status.exit_code, status.cause) == (0, 0, None)
            assert status.diagnostics.endswith("It ended by itself with exit code 0 before it was killed.")
        else:
            assert status.exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER

    @pytest.mark.parametrize("by", ["stop", "timeout"])
    def test_one_that_somebody_ended_is_killed_whatever_its_code(self, by: str) -> None:
        world = World(answers=False)
        world.schedule("c", timeout_ms=1000 if by == "timeout" else 0)
        world.tell(ContainerLaunched("c", 1, 1))
        if by == "stop":
            world.stop("c")
        else:
            world.advance(2.0)
        world.exit("c", 0)
        assert world.status("c").exit_status in (-105, 124)

    def test_one_that_obeys_is_not_killed_again(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.tell(ContainerLaunched("c", 1, 1))
        world.stop("c")
        world.exit("c", 143)
        assert world.machine.next_deadline() is None
        assert world.advance(10.0) == []

    def test_force_skips_sigterm_and_hurries_one_that_is_under_way(self) -> None:
        world = World(answers=False)
        for name in ("c", "d"):
            world.schedule(name)
            world.tell(ContainerLaunched(name, 1, 1))
        world.tell(ContainerKillRequested("c", -105, "now", force=True))
        assert world.given(KillContainer) == [KillContainer("c", force=True)]
        world.stop("d")
        world.tell(ContainerKillRequested("d", -107, "hurry", force=True))
        assert world.given(KillContainer) == [KillContainer("d", force=True)]
        world.exit("d", 137)
        assert world.status("d").exit_status == -105, "the first to end it says why"

    def test_a_launching_one_ends_when_its_launch_has(self) -> None:
        world = World(answers=False)
        for name in ("c", "d"):
            world.schedule(name)
            world.stop(name)
            assert world.state(name) is ContainerState.KILLING
        world.advance(1.0)
        world.tell(ContainerLaunched("c", 1, 1))
        assert world.given(KillContainer) == [KillContainer("c", force=True)], "now there is somebody to kill"
        world.tell(ContainerLaunchFailed("d", "was told to end", 143))
        world.exit("c", 137)
        assert [world.status(name).exit_status for name in ("c", "d")] == [-105, -105]
        assert world.machine.allocated == Resource()

    def test_what_a_dying_one_holds_is_not_given_away(self) -> None:
        world = World(answers=False)
        world.schedule("o", O, 2048)
        world.tell(ContainerLaunched("o", 1, 1))
        world.schedule("g", G, 2048)
        assert world.states("o", "g") == ["KILLING", "SCHEDULED"]
        world.exit("o", 143)
        assert world.state("g") is ContainerState.LAUNCHING

    def test_a_dying_one_counts_for_the_next_that_needs_room(self) -> None:
        world = World(answers=False)
        for name in ("o1", "o2"):
            world.schedule(name, O, 1024)
            world.tell(ContainerLaunched(name, 1, 1))
        world.schedule("g1", G, 512)
        world.schedule("g2", G, 512)
        assert world.states("o1", "o2", "g1", "g2") == ["RUNNING", "KILLING", "SCHEDULED", "SCHEDULED"]

    def test_killing_the_guaranteed_head_lets_the_next_one_start(self) -> None:
        world = World()
        world.schedule("busy", G, 1024)
        world.schedule("large", G, 2048)
        world.schedule("small", G, 512)
        assert world.states("large", "small") == ["SCHEDULED", "SCHEDULED"]
        world.stop("large")
        assert world.state("small") is ContainerState.RUNNING


class TestEnds:
    @pytest.mark.parametrize(
        ("code", "usage", "status", "exit_code", "said"),
        [
            (0, ContainerUsage(), 0, 0, ""),
            (3, ContainerUsage(), 3, 3, "Exit code 3"),
            (137, ContainerUsage(), 137, 137, "Exit code 137"),
            (None, ContainerUsage(), -100, None, "lost"),
            (137, ContainerUsage(oom_kills=1, memory_peak_bytes=512 * MIB), -104, 137, "512.0 MB of 512 MB"),
            (None, ContainerUsage(oom_kills=1), -104, 137, "'PHYSICAL' memory limit"),
            (1, ContainerUsage(oom_kills=2), 1, 1, "ended 2 of its processes for the memory limit of 512 MB"),
            (0, ContainerUsage(oom_kills=1), 0, 0, "ended 1 of its processes for the memory limit of 512 MB"),
            (0, ContainerUsage(refused_forks=7), 0, 0, "limit of processes refused 7 new ones"),
            (
                2,
                ContainerUsage(refused_forks=7),
                2,
                2,
                "Exit code 2. Its limit of processes refused 7 new ones.",
            ),
        ],
    )
    def test_what_is_reported(
        self, code: int | None, usage: ContainerUsage, status: int, exit_code: int | None, said: str
    ) -> None:
        world = World()
        world.schedule("c")
        world.exit("c", code, usage)
        seen = world.status("c")
        assert (seen.exit_status, seen.exit_code) == (status, exit_code)
        assert said in seen.diagnostics if said else not seen.diagnostics
        assert seen.usage == usage

    @pytest.mark.parametrize(
        ("kind", "code", "usage", "status"),
        [
            # memory of the host, or of a group above, ran out: v1 by the peak, v2 by the kernel's count
            (O, 137, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), -108),
            (O, 137, ContainerUsage(oom_kills=1, memory_peak_bytes=512 * MIB, limit_ooms=0), -108),
            (O, None, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), -108),
            (O, 2, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), -108),
            (O, 0, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), 0),
            (G, 137, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), 137),
            (G, 2, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB), 2),
            # its own limit
            (O, 137, ContainerUsage(oom_kills=1, memory_peak_bytes=300 * MIB, limit_ooms=1), -104),
            (O, 137, ContainerUsage(oom_kills=1, memory_peak_bytes=512 * MIB), -104),
            (O, 137, ContainerUsage(oom_kills=1), -104),
            # no OOM killer
            (O, 137, ContainerUsage(memory_peak_bytes=300 * MIB), 137),
        ],
    )
    def test_memory_of_the_host_that_ran_out_preempts_an_opportunistic_container(
        self, kind: ExecutionType, code: int | None, usage: ContainerUsage, status: int
    ) -> None:
        world = World()
        world.schedule("c", kind)
        world.exit("c", code, usage)
        seen = world.status("c")
        assert seen.exit_status == status
        by_host = usage.oom_kills and code != 0 and (status == -108 or code == 137) and status != -104
        assert of_kind(seen.cause, CauseKind.HOST_OOM) == bool(by_host)
        assert ("memory of this host, or of a group above" in seen.diagnostics) == (
            status not in (-104,) and bool(usage.oom_kills)
        )

    @pytest.mark.parametrize(("code", "expected"), [(0, 74), (3, 3)])
    def test_output_that_may_be_lost_is_no_success(self, code: int, expected: int) -> None:
        world = World(answers=False)
        for name in ("c", "d"):
            world.schedule(name, O, 1024)
            world.tell(ContainerLaunched(name, 1, 1))
        full = "No space left on device"
        world.tell(ContainerExited("c", code, ContainerUsage(oom_kills=1), output_lost=full))
        seen = world.status("c")
        assert (seen.exit_status, seen.exit_code) == (expected, expected)
        assert seen.cause == Cause(CauseKind.OUTPUT_LOST, text=full)
        assert (
            f"Its output may be incomplete: {full}. Its command ended with exit code {code}. The kernel ended 1"
            in (seen.diagnostics)
        )
        world.tell(ContainerKillRequested("d", -108, "Preempted"))
        world.tell(ContainerExited("d", 0, output_lost=full))
        assert (world.status("d").exit_status, world.status("d").exit_code) == (-108, 74), "it runs again"

    def test_a_failed_launch(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        commands = world.tell(ContainerLaunchFailed("c", "no such file: /bin/nope", 127))
        seen = world.status("c")
        assert (seen.state, seen.exit_status, seen.exit_code) == (ContainerState.DONE, 127, 127)
        assert seen.diagnostics == "no such file: /bin/nope"
        assert "CleanUpContainer c" in names(commands)

    def test_what_was_under_way_for_an_ended_one_is_dropped(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.tell(ContainerLaunched("c", 1, 1), ContainerPauseRequested("c"))
        world.exit("c")
        assert world.tell(ContainerPaused("c")) == []
        assert world.tell(ContainerExited("never seen", 0)) == []

    def test_an_impossible_event_is_a_bug(self) -> None:
        world = World()
        world.schedule("c")
        with pytest.raises(InvalidTransitionError, match="RUNNING, which cannot take ContainerResumed"):
            world.machine.handle(ContainerResumed("c"), 1.0)

    def test_forgetting(self) -> None:
        world = World(retain_finished=1)
        for name in ("c", "d", "e"):
            world.schedule(name, O, 128)
        world.exit("c")
        world.exit("d")
        assert world.machine.forget(["c", "e", "unknown"]) == [ForgetContainer("c")]
        assert world.machine.forget(["c"]) == []
        assert world.machine.forget(["d"]) == [ForgetContainer("d")]
        assert [s.container_id for s in world.machine.statuses()] == ["e", "d"]
        assert world.machine.status("c") is None

    def test_unreported_ends_are_kept_without_bound(self) -> None:
        world = World(retain_finished=0)
        for number in range(5):
            world.schedule(f"c{number}")
            world.exit(f"c{number}")
        assert len(world.machine.statuses()) == 5

    def test_times_are_those_of_the_wall(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.now = 1.5
        world.tell(ContainerLaunched("c", 1, 1))
        world.now = 4.0
        world.exit("c")
        seen = world.status("c")
        began = round(EPOCH * 1000)
        assert (seen.queued_at_ms, seen.started_at_ms, seen.finished_at_ms) == (
            began, began + 1500, began + 4000,
        )  # fmt: skip

    def test_times_follow_a_clock_that_was_set(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.tell(WallClockStepped(EPOCH - 3600))
        world.tell(ContainerLaunched("c", 1, 1))
        seen = world.status("c")
        assert seen.started_at_ms == round((EPOCH - 3600) * 1000)
        assert seen.queued_at_ms == round(EPOCH * 1000), "what was told stays as it was told"


class TestTimeLimit:
    def test_it_ends_by_the_killers_path(self) -> None:
        world = World()
        world.schedule("c", timeout_ms=2000)
        world.advance(1.9)
        assert world.state("c") is ContainerState.RUNNING
        world.advance(0.2)
        seen = world.status("c")
        assert (seen.exit_status, seen.exit_code) == (124, 143)
        assert "2000 ms" in seen.diagnostics

    def test_paused_time_does_not_count(self) -> None:
        world = World()
        world.schedule("c", timeout_ms=2000)
        world.advance(1.0)
        world.tell(ContainerPauseRequested("c"))
        world.advance(100.0)
        world.tell(ContainerResumeRequested("c"))
        world.advance(0.9)
        assert world.state("c") is ContainerState.RUNNING
        world.advance(0.2)
        assert world.status("c").exit_status == 124


class TestPausing:
    """Nodes with one vcore and memory to spare, so that a pause is of use."""

    def paused_for(self, **settings: object) -> World:
        world = World(answers=False, vcores=1, use_pause_for_preemption=True, **settings)
        world.schedule("o")
        world.tell(ContainerLaunched("o", 1, 1))
        world.schedule("g", G)
        return world

    def test_resumed_before_later_arrivals(self) -> None:
        world = self.paused_for()
        assert world.given(PauseContainer) == [PauseContainer("o")]
        world.tell(ContainerPaused("o"))
        world.tell(ContainerLaunched("g", 2, 2))
        world.schedule("later")
        world.exit("g")
        assert world.given(ResumeContainer) == [ResumeContainer("o")]
        assert world.states("o", "later") == ["RESUMING", "SCHEDULED"]

    def test_a_pause_that_does_not_take_becomes_a_kill(self) -> None:
        world = self.paused_for()
        assert world.machine.next_deadline() == pytest.approx(PAUSE_PATIENCE)
        world.advance(PAUSE_PATIENCE)
        assert world.given(KillContainer) == [KillContainer("o", force=True)]
        world.tell(ContainerPaused("o"))
        assert world.state("o") is ContainerState.KILLING
        world.exit("o", 137)
        assert world.status("o").exit_status == -108
        assert KILLED in world.status("o").diagnostics
        assert world.state("g") is ContainerState.LAUNCHING

    def test_a_pause_that_fails_becomes_a_kill(self) -> None:
        world = self.paused_for()
        world.tell(ContainerPauseFailed("o", "no freezer"))
        assert world.given(KillContainer) == [KillContainer("o")]
        assert "could not be paused: no freezer" in world.status("o").diagnostics

    def test_nobody_is_killed_after_a_failed_pause_that_is_no_longer_needed(self) -> None:
        world = self.paused_for()
        world.stop("g")
        world.tell(ContainerPauseFailed("o", "no freezer"))
        assert not world.given(KillContainer)
        assert world.state("o") is ContainerState.RUNNING

    def test_memory_is_not_given_back(self) -> None:
        world = self.paused_for()
        world.tell(ContainerPaused("o"))
        assert world.machine.allocated == Resource(1024, 1)
        assert world.machine.opportunistic_status().memory_used == 512

    def test_a_paused_one_is_killed_where_its_memory_is_needed(self) -> None:
        world = World(answers=False, vcores=2, use_pause_for_preemption=True)
        world.schedule("o", vcores=2)
        world.tell(ContainerLaunched("o", 1, 1))
        world.schedule("g", G)
        world.tell(ContainerPaused("o"))
        world.schedule("large", G, 1536)
        assert world.given(KillContainer) == [KillContainer("o")]
        world.exit("o", 143)
        assert world.states("g", "large") == ["LAUNCHING", "LAUNCHING"]

    def test_one_that_ends_while_pausing_or_paused(self) -> None:
        world = self.paused_for()
        world.exit("o", 0)
        assert world.states("o", "g") == ["DONE", "LAUNCHING"]
        world = self.paused_for()
        world.tell(ContainerPaused("o"))
        world.exit("o", 137)
        assert world.status("o").exit_status == 137
        assert world.machine.opportunistic_status().paused == 0

    def test_a_launching_one_is_paused_as_soon_as_it_runs(self) -> None:
        world = World(answers=False, vcores=1, use_pause_for_preemption=True)
        world.schedule("o")
        world.schedule("g", G)
        assert not world.given(PauseContainer)
        assert not world.given(KillContainer)
        world.tell(ContainerLaunched("o", 1, 1))
        assert world.given(PauseContainer) == [PauseContainer("o")]

    def test_the_hundredth_pause_works_like_the_first(self) -> None:
        world = World(vcores=1, use_pause_for_preemption=True)
        world.schedule("o")
        for number in range(100):
            world.schedule(f"g{number}", G)
            assert world.state("o") is ContainerState.PAUSED
            world.exit(f"g{number}")
            assert world.state("o") is ContainerState.RUNNING

    def test_what_a_person_pauses_a_person_resumes(self) -> None:
        world = World(vcores=1)
        world.schedule("c")
        world.tell(ContainerPauseRequested("c", "Paused by someone."))
        assert world.state("c") is ContainerState.PAUSED
        assert world.records["c"].held
        world.schedule("d")
        world.exit("d")
        assert world.state("c") is ContainerState.PAUSED, "though there is room"
        assert world.status("c").diagnostics == "Paused by someone."
        world.tell(ContainerResumeRequested("c"))
        assert world.state("c") is ContainerState.RUNNING

    def test_a_resumed_guaranteed_one_takes_its_vcores_back(self) -> None:
        world = World(vcores=1)
        world.schedule("g", G)
        world.tell(ContainerPauseRequested("g"))
        world.schedule("o", O)
        assert world.states("g", "o") == ["PAUSED", "RUNNING"]
        world.tell(ContainerResumeRequested("g"))
        assert world.states("g", "o") == ["RUNNING", "DONE"]

    def test_a_persons_pause_that_takes_long_costs_nobody_anything(self) -> None:
        world = World(answers=False, vcores=1)
        world.schedule("c", G)
        world.tell(ContainerLaunched("c", 1, 1), ContainerPauseRequested("c"))
        world.advance(60.0)
        assert world.state("c") is ContainerState.PAUSING
        world.tell(ContainerPaused("c"))
        assert world.state("c") is ContainerState.PAUSED

    def test_nobody_waits_for_a_persons_pause_that_takes_long(self) -> None:
        world = World(answers=False, vcores=2)
        for name in ("o1", "o2"):
            world.schedule(name)
            world.tell(ContainerLaunched(name, 1, 1))
        world.tell(ContainerPauseRequested("o1"))
        world.schedule("g", G)
        assert not world.given(KillContainer), "a vcore is on its way"
        world.advance(PAUSE_PATIENCE)
        assert world.given(KillContainer, "o2") == [KillContainer("o2")]
        assert not world.given(KillContainer, "o1")

    def test_a_resume_before_the_pause_took(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.tell(ContainerLaunched("c", 1, 1), ContainerPauseRequested("c"))
        world.tell(ContainerResumeRequested("c"))
        world.tell(ContainerPaused("c"))
        assert world.given(ResumeContainer) == [ResumeContainer("c")]

    def test_a_resume_before_the_launch_was_over(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.tell(ContainerPauseRequested("c"), ContainerResumeRequested("c"))
        world.tell(ContainerLaunched("c", 1, 1))
        assert not world.given(PauseContainer)
        assert world.state("c") is ContainerState.RUNNING

    def test_a_promotion_before_the_pause_was_begun(self) -> None:
        world = World(answers=False, vcores=1, use_pause_for_preemption=True)
        world.schedule("o")
        world.schedule("g", G)
        world.update("o", G)
        world.tell(ContainerLaunched("o", 1, 1))
        assert not world.given(PauseContainer)
        assert world.states("o", "g") == ["RUNNING", "SCHEDULED"]

    def test_a_queued_one_cannot_be_paused(self) -> None:
        world = World()
        world.schedule("busy", G, 2048)
        world.schedule("c")
        assert world.tell(ContainerPauseRequested("c")) == []
        assert world.state("c") is ContainerState.SCHEDULED


class TestUpdates:
    def test_a_promoted_one_is_not_preempted_and_is_counted_right(self) -> None:
        """The defect of yarn-behaviour 5.8 cannot be: counts are of what is there."""
        world = World()
        world.schedule("c", O, 2048)
        world.update("c", G)
        [written] = world.given(SetLimits)
        assert (written.limits.cpu_shares, written.limits.memory_low) == (1024, 1843 * MIB)
        assert world.machine.opportunistic_status().running == 0
        assert world.allocated_guaranteed() == Resource(2048, 1)
        world.schedule("g", G, 512)
        assert world.states("c", "g") == ["RUNNING", "SCHEDULED"]
        world.exit("c")
        assert world.machine.opportunistic_status().vcores_used == 0

    def test_a_demoted_one_gives_way_to_who_waits(self) -> None:
        world = World()
        world.schedule("c", G, 2048)
        world.schedule("g", G, 512)
        world.update("c", O)
        assert world.states("c", "g") == ["DONE", "RUNNING"]

    def test_a_queued_one_that_is_demoted_waits_as_the_last(self) -> None:
        world = World()
        world.schedule("busy", G, 2048)
        world.schedule("g", G, 512)
        world.schedule("o", O, 512)
        world.update("g", O)
        assert world.queued() == (0, 2)
        assert [world.status(name).position for name in ("o", "g")] == [1, 2]

    def test_a_paused_one_that_is_promoted_waits_among_the_guaranteed(self) -> None:
        world = World(vcores=1, use_pause_for_preemption=True)
        world.schedule("o")
        world.schedule("g", G)
        world.update("o", G)
        assert world.queued() == (1, 0)
        assert len(world.given(SetLimits)) == 1
        world.exit("g")
        assert world.states("o") == ["RUNNING"]

    def test_a_paused_one_that_is_promoted_need_not_wait_for_who_waits_for_its_memory(self) -> None:
        world = World(vcores=1)
        world.schedule("c0", O, 256)
        world.tell(ContainerPauseRequested("c0"))
        world.schedule("busy", G, 1024)
        world.tell(ContainerResumeRequested("c0"))
        world.schedule("g", G, 2048)
        world.update("c0", G)
        assert world.states("c0", "busy", "g") == ["PAUSED", "RUNNING", "SCHEDULED"]
        world.exit("busy")
        assert world.states("c0", "g") == ["RUNNING", "SCHEDULED"]
        world.exit("c0")
        assert world.states("g") == ["RUNNING"]

    def test_an_old_version_changes_nothing(self) -> None:
        world = World()
        world.schedule("c", version=2)
        assert world.update("c", G, version=2) == []
        assert world.update("c", G, version=1) == []
        assert world.status("c").execution_type is O

    def test_a_smaller_size_lets_others_start(self) -> None:
        world = World()
        world.schedule("c", O, 2048)
        world.schedule("d", O, 1024)
        world.update("c", memory=1024, vcores=1)
        assert world.state("d") is ContainerState.RUNNING
        assert world.status("c").resource == Resource(1024, 1)

    def test_an_opportunistic_one_grows_only_into_what_is_free(self) -> None:
        world = World()
        world.schedule("c", O, 1024)
        world.schedule("d", O, 512)
        world.update("c", memory=1536, vcores=1)
        assert world.status("c").resource == Resource(1536, 1)
        world.update("c", memory=2048, vcores=1)
        assert not world.given(SetLimits)
        assert (world.status("c").resource, world.status("c").version) == (Resource(1536, 1), 1)
        assert "no room" in world.status("c").diagnostics

    def test_a_guaranteed_one_grows_at_the_cost_of_opportunistic_ones(self) -> None:
        world = World()
        world.schedule("g", G, 1024)
        world.schedule("o", O, 1024)
        world.update("g", memory=2048, vcores=1)
        assert world.status("g").resource == Resource(2048, 1)
        assert world.status("o").exit_status == -108
        assert world.machine.allocated == Resource(2048, 1)

    def test_nobody_grows_beyond_the_node_or_at_the_cost_of_guaranteed_ones(self) -> None:
        world = World()
        world.schedule("g", G, 1024)
        world.schedule("h", G, 1024)
        world.update("g", memory=1025, vcores=1)
        world.update("h", memory=4096, vcores=1)
        assert [world.status(name).resource.memory for name in ("g", "h")] == [1024, 1024]

    def test_a_paused_one_grows_by_vcores_that_it_does_not_hold(self) -> None:
        world = World(vcores=2)
        world.schedule("c")
        world.tell(ContainerPauseRequested("c"))
        world.schedule("busy", G, 512, 2)
        world.update("c", memory=512, vcores=2)
        assert world.status("c").resource == Resource(512, 2)
        world.tell(ContainerResumeRequested("c"))
        assert world.state("c") is ContainerState.PAUSED
        world.exit("busy")
        assert world.state("c") is ContainerState.RUNNING

    def test_a_launching_one_gets_its_limits_when_it_runs(self) -> None:
        world = World(answers=False)
        world.schedule("c")
        world.update("c", G)
        assert not world.given(SetLimits)
        world.tell(ContainerLaunched("c", 1, 1))
        assert [c.limits.cpu_shares for c in world.given(SetLimits)] == [1024]

    def test_a_resized_queued_one_keeps_its_place(self) -> None:
        world = World()
        world.schedule("busy", G, 2048)
        for name in ("c", "d"):
            world.schedule(name, O, 512)
        world.update("c", memory=1024, vcores=1)
        assert [world.status(name).position for name in ("c", "d")] == [1, 2]


class TestMeasurement:
    def sample(self, world: World, memory: int) -> None:
        usage = ContainerUsage(memory_bytes=memory * MIB, cpu_seconds=1.0)
        world.tell(UsageSampled({"c": usage, "unknown": usage}, ResourceUtilization(1, 0.5)))

    def test_the_last_measurement_is_in_the_status(self) -> None:
        world = World()
        world.schedule("c")
        self.sample(world, 100)
        assert world.status("c").usage.memory_bytes == 100 * MIB

    def test_over_twice_the_limit_at_once(self) -> None:
        world = World(polling=True)
        world.schedule("c", O, 512)
        self.sample(world, 1024)
        assert world.state("c") is ContainerState.RUNNING
        world = World(polling=True)
        world.schedule("c", O, 512)
        self.sample(world, 1025)
        assert world.given(KillContainer) == [KillContainer("c", force=True)]
        seen = world.status("c")
        assert (seen.exit_status, seen.exit_code) == (-104, 137)
        assert f"is running {513 * MIB}B beyond the 'PHYSICAL' memory limit" in seen.diagnostics
        assert "1025.0 MB of 512 MB physical memory used" in seen.diagnostics

    def test_over_the_limit_in_two_rounds_running(self) -> None:
        world = World(polling=True)
        world.schedule("c", O, 512)
        for memory in (600, 500, 600):
            self.sample(world, memory)
            assert world.state("c") is ContainerState.RUNNING
        self.sample(world, 513)
        assert world.status("c").exit_status == -104

    @pytest.mark.parametrize(
        ("polling", "settings"),
        [(False, {}), (True, {"memory_enforced": False}), (True, {"pmem_check_enabled": False})],
    )
    def test_not_where_a_cgroup_does_it_or_it_is_switched_off(
        self, polling: bool, settings: dict[str, bool]
    ) -> None:
        world = World(polling=polling, **settings)
        world.schedule("c", O, 512)
        self.sample(world, 5000)
        self.sample(world, 5000)
        assert world.state("c") is ContainerState.RUNNING


class TestViews:
    def test_signals_go_to_what_has_processes(self) -> None:
        world = World()
        world.schedule("c", O, 2048)
        world.schedule("d", O, 2048)
        world.tell(ContainerSignalRequested("c", 10))
        assert world.last == [SignalContainer("c", 10)]
        assert world.tell(ContainerSignalRequested("d", 10)) == []

    def test_statuses_with_positions(self) -> None:
        world = World()
        for name in ("a", "b", "c"):
            world.schedule(name, O, 2048)
        world.exit("a")
        seen = [(s.container_id, s.state.value, s.position) for s in world.machine.statuses()]
        assert seen == [("b", "RUNNING", 0), ("c", "SCHEDULED", 1), ("a", "DONE", 0)]

    def test_totals(self) -> None:
        world = World()
        world.schedule("g", G, 512, 2)
        world.schedule("o", O, 256, 1)
        machine = world.machine
        assert machine.total == Resource(2048, 4)
        assert machine.allocated == Resource(768, 3)
        assert world.allocated_guaranteed() == Resource(512, 2)
        assert machine.available == Resource(1280, 1)

    def test_waiting_time_is_told_once_something_was_measured(self) -> None:
        world = World(vcores=1)
        assert world.machine.opportunistic_status().estimated_queue_wait_ms == 0
        world.schedule("a")
        assert world.machine.opportunistic_status().estimated_queue_wait_ms == -1
        world.now = 10.0
        world.exit("a")
        world.schedule("b")
        world.schedule("c")
        assert world.machine.opportunistic_status(12.0).estimated_queue_wait_ms == 18_000

    def test_every_change_of_state_is_reported(self) -> None:
        world = World(vcores=1, use_pause_for_preemption=True)
        world.schedule("o")
        world.schedule("g", G)
        world.stop("o")
        assert [state.value for state in world.history["o"]] == [
            "LAUNCHING", "RUNNING", "PAUSING", "PAUSED", "KILLING", "DONE",
        ]  # fmt: skip
        reports = [c.status.container_id for c in world.commands if isinstance(c, ReportStatus)]
        stored = [c for c in world.commands if isinstance(c, StoreContainer)]
        assert set(reports) == {"o", "g"} == {c.record.spec.container_id for c in stored}


def test_a_long_queue_costs_no_more_for_each() -> None:
    """20,000 queued, 300 of them started: with anything linear in the queue this takes minutes."""
    world = World(vcores=1, memory=10_000, max_queue_length=100_000)
    machine = world.machine
    machine.validate = lambda: None  # type: ignore[method-assign]  # which is linear, and may be
    for number in range(20_000):
        world.schedule(f"c{number}", O, 100 + number % 7)
    for number in range(300):
        world.exit(f"c{number}")
    assert world.state("c300") is ContainerState.RUNNING
    assert world.queued() == (0, 20_000 - 301)


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_kill_that_came_after_the_end_changes_nothing_of_it(by_itself: bool) -> None:
    world = World(answers=False)
    world.schedule("c", O)
    world.tell(ContainerLaunched("c", 1, 1))
    world.tell(ContainerKillRequested("c", -105, "Stopped by its master"))
    world.tell(ContainerExited("c", 1, by_itself=by_itself))
    assert (world.status("c").exit_status, world.status("c").exit_code) == (1 if by_itself else -105, 1)
