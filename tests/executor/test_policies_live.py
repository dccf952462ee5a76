"""The policies on real processes: in which order they are started, and which of them are ended."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from executor import ContainerState, ContainerStatus, ExecutionType, Executor, ExecutorSettings, Resource

G, O = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC  # noqa: E741 - the letters of the conformance cases


def an_executor(directory: Path, vcores: int, **settings: object) -> Executor:
    node = {"cgroups_mount": "none", "max_queue_length": 20, **settings}
    return Executor(
        Resource(4096, vcores),
        work_dir=directory,
        settings=ExecutorSettings(**node),
        validate=True,  # type: ignore[arg-type]
    )


async def running(executor: Executor, container_id: str) -> None:
    deadline = time.monotonic() + 20
    while executor.status(container_id).state is not ContainerState.RUNNING:
        assert time.monotonic() < deadline, executor.status(container_id)
        await asyncio.sleep(0.005)


async def order_of_start(
    executor: Executor, hints: dict[str, int], applications: dict[str, str]
) -> list[str]:
    """Queue these behind one that runs until all of them wait, and see in which order they write."""
    gate, written = executor.work_dir / "gate", executor.work_dir / "order"
    wait = f"while [ ! -e {gate} ]; do sleep 0.01; done"
    first = executor.submit(["sh", "-c", wait], resource=Resource(64, 1), execution_type=O)
    await running(executor, first.container_id)
    jobs = [
        executor.submit(
            ["sh", "-c", f"echo {name} >> {written}"],
            resource=Resource(64, 1),
            execution_type=O,
            duration_hint_ms=hints.get(name, 0),
            application_id=applications.get(name, ""),
        )
        for name in {**hints, **applications}
    ]
    gate.touch()
    for job in (first, *jobs):
        assert (await job.wait()).exit_status == 0
    return written.read_text().split()


def test_the_shortest_first(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with an_executor(tmp_path, 1, queue_policy="SHORTEST_FIRST") as executor:
            return await order_of_start(executor, {"long": 9000, "short": 10, "middle": 500}, {})

    assert asyncio.run(main()) == ["short", "middle", "long"]


def test_the_fewest_remaining_tasks_first(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with an_executor(tmp_path, 1, queue_policy="LEAST_REMAINING_TASKS") as executor:
            jobs = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}
            return await order_of_start(executor, {}, jobs)

    assert asyncio.run(main()) == ["b1", "b2", "a1", "a2", "a3"]


def test_who_loses_least_gives_way(tmp_path: Path) -> None:
    """Of one wide container that has run for longer and two narrow ones that began after it, the two go."""

    async def main() -> list[ContainerStatus]:
        settings = {"preemption_policy": "LEAST_WORK_LOST", "sleep_delay_before_sigkill_ms": 100}
        async with an_executor(tmp_path, 4, **settings) as executor:
            old = executor.submit(["sleep", "60"], resource=Resource(64, 2), execution_type=O)
            await running(executor, old.container_id)
            young = [
                executor.submit(["sleep", "60"], resource=Resource(64, 1), execution_type=O) for _ in range(2)
            ]
            for job in young:
                await running(executor, job.container_id)
            done = executor.submit(["true"], resource=Resource(64, 2), execution_type=G)
            assert (await done.wait()).exit_status == 0
            return [executor.status(job.container_id) for job in (old, *young)]

    old, *young = asyncio.run(main())
    assert old.state is ContainerState.RUNNING
    assert [status.exit_status for status in young] == [-108, -108]
