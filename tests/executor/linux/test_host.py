"""Reading the machine: counters, memory, stalls, and whose CPU it is."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from executor.linux.procfs import read_stat, scan
from executor.linux.watching.host import GLANCE_SECONDS, HostReader
from executor.linux.watching.processes import LastingProcesses, ProcessTable
from executor.records import HostUtilization

from ...steps import steps
from .fake_proc import FakeProc


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.yopp = 0.0

    def __call__(self) -> float:
        return self.now


def next_reading(
    reader: HostReader, proc: FakeProc, clock: Clock, *, busy: float, yopp: float, seconds: float = 0.5
) -> HostUtilization:
    proc.run(busy, seconds, runnable=3)
    clock.now += seconds
    clock.yopp += seconds * yopp
    found = reader.read()
    assert found is not None
    return found


def a_reader(tmp_path: Path, clock: Clock, **rest: Any) -> tuple[HostReader, FakeProc]:
    proc = FakeProc(tmp_path)
    reader = HostReader(
        lambda: clock.yopp, proc=str(tmp_path), markers=("yopp", "yarnopp_cli"), clock=clock, **rest
    )
    assert reader.read() is None, "the first reading sets the zero"
    return reader, proc


def test_cores_are_told_apart(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock)
    found = next_reading(reader, proc, clock, busy=1.5, yopp=0.5)
    assert (found.cores, found.runnable) == (2, 3)
    assert found.cpu == pytest.approx(1.5, abs=0.05) and found.idle == pytest.approx(0.5, abs=0.05)
    assert found.outside_cpu == pytest.approx(1.0, abs=0.05)
    assert (found.memory_total, found.memory_available) == (8192 << 20, 4096 << 20)
    assert found.memory_stalled == 0.0


def test_what_happened_while_nobody_asked_is_not_told(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock)
    proc.run(2.0, 60.0)
    clock.now += 60.0
    reader.begin()
    assert next_reading(reader, proc, clock, busy=1.0, yopp=0.0).cpu == pytest.approx(1.0)


def test_a_thread_that_still_reads_is_not_disturbed(tmp_path: Path) -> None:
    """The watch was ended and began again meanwhile."""
    clock = Clock()
    asked, go = threading.Event(), threading.Event()

    def own_pids() -> tuple[int, ...]:
        asked.set()
        assert go.wait(20)
        return ()

    reader, proc = a_reader(tmp_path, clock, own_pids=own_pids)
    proc.run(2.0, 0.5)
    clock.now += 0.5
    thread = threading.Thread(target=reader.read)
    thread.start()
    assert asked.wait(20)
    clock.now += 0.5
    proc.run(1.0, 0.5)
    reader.begin()
    assert reader.glance() is None
    go.set()
    thread.join(20)
    assert next_reading(reader, proc, clock, busy=1.0, yopp=0.0).cpu == pytest.approx(1.0)


def test_no_time_gives_no_reading(tmp_path: Path) -> None:
    reader, _ = a_reader(tmp_path, Clock())
    assert reader.read() is None


def test_threads_of_other_nodes_containers_are_counted_on_a_full_machine(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, others=lambda: [5, 6, 99])
    proc.process(5, "spins", 1.0, 100, state="R")
    proc.process(6, "sleeps", 1.0, 100)
    proc.process(7, "spins", 1.0, 100, state="R")
    full = next_reading(reader, proc, clock, busy=2.0, yopp=1.0)
    assert (full.runnable, full.runnable_others) == (3, 1)
    idle = next_reading(reader, proc, clock, busy=1.5, yopp=1.0)
    assert (idle.runnable, idle.runnable_others) == (3, -1), "nobody asks: there is room"


def test_stalls_are_a_part_of_the_time(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock)
    proc.stalled_us += 100_000
    assert next_reading(reader, proc, clock, busy=0, yopp=0).memory_stalled == pytest.approx(0.2)
    (tmp_path / "pressure" / "memory").unlink()
    (tmp_path / "pressure").rename(tmp_path / "gone")
    clock.now += 0.5
    proc.busy += 1
    (tmp_path / "stat").write_text((tmp_path / "stat").read_text().replace("cpu  ", "cpu  9", 1))
    found = reader.read()
    assert found is not None and found.memory_stalled == -1.0, "this kernel does not tell"


def test_yopps_own_daemons_and_clients_are_no_processes_outside(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))
    proc.process(7, "/usr/bin/python3 -m yarnopp_cli.daemons resourcemanager", 50.0, 1000)
    proc.process(8, "/usr/bin/python3 -m yarnopp_cli.jobs.master", 50.0, 1000, "4:cpu:/hadoop-yarn/x")
    proc.process(9, "make yopp", 0.5, 1000)
    proc.process(10, "/home/u/yopp/bench", 0.5, 1000)
    next_reading(reader, proc, clock, busy=2.0, yopp=0.0)  # the first look at them
    proc.process(7, "/usr/bin/python3 -m yarnopp_cli.daemons resourcemanager", 50.2, 1000.5)
    proc.process(8, "/usr/bin/python3 -m yarnopp_cli.jobs.master", 50.5, 1000.5, "4:cpu:/hadoop-yarn/x")
    proc.process(10, "/home/u/yopp/bench", 1.0, 1000.5)
    proc.process(11, "/usr/bin/python3 /usr/local/bin/yopp status", 5.0, 10.0)  # half a core, since it came
    found = next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    assert found.yopp_cpu == pytest.approx(0.4 + 0.5, abs=0.12)


@pytest.mark.parametrize(
    ("command", "disguise"),
    [
        ("/usr/bin/python3 -m yarnopp_cli.daemons nodemanager", {"user": 65534}),
        ("yopp", {"user": 0, "secure": True}),  # a setuid program: its name is its caller's choice
        ("spin", {"cgroup": "4:cpu:/user.slice/x:/hadoop-yarn/key/nm-45454/c1"}),
        ("spin", {"cgroup": "4:cpu:/hadoop-yarn-too/c1"}),
    ],
)
def test_whoever_takes_yopps_names_is_outside_all_the_same(
    tmp_path: Path, command: str, disguise: dict[str, Any]
) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))
    told = []
    for used in (1.0, 2.0, 3.0):
        proc.process(7, command, used, 100, waited=used, **disguise)
        told.append(next_reading(reader, proc, clock, busy=2.0, yopp=0.5, seconds=1.0))
    assert told[-1].daemons_cpu == 0.0 and told[-1].outside_waiting == pytest.approx(1.0, abs=0.1)


def test_who_is_connected_to_the_node_is_a_client_of_yopp(tmp_path: Path) -> None:
    clock, proc = Clock(), FakeProc(tmp_path)
    reader = HostReader(lambda: 0.0, proc=str(tmp_path), own_pids=lambda: (7,), clock=clock)
    reader.read()
    proc.process(7, "python3 my_master.py", 1.0, 100)
    proc.process(8, "python3 my_simulation.py", 1.0, 100)
    next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    proc.process(7, "python3 my_master.py", 1.4, 100)
    proc.process(8, "python3 my_simulation.py", 1.5, 100)
    assert next_reading(reader, proc, clock, busy=2.0, yopp=0.0).yopp_cpu == pytest.approx(0.8, abs=0.05)


def test_a_program_that_was_a_client_and_works_on_is_a_process_outside(tmp_path: Path) -> None:
    clock, proc, clients = Clock(), FakeProc(tmp_path), [7]
    reader = HostReader(lambda: 0.0, proc=str(tmp_path), own_pids=lambda: clients, clock=clock)
    reader.read()
    found = []
    for used in (1.0, 1.4, 1.8, 2.2):
        proc.process(7, "python3 my_experiment.py", used, 100)
        found.append(next_reading(reader, proc, clock, busy=2.0, yopp=0.0).daemons_cpu)
        if used == 1.4:
            clients.clear()
    assert found[1:] == [pytest.approx(0.8, abs=0.05), 0.0, 0.0]


def test_kernel_threads_are_read_once_while_their_pids_are_seen(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    clock = Clock()
    proc.process(2, "", 1.0, 1000, kernel=True)
    proc.process(7, "make all", 1.0, 1000)
    table = ProcessTable(str(tmp_path), clock)
    with mock.patch("executor.linux.watching.processes.read_stat", side_effect=read_stat) as read:

        def pids(without: tuple[int, ...] = ()) -> tuple[list[int], list[int]]:
            """Those of the table, and those that were read for it."""
            read.reset_mock()
            return sorted(table.read(without)), sorted(call.args[0] for call in read.call_args_list)

        assert pids() == ([7], [2, 7])
        assert pids() == ([7], [7])
        assert pids(without=(7,)) == ([], [])
        (tmp_path / "2").rename(tmp_path / "gone")
        assert pids() == ([7], [7])
        (tmp_path / "gone").rename(tmp_path / "2")
        proc.process(2, "make all", 1.0, 1000)
        assert pids() == ([2, 7], [2, 7]), "it is another one"
        proc.process(2, "", 1.0, 1000, kernel=True)
        assert pids() == ([7], [2, 7])
        proc.process(2, "make all", 1.0, 1000)
        clock.now += 29
        assert pids() == ([7], [7])
        clock.now += 1
        assert pids() == ([2, 7], [2, 7]), (
            "so it may be another one, however often the table was read meanwhile"
        )


def test_they_are_not_looked_for_where_nobody_uses_much(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock)
    proc.process(7, "yopp status", 0.5, 1.0)
    assert next_reading(reader, proc, clock, busy=0.2, yopp=0.0).yopp_cpu == 0.0


def test_those_outside_are_asked_for_what_they_waited_while_no_core_is_idle(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))

    def told(waited: float, busy: float) -> float:
        proc.process(7, "make all", 1.0, 1000, waited=waited)
        proc.process(8, "sh task", 1.0, 1000, "4:cpu:/hadoop-yarn/x", waited=100 * waited)
        proc.process(9, "python3 -m yarnopp_cli.daemons nodemanager", 1.0, 1000, waited=100 * waited)
        return next_reading(reader, proc, clock, busy=busy, yopp=busy / 4).outside_waiting

    assert told(5.0, 1.0) == 0.0, "a core is idle"
    assert told(6.0, 2.0) == -1.0, "since when is not known"
    assert told(6.4, 2.0) == pytest.approx(0.8)
    assert [told(9.0, 2.0) for _ in range(3)] == [pytest.approx(0.8)] * 3, "it is not looked at so soon again"
    assert told(7.4, 2.0) == pytest.approx(0.5), "since the last look"
    assert told(7.5, 1.0) == 0.0
    (tmp_path / "7" / "stat").unlink()
    for _ in range(5):
        clock.now += 0.5
    assert told(30.0, 2.0) == -1.0, "of what was long ago nothing is told"


def test_the_use_of_those_outside_that_last_is_told_and_of_a_new_one_is_not(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))

    def told(used: float, new: int) -> float:
        proc.process(7, "python train.py", used, 1000, waited=1.0)
        proc.process(8, "sh task", 5 * used, 1000, "4:cpu:/hadoop-yarn/x", waited=1.0)
        proc.process(new, "cc1", 0.3, 0.3, waited=0.0)
        return next_reading(reader, proc, clock, busy=2.0, yopp=0.5).outside_lasting

    assert told(1.0, 100) == -1.0
    assert told(1.4, 101) == pytest.approx(0.8)


@pytest.mark.parametrize(("seconds", "known_after"), [(0.25, 1.0), (0.5, 2.0), (2.0, 2.0)])
def test_a_process_that_has_the_pid_of_another_one_is_known_soon(
    tmp_path: Path, seconds: float, known_after: float
) -> None:
    """Within a second while containers run, and the machine is measured often."""
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))

    def daemons(command: str, age: float) -> float:
        proc.process(7, command, 4.0 + clock.now - 100.0, age)
        return next_reading(reader, proc, clock, busy=2.0, yopp=0.0, seconds=seconds).daemons_cpu

    assert daemons("make all", 1000) == daemons("make all", 1000) == 0.0
    client = "python3 -m yarnopp_cli run true"
    del proc.starts[7]
    known = [daemons(client, 8) > 0 for _ in range(round(known_after / seconds))]
    assert known[-1], "it was taken for the other for longer"


def test_while_those_outside_fill_the_machine_a_glance_suffices(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",), others=lambda: [8])
    proc.process(7, "make all", 1.0, 1000, waited=1.0)
    proc.process(8, "sh task", 1.0, 1000, "4:cpu:/hadoop-yarn/x", state="R")

    def seen(busy: float, yopp: float, seconds: float = 0.5) -> HostUtilization | None:
        proc.run(busy, seconds, runnable=3)
        clock.now += seconds
        clock.yopp += seconds * yopp
        with mock.patch("executor.linux.watching.processes.read_stat", side_effect=read_stat) as read:
            found = reader.glance()
        assert not read.called, "no process is looked at"
        return found

    assert seen(2.0, 0.0) is None, "that they are not yopp's own is not known yet"
    full = next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    assert (full.outside_cpu, full.outside_waiting, full.runnable_others) == (pytest.approx(2.0), -1.0, -1)
    for _ in range(4):
        found = seen(2.0, 0.0)
        assert found is not None and found.outside_cpu == pytest.approx(2.0)
        assert (found.runnable, found.memory_available) == (3, 4096 << 20)
    for _ in range(7):
        if (found := seen(2.0, 0.0)) is None:
            break
    assert found is None, "the last look at processes is too long ago"
    next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    assert seen(1.0, 0.0) is None, "a core is idle"
    assert next_reading(reader, proc, clock, busy=2.0, yopp=0.0).cpu == pytest.approx(1.5), "of both halves"
    assert seen(2.0, 0.0) is None, "in the mean of the last reading, half a core was idle"
    next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    for _ in range(4):
        next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    assert seen(2.0, 0.5) is None, "containers run"
    assert next_reading(reader, proc, clock, busy=2.0, yopp=0.5).yopp_cpu == pytest.approx(0.5)


def test_a_look_while_containers_still_ran_suffices_for_glances(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))
    proc.process(7, "make all", 1.0, 1000, waited=1.0)
    next_reading(reader, proc, clock, busy=2.0, yopp=0.5)
    begun = clock.now
    next_reading(reader, proc, clock, busy=2.0, yopp=0.0)
    while True:
        proc.run(2.0, 0.5)
        clock.now += 0.5
        if reader.glance() is None:
            break
    assert clock.now - begun == pytest.approx(GLANCE_SECONDS + 0.5), "since that look"


def test_daemons_that_fill_the_machine_are_not_taken_for_those_outside(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))
    used, glances = 1.0, []
    for _ in range(20):
        proc.process(7, "python3 -m yarnopp_cli.daemons nodemanager", used, 1000)
        used += 1.0
        proc.run(2.0, 0.5)
        clock.now += 0.5
        glances.append(reader.glance() is not None)
        if not glances[-1]:
            found = reader.read()
    assert found is not None and found.outside_cpu == pytest.approx(0.0, abs=0.05)
    assert not any(glances[12:]), "they had been idle at the first look, and that is believed for a while"


def test_a_kernel_that_tells_nobodys_wait_is_not_believed(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock, groups=("/hadoop-yarn",))
    proc.process(7, "make all", 1.0, 1000)
    for _ in range(4):
        assert next_reading(reader, proc, clock, busy=2.0, yopp=0.0).outside_waiting == -1.0


def test_where_nobodys_wait_is_told_they_are_asked_once_a_second(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.process(7, "make all", 1.0, 1000)
    lasting = LastingProcesses(str(tmp_path), lambda pid, start: False)
    with mock.patch("executor.linux.watching.processes.ran_and_waited_ns", return_value=(0, 0)) as asked:
        for now in (10.0, 10.25, 10.5, 11.0, 11.25):
            cores = lasting.cores(now, scan(proc=str(tmp_path)) if lasting.is_due(now, 1.0) else None)
            assert cores == (-1.0, -1.0)
    assert asked.call_count == 2


def test_without_groups_nobody_knows_who_is_a_container(tmp_path: Path) -> None:
    clock = Clock()
    reader, proc = a_reader(tmp_path, clock)
    proc.process(7, "sh task", 1.0, 1000, waited=5)
    assert next_reading(reader, proc, clock, busy=2.0, yopp=0.0).outside_waiting == -1.0


def test_the_real_machine_is_read_at_little_cost() -> None:
    reader = HostReader(lambda: 0.0)
    reader.read()
    deadline = time.monotonic() + 5
    while (found := reader.read()) is None:
        assert time.monotonic() < deadline
    assert found.cores == os.cpu_count() and 0 <= found.cpu <= found.cores
    assert 0 < found.memory_available < found.memory_total
    lines = steps(reader.read)
    assert lines < 400, f"{lines} lines executed"
