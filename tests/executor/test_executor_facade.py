"""The executor as a library, as its users see it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import executor as package
from executor import (
    ContainerExitStatus,
    ContainerNotFoundError,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Executor,
    ExecutorError,
    ExecutorSettings,
    InvalidResourceError,
    Resource,
)
from executor.causes import CauseKind

from .linux.node import running, soon

ROOT = Path(__file__).parents[2]
OPPORTUNISTIC = ExecutionType.OPPORTUNISTIC
TWO = Resource(memory=4096, vcores=2)


def an_executor(directory: Path, total: Resource = TWO, **settings: object) -> Executor:
    settings.setdefault("cgroups_mount", "none")
    return Executor(total, work_dir=directory, settings=ExecutorSettings(**settings), validate=True)  # type: ignore[arg-type]


async def state(executor: Executor, container_id: str, wanted: ContainerState) -> ContainerStatus:
    """Wait until a container is in that state."""
    deadline = time.monotonic() + 20
    while (status := executor.status(container_id)).state is not wanted:
        assert time.monotonic() < deadline, f"{status}, not {wanted}"
        await asyncio.sleep(0.005)
    return status


README_EXAMPLE = """
import asyncio
from executor import ExecutionType, Executor, ExecutorSettings, Resource

async def main():
    async with Executor(Resource(memory=4096, vcores=2), work_dir={directory!r},
                        settings=ExecutorSettings(max_queue_length=10)) as executor:
        jobs = [executor.submit(["sleep", "{seconds}"], resource=Resource(512, 1),
                                execution_type=ExecutionType.OPPORTUNISTIC) for _ in range(10)]
        for job in asyncio.as_completed([job.wait() for job in jobs]):
            print(await job)

asyncio.run(main())
"""


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """Ten sleeps on two vcores: as the package's own docstring prints it, with shorter sleeps."""
    example = README_EXAMPLE.format(directory=str(tmp_path), seconds="0.2")
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, cwd=ROOT
    )
    took = time.monotonic() - begun
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert took >= 1.0, "five rounds of two"
    assert sorted(done.stdout.splitlines()) == [
        f"container_{number:06} DONE OPPORTUNISTIC <memory:512, vCores:1> SUCCESS (0)"
        for number in range(1, 11)
    ]
    assert sorted(os.listdir(tmp_path)) == ["lock", "logs"]
    document = " ".join((package.__doc__ or "").split())
    for line in README_EXAMPLE.split("print")[0].replace("{directory!r}", '"/tmp/jobs"').splitlines():
        assert " ".join(line.replace("{seconds}", "10").split()) in document


def test_two_run_and_eight_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, max_queue_length=10) as executor:
            jobs = [
                executor.submit(["sleep", "1000"], resource=Resource(512, 1), execution_type=OPPORTUNISTIC)
                for _ in range(13)
            ]
            stats = executor.stats()
            assert (stats.running, stats.queued, stats.finished) == (2, 10, 1)
            assert stats.allocated == Resource(1024, 2) and stats.available == Resource(3072, 0)
            assert [status.position for status in executor.statuses()[:12]] == [0, 0, *range(1, 11)]
            refused = await jobs[12].wait()
            assert refused.exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
            assert refused.diagnostics == "Opportunistic container queue is full."
        for job in jobs:
            assert job.done and job.status.state is ContainerState.DONE

    asyncio.run(scenario())


def test_a_guaranteed_container_gets_its_room_and_the_killed_one_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, max_queue_length=10) as executor:
            old, new = (
                executor.submit(["sleep", "1000"], resource=Resource(512, 1), execution_type=OPPORTUNISTIC)
                for _ in range(2)
            )
            guaranteed = executor.submit(["sh", "-c", "exit 3"], resource=Resource(512, 1))
            assert (await guaranteed.wait()).exit_status == 3
            killed = await new.wait()
            assert killed.exit_status == -108 and "make room" in killed.diagnostics
            assert old.status.state is ContainerState.RUNNING

    asyncio.run(scenario())


