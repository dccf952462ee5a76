"""What the body of a submission over REST means, without a cluster."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.records import ExecutionType, Resource, counted
from yarnopp_cli.errors import UsageError
from yarnopp_cli.masters.commands import MASTER
from yarnopp_cli.masters.submission import Submission, expand, read

ID = "application_1_0001"


def parsed(command: str, **more: Any) -> Submission:
    body = {"application-id": ID, "am-container-spec": {"commands": {"command": command}}, **more}
    return read(body, shell_program="bash", max_preemptions=7)


def master(options: str, before: str = "printf '%s' 'sleep 1' > shellCommands; ") -> Submission:
    return parsed(
        f"{before}{{{{JAVA_HOME}}}}/bin/java -Xmx10m {MASTER} {options} 1><LOG_DIR>/o 2><LOG_DIR>/e"
    )


def test_hadoops_master_line_becomes_a_distributed_shell() -> None:
    found = master(
        "--container_type OPPORTUNISTIC --container_memory 32 --container_vcores 2 --num_containers 4 --priority 5 "
        "--shell_env A=1 --shell_env B=x=y --promote_opportunistic_after_start --enforce_execution_type "
        "--container_retry_policy 2 --container_retry_error_codes 1,75 --container_max_retries 3"
    )
    assert found.command == "" and found.job is not None
    (phase,) = found.job.phases
    assert phase.size == 4 and phase.command == ("bash", "-c", "sleep 1")
    task = phase.tasks[0]
    assert (task.resource, task.execution_type, task.priority) == (
        Resource(32, 2),
        ExecutionType.OPPORTUNISTIC,
        5,
    )
    assert task.enforce and phase.promote and phase.environment == {"A": "1", "B": "x=y"}
    assert (phase.retry_codes, phase.max_attempts, found.job.max_preemptions) == ((1, 75), 4, 7)


def test_arguments_are_read_from_the_file_the_command_writes() -> None:
    found = master(
        "--num_containers 1", "printf '%s' ls > shellCommands; printf '%s' '-l /tmp' > shellArgs && "
    )
    assert found.job is not None and found.job.phases[0].command[-1] == "ls -l /tmp"


@pytest.mark.parametrize(
    ("options", "before", "message"),
    [
        ("--num_containers 1", "", "no shell command"),
        ("--num_containers 0", "printf '%s' x > shellCommands; ", "num_containers cannot be 0"),
        ("--num_containers many", "printf '%s' x > shellCommands; ", "whole number"),
        ("--container_type SOMETIMES", "printf '%s' x > shellCommands; ", "Invalid container_type"),
        ("--no_such 1", "printf '%s' x > shellCommands; ", "no option no_such"),
        ("--shell_env novalue", "printf '%s' x > shellCommands; ", "NAME=VALUE"),
        ("--num_containers '1", "printf '%s' x > shellCommands; ", "cannot be read"),
    ],
)
def test_a_master_line_that_makes_no_sense_is_refused(options: str, before: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        master(options, before)


@pytest.mark.parametrize("number", ["²", "0\x1d", "--5", "1 2", "9" * 5000])
def test_a_text_that_only_looks_like_a_number_is_refused(number: str) -> None:
    with pytest.raises(UsageError, match="priority must be a whole number"):
        parsed("true", priority=number)


def test_what_is_no_exit_code_and_no_java_text_is_passed_over_or_replaced() -> None:
    found = master(
        f"--container_retry_policy 2 --container_retry_error_codes 1,²,{'9' * 5000},75",
        "printf '%b' '\\0000\\0002l\\0377' > shellCommands; ",
    )
    assert found.job is not None
    (phase,) = found.job.phases
    assert (phase.retry_codes, phase.command[-1]) == ((1, 75), "l\ufffd")


def test_a_plain_command_is_kept_with_its_placeholders_made_the_shells() -> None:
    found = parsed("{{BIN}}/run <LOG_DIR>/x a<CPS>b", resource={"memory": "64", "vCores": 1})
    assert found.command == "$BIN/run $LOG_DIRS/x a:b" and found.job is None
    assert found.context.am_resource == Resource(64, 1)
    assert expand("{{not a name}}") == "{{not a name}}"


def test_timeouts_tags_and_environment() -> None:
    spec = {
        "commands": {"command": "true"},
        "environment": {"entry": [{"key": "A", "value": 1}, {"key": "B"}]},
    }
    body = {"application-id": ID, "am-container-spec": spec, "application-tags": {"tag": ["x", "x", "y"]},
            "application-timeouts": {"timeout": [{"type": "lifetime", "value": 90}]}}  # fmt: skip
    found = read(body, shell_program="sh", max_preemptions=1)
    assert (found.environment, found.context.tags, found.context.timeout_ms) == (
        {"A": "1", "B": ""},
        ("x", "y"),
        90_000,
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "application-name", "queue", "priority", "am-container-spec", "unmanaged-AM", "max-app-attempts", "resource",
    "application-type", "application-tags", "application-timeouts", "reservation-id",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), JSON), JSON, JSON)
def test_no_body_raises_anything_but_a_refusal(body: dict[str, Any], commands: Any, environment: Any) -> None:
    body.setdefault(
        "am-container-spec", {"commands": {"command": commands}, "environment": {"entry": environment}}
    )
    try:
        found = read({"application-id": ID, **body}, shell_program="sh", max_preemptions=1)
    except UsageError:
        return
    assert found.context.application_id == ID and found.command


@given(st.text(alphabet="ab '\"\\;&|<>$()\n-=", max_size=40))
def test_no_master_line_raises_anything_but_a_refusal(text: str) -> None:
    with contextlib.suppress(UsageError):
        master(text)


def test_countable_resources_of_hadoops_master_and_of_a_resource() -> None:
    found = master("--container_resources memory-mb=64,vcores=2,yarn.io/gpu=1 --num_containers 1")
    assert found.job is not None
    assert found.job.phases[0].tasks[0].resource == Resource(64, 2, counted({"yarn.io/gpu": 1}))
    with pytest.raises(UsageError, match="not an amount of a resource"):
        master("--container_resources yarn.io/gpu=some --num_containers 1")
    informations = {
        "resourceInformation": [
            {"name": "memory-mb", "value": 256, "units": "Mi", "resourceType": "COUNTABLE"},
            {"name": "license", "value": 2},
        ]
    }
    told = parsed("sleep 1", resource={"memory": 256, "vCores": 1, "resourceInformations": informations})
    assert told.context.am_resource == Resource(256, 1, counted({"license": 2}))
