"""How a client submits: to be hosted, and otherwise where that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from executor.records import Resource
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.errors import MastersNotHostedError, UsageError, YoppError
from yarnopp_cli.jobs.client import JobClient
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.client_protocol import ClusterInfo
from yarnopp_cli.records.job_protocol import (
    SubmitApplicationRequest,
    SubmitApplicationResponse,
    SubmitJobRequest,
)
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.rpc.plain import TooLargeError
from yarnopp_cli.settings.loading import load

CONTEXT = ApplicationSubmissionContext("", "job")
JOB = plan_run(("true",), TaskSpec(1, Resource(1, 1)))


class FakeConnection:
    """Refuses to host with ``refusal``, and takes everything else."""

    def __init__(self, refusal: YoppError) -> None:
        self.refusal = refusal
        self.asked: list[Any] = []

    def call(self, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, SubmitJobRequest):
            raise self.refusal
        info = ClusterInfo(0, 0, 0, "", "stay", "", "", nodes_running=1)
        return SubmitApplicationResponse("application_1_0001", info)

    def close(self) -> None:
        """Nothing to close."""


def submitted(directory: Path, refusal: YoppError) -> FakeConnection:
    connection = FakeConnection(refusal)
    where = RunDir(str(directory), str(directory), str(directory))
    settings = load([], [], environ={}, state_dir=str(directory))
    client = JobClient(where, settings, lambda line: None)
    client.connection = connection  # type: ignore[assignment]
    client.submit(SubmitJobRequest(CONTEXT, JOB), lambda: SubmitApplicationRequest(CONTEXT))
    return connection


@pytest.mark.parametrize("refusal", [MastersNotHostedError("no"), TooLargeError("submitJob is too large")])
def test_a_job_that_cannot_be_hosted_has_its_master_elsewhere(tmp_path: Path, refusal: YoppError) -> None:
    connection = submitted(tmp_path, refusal)
    assert [type(one) for one in connection.asked] == [SubmitJobRequest, SubmitApplicationRequest]


def test_a_refused_job_is_not_submitted_otherwise(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        submitted(tmp_path, UsageError("nonsense"))