def test_pause_instead_of_kill(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(
            tmp_path, Resource(4096, 1), max_queue_length=10, use_pause_for_preemption=True
        ) as executor:
            paused = executor.submit(
                ["sh", "-c", "until [ -e go ]; do sleep 0.01; done; exit 6"],
                resource=Resource(64, 1),
                execution_type=OPPORTUNISTIC,
                container_id="o",
            )
            guaranteed = executor.submit(
                ["sh", "-c", "until [ -e go ]; do sleep 0.01; done"],
                resource=Resource(64, 1),
                container_id="g",
            )
            await state(executor, "o", ContainerState.PAUSED)
            await state(executor, "g", ContainerState.RUNNING)
            (tmp_path / "containers" / "o" / "go").write_text("")
            (tmp_path / "containers" / "g" / "go").write_text("")
            assert (await guaranteed.wait()).exit_status == 0
            assert (await paused.wait()).exit_status == 6, "no work was lost"

    asyncio.run(scenario())


def test_promotion_of_one_that_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, Resource(1024, 1), max_queue_length=1) as executor:
            first = executor.submit(["sleep", "1000"], resource=Resource(64, 1), execution_type=OPPORTUNISTIC)
            second = executor.submit(
                ["sh", "-c", "exit 4"], resource=Resource(64, 1), execution_type=OPPORTUNISTIC
            )
            assert second.status.position == 1
            second.promote()
            assert second.status.execution_type is ExecutionType.GUARANTEED
            assert (await second.wait()).exit_status == 4
            assert (await first.wait()).exit_status == -108

    asyncio.run(scenario())


def test_kill_pause_resume_signal_by_hand(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path) as executor:
            job = executor.submit(
                ["sh", "-c", "trap 'exit 5' USR1; touch up; while :; do sleep 0.01; done"], container_id="c1"
            )
            deadline = time.monotonic() + 10
            while not (tmp_path / "containers" / "c1" / "up").exists():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)
            job.pause()
            await state(executor, "c1", ContainerState.PAUSED)
            job.resume()
            await state(executor, "c1", ContainerState.RUNNING)
            job.signal(10)
            assert (await job.wait()).exit_status == 5
            job.kill()
            assert job.status.exit_status == 5, "killing what has ended changes nothing"
            killed = executor.submit(["sleep", "1000"])
            killed.kill(force=True)
            ended = await killed.wait()
            assert (ended.exit_status, ended.exit_code) == (ContainerExitStatus.KILLED_BY_APPMASTER, 137)

    asyncio.run(scenario())


def test_output_files_environment_and_time_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path) as executor:
            job = executor.submit(
                ["./greet"],
                files={"greet": "#!/bin/sh\necho hello $NAME; echo oops >&2; exec sleep 1000\n"},
                environment={"NAME": "world"},
                timeout_ms=300,
            )
            status = await job.wait()
            assert status.exit_status == 124 and "300" in status.diagnostics
            assert Path(job.stdout).read_text() == "hello world\n"
            assert Path(job.stderr).read_text() == "oops\n"
            assert status.usage.memory_peak_bytes >= 0 and status.finished_at_ms >= status.started_at_ms > 0

    asyncio.run(scenario())


def test_what_can_never_run_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path) as executor:
            for wanted in (Resource(4097, 1), Resource(1, 3), Resource(-1, 1), Resource(1, -1)):
                with pytest.raises(InvalidResourceError) as error:
                    executor.submit(["true"], resource=wanted)
                assert "<memory:4096, vCores:2>" in str(error.value)
            for command in ([], "true"):
                with pytest.raises(ExecutorError):
                    executor.submit(command)
            for name in ("", "../x", "a/b", ".."):
                with pytest.raises(ExecutorError):
                    executor.submit(["true"], container_id=name)
            for paths in ({"working_directory": "/tmp\0"}, {"log_directory": tmp_path / "a\0b"}):
                with pytest.raises(ExecutorError, match="NUL"):
                    executor.submit(["true"], **paths)
            executor.submit(["true"], container_id="twice")
            with pytest.raises(ExecutorError):
                executor.submit(["true"], container_id="twice")
            for call in (executor.status, executor.kill, executor.promote, executor.job, executor.pause):
                with pytest.raises(ContainerNotFoundError):
                    call("nobody")
        with pytest.raises(ExecutorError):
            executor.submit(["true"])
        with pytest.raises(InvalidResourceError):
            Executor(Resource(0, 1), work_dir=tmp_path)

    asyncio.run(scenario())


