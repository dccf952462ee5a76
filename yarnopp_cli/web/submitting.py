"""Turns the body of a submission into a request to the RM: the master that runs it, and its environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from executor.light import replace
from executor.records import ExecutionType, Resource

from ..cluster.launching import daemon_environment
from ..errors import UsageError
from ..masters.commands import plan_run
from ..masters.submission import Submission, read
from ..records.job_protocol import SubmitJobRequest
from ..records.jobs import JOB_FILE, TaskSpec
from ..records.requests import ApplicationSubmissionContext, ContainerLaunchContext
from ..rpc.plain import encode
from ..settings.declarations import ApplicationSettings

REGISTERS_ITSELF = "YOPP_REGISTERS_ITSELF"
MOST_BYTES, MOST_NAME = 256 * 1024, 1000
"""The maximum size of another user's submission, and of its name. The RM keeps thousands of submissions."""
_MASTERS = "yarnopp_cli.daemons"


def submission_context(
    body: Mapping[str, Any], settings: ApplicationSettings, rm_address: str
) -> ApplicationSubmissionContext:
    """The submission context for the RM. Raises UsageError."""
    program = "bash" if shutil.which("bash") else "sh"
    wanted = read(body, shell_program=program, max_preemptions=settings.max_preemptions)
    context = wanted.context
    if wanted.job is not None and not body.get("resource"):
        context = replace(context, am_resource=settings.am_resource)
    runs = _launch_context(wanted, rm_address)
    return replace(context, am_container_spec=runs, command_line=_shown(wanted))


def hosted_job(body: Mapping[str, Any], size: int, settings: ApplicationSettings) -> SubmitJobRequest:
    """The job of a caller who is not the owner: the RM hosts the master, because a master under this user could not
    reach yopp's sockets. A command is one task. The body has ``size`` bytes. Raises UsageError.
    """
    program = "bash" if shutil.which("bash") else "sh"
    wanted = read(body, shell_program=program, max_preemptions=settings.max_preemptions)
    job = wanted.job
    if size > MOST_BYTES or len(wanted.context.name) > MOST_NAME:
        raise UsageError(
            "this application is too large to be submitted by another user than the cluster's",
            because=f"its description has {size:,} bytes (the limit is {MOST_BYTES:,}), and its name "
            f"{len(wanted.context.name):,} characters (the limit is {MOST_NAME:,})",
        )
    if job is None:
        if wanted.environment.get(REGISTERS_ITSELF, "").lower() == "true":
            raise UsageError(
                "an application master cannot be submitted by another user than the cluster's",
                because="it has to reach the ResourceManager's socket, which is closed to others",
                hint="submit a command, or the command line of the distributed shell's master",
            )
        room = wanted.context.am_resource
        job = plan_run(
            (program, "-c", wanted.command),
            TaskSpec(1, Resource(room.memory, max(1, room.vcores)), ExecutionType.GUARANTEED),
            name=wanted.context.name,
            environment=wanted.environment,
            timeout_ms=wanted.context.timeout_ms,
            own_account=False,
        )
    context = replace(wanted.context, command_line=_shown(wanted), unmanaged=True)
    return SubmitJobRequest(context, job, attached=False)


def _launch_context(wanted: Submission, rm_address: str) -> ContainerLaunchContext:
    ours = daemon_environment(os.environ)
    kept = {name: value for name, value in ours.items() if name in ("PYTHONPATH", "PATH")}
    if wanted.job is not None:
        spec = json.dumps(encode(replace(wanted.job, rm_address=rm_address)))
        return ContainerLaunchContext(
            command=(sys.executable, "-P", "-m", f"{_MASTERS}.applicationmaster", JOB_FILE),
            environment=kept,
            files={JOB_FILE: spec},
        )
    if wanted.environment.get(REGISTERS_ITSELF, "").lower() == "true":
        return ContainerLaunchContext(("/bin/sh", "-c", wanted.command), environment=wanted.environment)
    own = (name for name in kept if name != "PATH" and name not in wanted.environment)
    return ContainerLaunchContext(
        command=(sys.executable, "-P", "-m", f"{_MASTERS}.commandmaster", rm_address, wanted.command, *own),
        environment={**kept, **wanted.environment},
    )


def _shown(wanted: Submission) -> str:
    """The command for listings."""
    if wanted.job is None:
        return wanted.command
    phase = wanted.job.phases[0]
    return f"dshell {phase.size} x {phase.command[-1]}"
