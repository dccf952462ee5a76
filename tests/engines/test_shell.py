"""What is submitted to YARN: the body, the master's command, and that words arrive as they were typed."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import ExecutionType, Resource
from yarnopp_cli.client.shell import CLASSPATH, MASTER, body, command
from yarnopp_cli.masters.commands import ContainerRetryContext, plan_shell
from yarnopp_cli.masters.submission import read
from yarnopp_cli.records.jobs import JobSpec, TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext

APPLICATION = "application_1765400000000_0001"


ONE = TaskSpec(1, Resource(512, 1))
MASTER_SIZE = Resource(256, 1)
SUBMISSION = ApplicationSubmissionContext("", "DistributedShell", am_resource=MASTER_SIZE)


def test_the_document_of_a_plain_job() -> None:
    job = plan_shell(
        TaskSpec(1, Resource(10, 1), ExecutionType.OPPORTUNISTIC, enforce=True),
        10,
        shell_command="sleep",
        shell_args=("10",),
        promote=True,
        environment={"A": "1"},
    )
    submission = replace(SUBMISSION, tags=("x", "y"), node_label_expression="gpu", queue="prod", priority=3)
    found = body(job, submission, APPLICATION)
    assert found["am-container-spec"] == {
        "commands": {
            "command": "printf '%b' '\\0000\\0010sleep 10' > shellCommands; "
            "{{JAVA_HOME}}/bin/java -Xmx256m "
            "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster "
            "--container_type OPPORTUNISTIC --container_memory 10 --container_vcores 1 --num_containers 10 "
            "--priority 0 --promote_opportunistic_after_start --enforce_execution_type --shell_env A=1 "
            "1><LOG_DIR>/AppMaster.stdout 2><LOG_DIR>/AppMaster.stderr"
        },
        "environment": {"entry": [{"key": "CLASSPATH", "value": CLASSPATH}]},
    }
    assert {key: value for key, value in found.items() if key != "am-container-spec"} == {
        "application-id": APPLICATION,
        "application-name": "DistributedShell",
        "application-type": "YARN",
        "queue": "prod",
        "priority": 3,
        "unmanaged-AM": False,
        "resource": {"memory": 256, "vCores": 1},
        "keep-containers-across-application-attempts": False,
        "application-tags": {"tag": ["x", "y"]},
        "app-node-label-expression": "gpu",
    }
    assert CLASSPATH.startswith(
        "{{CLASSPATH}}<CPS>./*<CPS>{{HADOOP_CONF_DIR}}<CPS>{{HADOOP_COMMON_HOME}}/share/"
    )


def test_retries_are_the_masters_options() -> None:
    retry = ContainerRetryContext(2, (3, 4), 5, 7)
    words = command(plan_shell(ONE, shell_command="x", retry=retry), SUBMISSION, debug=True)
    assert (
        "--debug --container_retry_policy 2 --container_max_retries 5 --container_retry_interval 7 " in words
    )
    assert "--container_retry_error_codes 3,4 1>" in words


def test_our_own_resourcemanager_reads_what_we_write() -> None:
    line = "echo \"$HOME\" 'a b' \\ `date` {{X}} <LOG_DIR> äö\n"
    job = plan_shell(
        TaskSpec(1, Resource(20, 2), ExecutionType.OPPORTUNISTIC),
        3,
        shell_command=line,
        shell_args=("it's", "$X"),
        environment={"PLAIN": "a=b"},
        retry=ContainerRetryContext(1, maximum=2),
    )
    read_back = read(body(job, SUBMISSION, APPLICATION), shell_program="bash", max_preemptions=1)
    assert read_back.job is not None
    [phase] = read_back.job.phases
    assert phase.command[-1] == f"{line.strip()} it's $X"
    assert phase.size == 3
    assert phase.tasks[0].resource == Resource(20, 2)
    assert phase.tasks[0].execution_type is ExecutionType.OPPORTUNISTIC
    assert phase.environment["PLAIN"] == "a=b"


def as_a_nodemanager(line: str, log_dir: Path) -> list[str]:
    """What a NodeManager of Hadoop does with a command: YARN's words replaced, and between double quotes."""
    for word, meaning in (("<LOG_DIR>", str(log_dir)), ("<CPS>", ":"), ("{{", "$"), ("}}", "")):
        line = line.replace(word, meaning)
    return ["bash", "-c", f'exec /bin/bash -c "{line}"']


def as_java_reads(file: Path) -> str:
    """What the master's ``readUTF`` makes of a file, or fails as it would."""
    data = file.read_bytes()
    assert int.from_bytes(data[:2], "big") == len(data) - 2
    assert 0 not in data[2:] and max(data[2:]) < 0xF0, "no character beyond UTF-16's units"
    units = data[2:].decode("utf-8", "surrogatepass")
    return units.encode("utf-16", "surrogatepass").decode("utf-16")


def through_hadoop(job: JobSpec, where: Path) -> str:
    """What the containers of a job print, after all the layers of shells that Hadoop puts between."""
    line = command(job, SUBMISSION)
    assert f" {MASTER} " in line
    written = line[: line.index("{{JAVA_HOME}}")] + "true"
    subprocess.run(as_a_nodemanager(written, where), cwd=where, check=True, timeout=20)
    task = as_java_reads(where / "shellCommands")
    ended = subprocess.run(
        as_a_nodemanager(f"{task} 1><LOG_DIR>/stdout", where), cwd=where, check=False, timeout=20
    )
    assert ended.returncode == 0
    return (where / "stdout").read_text()


@pytest.mark.parametrize(
    "argv",
    [
        ("plain", "words"),
        (
            "a b",
            "",
            "it's",
            '"',
            "$HOME",
            "`date`",
            "\\",
            "\\0101",
            "%s%b",
            "{{HOME}}",
            "<LOG_DIR>",
            "<CPS>",
            "!x",
        ),
        ("line\nbreak", "tab\t", "äöü€", "🙂", "*", ";", "&", "|", "(", "#"),
    ],
)
def test_words_arrive_as_they_were_typed(argv: tuple[str, ...], tmp_path: Path) -> None:
    job = plan_shell(ONE, argv=("printf", "[%s]", *argv), environment={"TOLD": "$(date) '\"\n"})
    assert through_hadoop(job, tmp_path) == "".join(f"[{word}]" for word in argv)


def test_variables_arrive_as_they_were_typed(tmp_path: Path) -> None:
    value = "a $HOME `x` \"q\" 'p' \\ {{Y}} <LOG_DIR>\nend"
    job = plan_shell(ONE, argv=("printenv", "TOLD"), environment={"TOLD": value})
    assert through_hadoop(job, tmp_path) == value + "\n"
    assert "--shell_env" not in command(job, SUBMISSION)


def test_arguments_go_to_the_line_of_a_script(tmp_path: Path) -> None:
    job = plan_shell(ONE, shell_command="printf '[%s]'", shell_args=("one", "two"), environment={"X": "a b"})
    assert through_hadoop(job, tmp_path) == "[one][two]"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8), max_size=4
    )
)
def test_any_words_come_back_from_the_files(argv: list[str]) -> None:
    job = plan_shell(ONE, argv=("true", *argv))
    read_back: Any = read(body(job, SUBMISSION, APPLICATION), shell_program="bash", max_preemptions=1)
    line = read_back.job.phases[0].command[-1]
    if not line.startswith("bash <("):
        assert shlex.split(line) == ["true", *argv]
        return
    shown = subprocess.run(
        ["bash", "-c", line.replace("bash <(", "cat <(", 1)], capture_output=True, timeout=20
    )
    assert shlex.split(shown.stdout.decode()) == ["true", *argv]
