"""A job for YARN: the body of a submission that starts Hadoop's own distributed shell ApplicationMaster. Pure.

Nothing is uploaded: the shell that starts this master writes the command into the file ``shellCommands``,
which the master reads in its directory, and the master's jar is on the nodes' class path as shipped by
Hadoop. The file has the format of Java's ``DataInput.readUTF``: two bytes of length, then text in which no
byte is 0.

A NodeManager puts a command between double quotes into its own script, and expands ``{{X}}`` and
``<LOG_DIR>`` in it first; the master passes its command to the next NodeManager in the same way. So all text
that a shell would change on the way is written as octal escapes between single quotes (``printf %b``), which
no number of such layers changes.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from executor.records import Resource

from ..errors import UsageError
from ..masters.commands import FOR_EVER, MASTER
from ..records.jobs import JobSpec, PhaseSpec
from ..records.requests import ApplicationSubmissionContext

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
"""The class path that YARN's clients give a master by default (``yarn.application.classpath``)."""
LARGEST_FILE: Final = 65535
"""The most bytes that ``readUTF`` can read."""
_TOUCHED = re.compile(rb"[\x00-\x1f\x7f-\xff\"$`\\'{}<>]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]*", re.ASCII)


def body(
    job: JobSpec, submission: ApplicationSubmissionContext, application_id: str, *, debug: bool = False
) -> dict[str, Any]:
    """The body of ``POST /ws/v1/cluster/apps`` (YARN's ApplicationSubmissionContextInfo)."""
    master = submission.am_resource
    found: dict[str, Any] = {
        "application-id": application_id,
        "application-name": submission.name,
        "application-type": "YARN",
        "queue": submission.queue,
        "priority": submission.priority,
        "unmanaged-AM": False,
        "resource": {"memory": master.memory, "vCores": master.vcores},
        "keep-containers-across-application-attempts": submission.keep_containers_across_attempts,
        "am-container-spec": {
            "commands": {"command": command(job, submission, debug=debug)},
            "environment": {"entry": [{"key": "CLASSPATH", "value": CLASSPATH}]},
        },
    }
    if submission.tags:
        found["application-tags"] = {"tag": list(submission.tags)}
    if submission.node_label_expression:
        found["app-node-label-expression"] = submission.node_label_expression
    return found


def _container_resources(size: Resource) -> list[str]:
    """The option for resource types other than memory and vcores, which shells before Hadoop 3.1
    do not know."""
    if not size.others:
        return []
    amounts = [
        ("memory-mb", size.memory),
        ("vcores", size.vcores),
        *((one.name, one.value) for one in size.others),
    ]
    return [f"--container_resources {','.join(f'{name}={amount}' for name, amount in amounts)}"]


def command(job: JobSpec, submission: ApplicationSubmissionContext, *, debug: bool = False) -> str:
    """The master's command line: it writes the file, then starts the master as Hadoop's client does."""
    (phase,) = job.phases
    first = phase.tasks[0]
    line, passed = _command_line(phase)
    words = [
        "{{JAVA_HOME}}/bin/java",
        f"-Xmx{submission.am_resource.memory}m",
        MASTER,
        f"--container_type {first.execution_type.value}",
        f"--container_memory {first.resource.memory}",
        f"--container_vcores {first.resource.vcores}",
        *_container_resources(first.resource),
        f"--num_containers {phase.size}",
        f"--priority {first.priority}",
    ]
    words += ["--promote_opportunistic_after_start"] if phase.promote else []
    words += ["--enforce_execution_type"] if first.enforce else []
    keeps = submission.keep_containers_across_attempts
    words += ["--keep_containers_across_application_attempts"] if keeps else []
    words += [f"--shell_env {name}={value}" for name, value in passed.items()]
    words += ["--debug"] if debug else []
    if phase.max_attempts > 1:
        retries = -1 if phase.max_attempts >= FOR_EVER else phase.max_attempts - 1
        words.append(f"--container_retry_policy {2 if phase.retry_codes else 1}")
        words.append(f"--container_max_retries {retries}")
        words.append(f"--container_retry_interval {phase.retry_interval_ms}")
    if phase.retry_codes:
        words.append(f"--container_retry_error_codes {','.join(str(one) for one in phase.retry_codes)}")
    words += ["1><LOG_DIR>/AppMaster.stdout", "2><LOG_DIR>/AppMaster.stderr"]
    return f"printf '%b' '{escaped(java_text(line))}' > shellCommands; {' '.join(words)}"


def escaped(data: bytes) -> str:
    """``data`` for ``printf %b`` between single quotes: all that a shell or YARN would change as
    octal escapes."""
    return _TOUCHED.sub(lambda found: b"\\0%03o" % found[0][0], data).decode("ascii")


def java_text(text: str) -> bytes:
    """``text`` as Java's ``DataOutput.writeUTF`` writes it: its length, then each UTF-16 unit
    encoded as UTF-8.

    Raises UsageError if the text is too long for that format.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    alone = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    data = b"".join(chr(one).encode("utf-8", "surrogatepass") if one else b"\xc0\x80" for one in alone)
    if len(data) > LARGEST_FILE:
        raise UsageError(
            f"the command has {len(data)} bytes",
            because=f"Hadoop's distributed shell reads at most {LARGEST_FILE} bytes",
            hint="a script that is installed on the nodes",
        )
    return len(data).to_bytes(2, "big") + data


def _command_line(phase: PhaseSpec) -> tuple[str, dict[str, str]]:
    """The line that bash runs in each container, and the variables that can be passed as options
    of the master.

    A shell line is passed unchanged, as by Hadoop's client: bash interprets it once more on the way. The
    words of a command without a shell, and the values of variables, must arrive unchanged: if a layer would
    change them, they are put into a separate script.
    """
    plain = {name: value for name, value in phase.environment.items() if _PLAIN.fullmatch(value)}
    others = {name: value for name, value in phase.environment.items() if name not in plain}
    line = phase.shell_line or shlex.join(phase.command)
    unsafe = not phase.shell_line and re.search(r"[^\x20-\x7e]|[\"$`\\]|\{\{|<", line) is not None
    if not others and not unsafe:
        return line, plain
    script = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in others.items())
    return f"bash <(printf %b '{escaped((script + line).encode('utf-8', 'surrogateescape'))}')", plain
