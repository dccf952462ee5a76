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

    from .causes import Cause as Cause
    from .causes import CauseKind as CauseKind
    from .errors import CgroupError as CgroupError
    from .errors import CgroupUnavailableError as CgroupUnavailableError
    from .errors import CgroupWriteError as CgroupWriteError
    from .errors import ContainerNotFoundError as ContainerNotFoundError
    from .errors import ExecutorError as ExecutorError
    from .errors import InvalidResourceError as InvalidResourceError
    from .errors import InvalidTransitionError as InvalidTransitionError
    from .errors import LaunchError as LaunchError
    from .errors import StateStoreError as StateStoreError
    from .executor import Executor as Executor
    from .executor import ExecutorStats as ExecutorStats
    from .executor import Job as Job
    from .linux.cgroups import CgroupReport as CgroupReport
    from .linux.cgroups import discover as discover
    from .linux.watching.host import HostLimits as HostLimits
    from .linux.watching.host import host_limits as host_limits
    from .records import CgroupLimits as CgroupLimits
    from .records import ContainerExitStatus as ContainerExitStatus
    from .records import ContainerQueuingLimit as ContainerQueuingLimit
    from .records import ContainerRecord as ContainerRecord
    from .records import ContainerSpec as ContainerSpec
    from .records import ContainerState as ContainerState
    from .records import ContainerStatus as ContainerStatus
    from .records import ContainerSubState as ContainerSubState
    from .records import ContainerUsage as ContainerUsage
    from .records import ExecutionType as ExecutionType
    from .records import OpportunisticContainersStatus as OpportunisticContainersStatus
    from .records import Resource as Resource
    from .records import ResourceUtilization as ResourceUtilization
    from .records import exit_status_name as exit_status_name
    from .settings import ExecutorSettings as ExecutorSettings

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
__all__ = sorted(" ".join(_MODULES.values()).split())


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            import importlib

            found = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
