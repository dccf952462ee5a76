"""A node in a process of its own, for tests that kill it: starts containers, says so in a file, and waits.

Arguments: directory, cgroup mode, cgroup group, how many groups are pooled. The directory is all the test's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from executor.core.commands import Command
from executor.core.events import ContainerPauseRequested, ContainerScheduled, Event, RecoveryCompleted
from executor.core.scheduler import ContainerScheduler
from executor.driver import Driver
from executor.linux.cgroups import discover
from executor.linux.container_executor import LinuxContainerExecutor
from executor.records import ContainerSpec, ContainerState, ExecutionType, Resource
from executor.settings import ExecutorSettings

# Slow enough that guaranteed ones leave something to opportunistic ones even of a slow, single processor.
WAIT = "echo $$ > pid; until [ -e go ]; do sleep 0.1; done; exit "


def spec(container_id: str, script: str, kind: ExecutionType = ExecutionType.GUARANTEED) -> ContainerSpec:
    return ContainerSpec(container_id, ("sh", "-c", script), Resource(64, 1), kind)


SPECS = (
    spec("runs", WAIT + "5"),
    spec("ends-meanwhile", WAIT + "7"),
    spec("loses-its-launcher", WAIT + "8"),
    spec("paused", WAIT + "9", ExecutionType.OPPORTUNISTIC),
    spec("queued", "exit 11", ExecutionType.OPPORTUNISTIC),
)
TOTAL = Resource(4096, 4)


async def main(directory: Path, mode: str, group: str, pooled: int) -> None:
    settings = ExecutorSettings(cgroups_mount=mode, max_queue_length=10, pooled_groups=pooled)
    machine = ContainerScheduler(
        TOTAL, settings, physical_cores=2, wall_offset=time.time() - time.monotonic()
    )

    def perform(command: Command) -> None:
        executor.perform(command)

    driver: Driver[Event, Command] = Driver(machine, perform, validate=True)
    executor = LinuxContainerExecutor(
        settings,
        post=driver.post,
        work_dir=directory / "work",
        log_dir=directory / "logs",
        state_dir=directory / "state",
        cgroups=discover(settings, group=group),
    )
    executor.start()
    driver.post(RecoveryCompleted())
    for item in SPECS:
        driver.post(ContainerScheduled(item))
        if item.container_id == "paused":
            pid = directory / "work" / "paused" / "pid"
            while not (pid.exists() and pid.read_text().endswith("\n")):
                await asyncio.sleep(0.005)
            driver.post(ContainerPauseRequested("paused"))
            # Its place is given to one more, so that the last of them has to wait.
            while (status := machine.status("paused")) is None or status.state is not ContainerState.PAUSED:
                await asyncio.sleep(0.005)
            driver.post(ContainerScheduled(spec("fills", WAIT + "0")))
    names = [item.container_id for item in SPECS if item.container_id != "queued"]
    while not all((directory / "work" / name / "pid").exists() for name in [*names, "fills"]):
        await asyncio.sleep(0.005)
    (directory / "ready").write_text("yes")
    await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
