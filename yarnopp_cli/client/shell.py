"""A job for YARN: the body of a submission that starts Hadoop's own distributed shell ApplicationMaster. Pure.

Nothing is uploaded: the command is written into the files ``shellCommands`` and ``shellArgs`` that this master reads in
its directory, by the shell that starts it, and the master's jar is on the nodes' class path as Hadoop ships it. These
files are as Java's ``DataInput.readUTF`` wants them: two bytes of length, then text in which no byte is 0.

A NodeManager puts a command between double quotes into a script of its own, and expands ``{{X}}`` and ``<LOG_DIR>`` in
it first; the master hands its command to the next NodeManager in the same way. So what a shell would change on the way
is written with octal escapes between single quotes (``printf %b``), which no number of such layers touches.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from executor.light import dataclass
from executor.records import ExecutionType, Resource

from ..errors import UsageError

MASTER: Final = "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster"
CLASSPATH: Final = "<CPS>".join(
    (
        "{{CLASSPATH}}",
        "./*",
        "{{HADOOP_CONF_DIR}}",
        *(
            f"{{{{{home}}}}}/share/hadoop/{part}/{jars}"
            for home, part in (
                ("HADOOP_COMMON_HOME", "common"),
                ("HADOOP_HDFS_HOME", "hdfs"),
                ("HADOOP_YARN_HOME", "yarn"),
            )
            for jars in ("*", "lib/*")
        ),
    )
)
"""What YARN's clients give a master where nobody set ``yarn.application.classpath``."""
LARGEST_FILE: Final = 65535
"""Bytes that ``readUTF`` can read."""
_TOUCHED = re.compile(rb"[\x00-\x1f\x7f-\xff\"$`\\'{}<>]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShellJob:
    """What Hadoop's distributed shell can do for a job.

    ``line`` is for bash; ``argv`` instead of it a command whose words reach it as they are. ``retry_policy`` as in
    YARN: 0 never, 1 after any error, 2 after ``retry_error_codes``.
    """

    line: str = ""
    argv: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    containers: int = 1
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    resource: Resource = Resource(512, 1)
    container_priority: int = 0
    promote: bool = False
    enforce: bool = False
    retry_policy: int = 0
    retry_error_codes: tuple[int, ...] = ()
    max_retries: int = 0
    retry_interval_ms: int = 0
    keep_containers: bool = False
    name: str = "DistributedShell"
    queue: str = "default"
    priority: int = 0
    tags: tuple[str, ...] = ()
    node_label: str = ""
    master: Resource = Resource(256, 1)
    debug: bool = False


def body(job: ShellJob, application_id: str) -> dict[str, Any]:
    """The body of ``POST /ws/v1/cluster/apps`` (YARN's ApplicationSubmissionContextInfo)."""
    found: dict[str, Any] = {
        "application-id": application_id,
        "application-name": job.name,
        "application-type": "YARN",
        "queue": job.queue,
        "priority": job.priority,
        "unmanaged-AM": False,
        "resource": {"memory": job.master.memory, "vCores": job.master.vcores},
        "keep-containers-across-application-attempts": job.keep_containers,
        "am-container-spec": {
            "commands": {"command": command(job)},
            "environment": {"entry": [{"key": "CLASSPATH", "value": CLASSPATH}]},
        },
    }
    if job.tags:
        found["application-tags"] = {"tag": list(job.tags)}
    if job.node_label:
        found["app-node-label-expression"] = job.node_label
    return found


def command(job: ShellJob) -> str:
    """The master's command line: its files first, then itself, as Hadoop's client writes it."""
    line, passed = _command_line(job)
    statements = [_written(line, "shellCommands")]
    if arguments := " ".join(job.arguments):
        statements.append(_written(arguments, "shellArgs"))
    words = [
        "{{JAVA_HOME}}/bin/java",
        f"-Xmx{job.master.memory}m",
        MASTER,
        f"--container_type {job.execution_type.value}",
        f"--container_memory {job.resource.memory}",
        f"--container_vcores {job.resource.vcores}",
        f"--num_containers {job.containers}",
        f"--priority {job.container_priority}",
    ]
    words += ["--promote_opportunistic_after_start"] if job.promote else []
    words += ["--enforce_execution_type"] if job.enforce else []
    words += ["--keep_containers_across_application_attempts"] if job.keep_containers else []
    words += [f"--shell_env {name}={value}" for name, value in passed.items()]
    words += ["--debug"] if job.debug else []
    if job.retry_policy:
        words.append(f"--container_retry_policy {job.retry_policy}")
        words.append(f"--container_max_retries {job.max_retries}")
        words.append(f"--container_retry_interval {job.retry_interval_ms}")
    if job.retry_error_codes:
        words.append(f"--container_retry_error_codes {','.join(str(one) for one in job.retry_error_codes)}")
    words += ["1><LOG_DIR>/AppMaster.stdout", "2><LOG_DIR>/AppMaster.stderr"]
    return "; ".join([*statements, " ".join(words)])


def escaped(data: bytes) -> str:
    """``data`` for ``printf %b`` between single quotes: what a shell or YARN would change as octal escapes."""
    return _TOUCHED.sub(lambda found: b"\\0%03o" % found[0][0], data).decode("ascii")


def java_text(text: str) -> bytes:
    """``text`` as Java's ``DataOutput.writeUTF`` writes it: its length, then UTF-16's units in UTF-8 each.

    Raises UsageError for one that is too long for it.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    alone = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    data = b"".join(chr(one).encode("utf-8", "surrogatepass") if one else b"\xc0\x80" for one in alone)
    if len(data) > LARGEST_FILE:
        raise UsageError(
            f"the command has {len(data)} bytes",
            because=f"Hadoop's distributed shell reads {LARGEST_FILE} of it at most",
            hint="a script that stands on the nodes",
        )
    return len(data).to_bytes(2, "big") + data


def _written(text: str, name: str) -> str:
    """A statement that writes ``text`` into a file of the master's."""
    return f"printf '%b' '{escaped(java_text(text))}' > {name}"


def _command_line(job: ShellJob) -> tuple[str, dict[str, str]]:
    """What bash runs in each container, and the variables that can go as the master's options.

    A line goes as it is, as with Hadoop's client: bash reads it once more on the way. The words of ``argv`` and values
    of variables must arrive as they are: where a layer would change them, they stand in a script of their own.
    """
    plain = {name: value for name, value in job.environment.items() if _PLAIN.fullmatch(value)}
    others = {name: value for name, value in job.environment.items() if name not in plain}
    line = shlex.join(job.argv) if job.argv else job.line
    unsafe = bool(job.argv) and re.search(r"[^\x20-\x7e]|[\"$`\\]|\{\{|<", line) is not None
    if not others and not unsafe:
        return line, plain
    # With arguments behind it, the script's last command must be the one that takes them.
    take = ' "$@"' if job.arguments else ""
    script = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in others.items())
    return f"bash <(printf %b '{escaped((script + line + take).encode('utf-8', 'surrogateescape'))}')", plain
