"""Run commands as containers on one Linux host: queued, limited, paused, promoted, and recovered after a crash.

A library of its own; it knows nothing of clusters.

    import asyncio
    from executor import ExecutionType, Executor, ExecutorSettings, Resource

    async def main():
        async with Executor(Resource(memory=4096, vcores=2), work_dir="/tmp/jobs",
                            settings=ExecutorSettings(max_queue_length=10)) as executor:
            jobs = [executor.submit(["sleep", "10"], resource=Resource(512, 1),
                                    execution_type=ExecutionType.OPPORTUNISTIC) for _ in range(10)]
            for job in asyncio.as_completed([job.wait() for job in jobs]):
                print(await job)

    asyncio.run(main())

Importing this package loads nothing; each of its names is loaded when it is first used.
How it works: ``executor/core/__init__.py``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .causes import Cause, CauseKind
    from .errors import (
        CgroupError,
        CgroupUnavailableError,
        CgroupWriteError,
        ContainerNotFoundError,
        ExecutorError,
        InvalidResourceError,
        InvalidTransitionError,
        LaunchError,
        StateStoreError,
    )
    from .executor import Executor, ExecutorStats, Job
    from .linux.cgroups import CgroupReport, discover
    from .linux.watching.host import HostLimits, host_limits
    from .records import (
        CgroupLimits,
        ContainerExitStatus,
        ContainerQueuingLimit,
        ContainerRecord,
        ContainerSpec,
        ContainerState,
        ContainerStatus,
        ContainerSubState,
        ContainerUsage,
        ExecutionType,
        OpportunisticContainersStatus,
        Resource,
        ResourceUtilization,
        exit_status_name,
    )
    from .settings import ExecutorSettings

__distribution__ = "yopp"
"""The distribution that this package belongs to: PyPI has another one that installs a package of this name."""

_MODULES = {
    "causes": "Cause CauseKind",
    "errors": (
        "CgroupError CgroupUnavailableError CgroupWriteError ContainerNotFoundError ExecutorError "
        "InvalidResourceError InvalidTransitionError LaunchError StateStoreError"
    ),
    "records": (
        "CgroupLimits ContainerExitStatus ContainerQueuingLimit ContainerRecord ContainerSpec "
        "ContainerState ContainerStatus ContainerSubState ContainerUsage ExecutionType "
        "OpportunisticContainersStatus Resource ResourceUtilization exit_status_name"
    ),
    "settings": "ExecutorSettings",
    "executor": "Executor ExecutorStats Job",
    "linux.watching.host": "HostLimits host_limits",
    "linux.cgroups": "CgroupReport discover",
}
__all__ = [
    "Cause",
    "CauseKind",
    "CgroupError",
    "CgroupLimits",
    "CgroupReport",
    "CgroupUnavailableError",
    "CgroupWriteError",
    "ContainerExitStatus",
    "ContainerNotFoundError",
    "ContainerQueuingLimit",
    "ContainerRecord",
    "ContainerSpec",
    "ContainerState",
    "ContainerStatus",
    "ContainerSubState",
    "ContainerUsage",
    "ExecutionType",
    "Executor",
    "ExecutorError",
    "ExecutorSettings",
    "ExecutorStats",
    "HostLimits",
    "InvalidResourceError",
    "InvalidTransitionError",
    "Job",
    "LaunchError",
    "OpportunisticContainersStatus",
    "Resource",
    "ResourceUtilization",
    "StateStoreError",
    "discover",
    "exit_status_name",
    "host_limits",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            import importlib

            found = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