def test_leaving_ends_everything_even_on_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            async with an_executor(tmp_path, max_queue_length=5) as executor:
                command, one = ["sleep", "1000"], Resource(64, 1)
                jobs = [
                    executor.submit(command, resource=one, execution_type=OPPORTUNISTIC) for _ in range(4)
                ]
                await soon(lambda: sum(job.status.pid > 0 for job in jobs) == 2, "two run")
                pids = [job.status.pid for job in jobs]
                raise ZeroDivisionError
        assert not any(running(pid) for pid in pids if pid)
        assert sorted(os.listdir(tmp_path)) == ["lock", "logs"]

    asyncio.run(scenario())


def test_one_executor_a_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path):
            with pytest.raises(ExecutorError, match="in use"):
                await an_executor(tmp_path).__aenter__()
        async with an_executor(tmp_path) as executor:
            assert (await executor.submit(["true"]).wait()).exit_status == 0
        (tmp_path / "file").write_text("")
        with pytest.raises(ExecutorError, match="cannot be used"):
            await an_executor(tmp_path / "file").__aenter__()

    asyncio.run(scenario())


KILLED = """
import asyncio, sys
from executor import Executor, ExecutorSettings, Resource

async def main():
    settings = ExecutorSettings(cgroups_mount=sys.argv[2])
    async with Executor(Resource(1024, 2), work_dir=sys.argv[1], settings=settings) as executor:
        executor.submit(["sh", "-c", "echo $$ > pid; (setsid sleep 1000 &); exec sleep 1000"],
                        container_id="c1")
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["none", pytest.param("auto", marks=pytest.mark.cgroup)])
def test_what_a_killed_executor_left_is_cleared_by_the_next(tmp_path: Path, mode: str) -> None:
    first = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path, mode], cwd=ROOT)
    try:
        written = tmp_path / "containers" / "c1" / "pid"
        deadline = time.monotonic() + 20
        while not (written.exists() and written.read_text().endswith("\n")):
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.01)
        pid = int(written.read_text())
    finally:
        first.kill()
        first.wait()
    assert running(pid), "it outlived its executor"

    async def scenario() -> None:
        async with an_executor(tmp_path, cgroups_mount=mode) as executor:
            assert executor.statuses() == []
            assert not running(pid)
            assert (await executor.submit(["true"], container_id="c1").wait()).exit_status == 0

    asyncio.run(scenario())
    assert sorted(os.listdir(tmp_path)) == ["lock", "logs"]


def test_a_bug_in_the_machine_reaches_who_waits_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path) as executor:
            job = executor.submit(["sleep", "1000"])
            pid = job.status.pid
            monkeypatch.setattr(executor._machine, "handle", lambda event, now: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                job.kill()
            with pytest.raises(ExecutorError, match="the executor failed"):
                await job.wait()
        assert not running(pid), "it has ended; who reaps it is up to the shim's parent"
        assert len(list(tmp_path.glob("crash-*.jsonl"))) == 1

    asyncio.run(scenario())


def test_importing_the_package_loads_data_only() -> None:
    heavy = [
        "typer",
        "textual",
        "aiohttp",
        "msgspec",
        "asyncio",
        "psutil",
        "cgroupspy",
        "yarnopp_cli",
        "tomli",
    ]
    script = f"import sys, executor; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
    script = "import sys; from executor import Executor; print([n for n in sys.argv[1:] if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script, "typer", "textual", "aiohttp", "msgspec", "yarnopp_cli", "tomli"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert package.__distribution__ == "yopp"
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        _ = package.no_such_name


@pytest.mark.cgroup
def test_over_its_memory_in_yarns_terms(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, cgroups_mount="auto") as executor:
            if "memory" not in executor.describe().controllers:
                pytest.skip(f"NOT TESTED: {executor.describe()}")
            hog = executor.submit(
                [sys.executable, "-S", "-E", "-c", "x = [bytearray(b'x' * 1048576) for _ in range(200)]"],
                resource=Resource(64, 1),
            )
            neighbour = executor.submit(["sleep", "1000"], resource=Resource(64, 1))
            status = await hog.wait()
            assert (status.exit_status, status.exit_code) == (ContainerExitStatus.KILLED_EXCEEDED_PMEM, 137)
            assert "64" in status.diagnostics
            assert neighbour.status.state is ContainerState.RUNNING

    asyncio.run(scenario())


@pytest.mark.parametrize("mount", ["none", "auto"])
@pytest.mark.parametrize("first", ["", "rm $LOG_DIRS/stdout; "], ids=["there", "removed"])
def test_output_beyond_its_bound_ends_it(tmp_path: Path, mount: str, first: str) -> None:
    """Also where the file has no name any more, and so is in no directory."""
    bound = 2_000_000

    async def scenario() -> None:
        async with an_executor(
            tmp_path,
            cgroups_mount=mount,
            monitor_interval_ms=20,
            log_monitor_enabled=True,
            log_monitor_interval_ms=40,
            log_dir_size_limit_bytes=bound,
        ) as executor:
            modest = executor.submit(["sh", "-c", f"{first}head -c {bound - 100} /dev/zero; exec sleep 1000"])
            status = await executor.submit(
                ["sh", "-c", f"{first}while echo 0123456789abcdef; do :; done"]
            ).wait()
            assert status.exit_status == ContainerExitStatus.KILLED_FOR_EXCESS_LOGS
            assert f"{bound} are allowed" in status.diagnostics
            assert modest.status.state is ContainerState.RUNNING

    asyncio.run(scenario())


@pytest.mark.parametrize("mount", ["none", "auto"])
@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p a/b; dd if=/dev/zero of=a/b/c bs=1M count=5; exec sleep 1000",
        "exec 9>gone; rm gone; dd if=/dev/zero bs=1M count=5 >&9; exec sleep 1000",
        "for i in $(seq 9); do dd if=/dev/zero of=f$i bs=1M count=1; done; exec sleep 1000",
        "d=$(printf %0200d 0); while mkdir $d && cd ./$d; do :; done; exec sleep 1000",
    ],
    ids=["below", "removed", "many", "too deep"],
)
def test_a_directory_beyond_its_bound_ends_its_container(tmp_path: Path, mount: str, script: str) -> None:
    bound = 3 << 20

    async def scenario() -> None:
        async with an_executor(
            tmp_path,
            cgroups_mount=mount,
            monitor_interval_ms=20,
            work_dir_size_limit_bytes=bound,
            work_dir_interval_ms=40,
        ) as executor:
            # What it has twice by name, and holes, are no more than what they take; so is what is written elsewhere.
            modest = "dd if=/dev/zero of=a bs=1M count=2; ln a b; truncate -s 1G c"
            elsewhere = f"dd if=/dev/zero of={tmp_path}/d bs=1M count=9"
            neighbour = executor.submit(["sh", "-c", f"{modest}; {elsewhere}; exec sleep 1000"])
            status = await executor.submit(["sh", "-c", script]).wait()
            assert status.exit_status == ContainerExitStatus.KILLED_FOR_EXCESS_LOGS
            assert status.cause is not None and status.cause.kind is CauseKind.EXCESS_DISK
            assert f"{bound} are allowed" in status.diagnostics and "own directory" in status.diagnostics
            assert neighbour.status.state is ContainerState.RUNNING

    asyncio.run(scenario())


def test_over_its_memory_without_cgroups(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, monitor_interval_ms=50) as executor:
            script = "x = [bytearray(b'x' * (1 << 20)) for _ in range(200)]; import time; time.sleep(1000)"
            hog = executor.submit([sys.executable, "-S", "-E", "-c", script], resource=Resource(64, 1))
            status = await hog.wait()
            assert (status.exit_status, status.exit_code) == (ContainerExitStatus.KILLED_EXCEEDED_PMEM, 137)

    asyncio.run(scenario())
