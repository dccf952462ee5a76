"""Parses the body of ``POST /ws/v1/cluster/apps`` (YARN's ApplicationSubmissionContextInfo).

Hadoop's own distributed shell is recognised by its ApplicationMaster's command line, and becomes a job of our
distributed shell. Pure; raises UsageError for an invalid body.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, TypeVar

from executor.light import Record
from executor.records import MEMORY_MB, VCORES, ExecutionType, Others, Resource, counted

from ..errors import UsageError
from ..records.jobs import JobSpec, TaskSpec
from ..records.requests import ApplicationSubmissionContext
from . import commands as shell

LARGEST = 2**31 - 1
T = TypeVar("T")
_VARIABLE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}", re.ASCII)
"""Hadoop's placeholder for an environment variable: ``{{NAME}}``."""
_WHOLE = re.compile(r"\s*-?\d{1,10}\s*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Submission(Record):
    """A submitted application: a shell ``command`` with its ``environment``, or a ``job`` for a distributed
    shell. Its ``context`` does not yet contain the master's command, nor the command line shown in lists.
    """

    context: ApplicationSubmissionContext
    environment: dict[str, str]
    command: str = ""
    job: JobSpec | None = None


def read(body: Mapping[str, Any], *, shell_program: str, max_preemptions: int) -> Submission:
    """A submission from its JSON. Raises UsageError."""
    application_id = _text(body, "application-id")
    if not application_id:
        raise UsageError(
            "the body has no application-id", hint="POST /ws/v1/cluster/apps/new-application returns one"
        )
    if _flag(body, "unmanaged-AM"):
        raise UsageError(
            "an unmanaged application cannot be submitted here",
            because="it lives as long as its client's connection, and an HTTP connection does not last",
        )
    if body.get("reservation-id"):
        raise UsageError("reservations are not supported")
    spec = _table(body, "am-container-spec")
    if _table(spec, "local-resources").get("entry"):
        raise UsageError(
            "local resources cannot be fetched",
            because="there is no distributed file system on one host; files are read where they are",
            hint="leave local-resources empty",
        )
    environment = _environment(spec)
    command = _command(spec)
    name = _text(body, "application-name")
    job = None
    if shell.MASTER in command:
        job = _shell_job(command, environment, name, shell_program, max_preemptions)
    label = _text(body, "am-container-node-label-expression") or _text(body, "app-node-label-expression")
    context = ApplicationSubmissionContext(
        application_id=application_id,
        name=name or "N/A",
        queue=_text(body, "queue") or "default",
        priority=_whole(body, "priority", 0),
        application_type=_text(body, "application-type") or "YARN",
        am_resource=_resource(_table(body, "resource")),
        max_attempts=max(0, _whole(body, "max-app-attempts", 0)),
        tags=tuple(dict.fromkeys(_entries(body, "application-tags", "tag", str, "{tag: [texts]}"))),
        timeout_ms=_timeout_ms(body),
        keep_containers_across_attempts=_flag(body, "keep-containers-across-application-attempts"),
        node_label_expression=label,
    )
    return Submission(context, environment, "" if job is not None else expand(command), job)


def expand(command: str) -> str:
    """Replace Hadoop's placeholders by the syntax of a shell."""
    text = command.replace("<LOG_DIR>", "$LOG_DIRS").replace("<CPS>", ":")
    return _VARIABLE.sub(r"$\1", text)


def _shell_job(
    command: str, environment: dict[str, str], name: str, shell_program: str, max_preemptions: int
) -> JobSpec:
    """The job that Hadoop's ApplicationMaster would run, from its options as written by its client."""
    files, words = _master_line(command)
    given: dict[str, list[str]] = {}
    values: list[str] = []
    for at, word in enumerate(words):
        if at and not _is_option(word):
            values.append(word)
        elif word.startswith("-"):
            values = given.setdefault(word.lstrip("-"), [])
        else:
            raise UsageError(f"{word!r} is not an option of the distributed shell's master")
    if unknown := given.keys() - _OPTIONS:
        raise UsageError(
            f"the distributed shell's master has no option {min(unknown)}",
            hint="it takes " + ", ".join(sorted(_OPTIONS)),
        )
    shell_command = files.get("shellCommands", "").strip()
    if not shell_command:
        raise UsageError(
            "no shell command in environment to execute by Application Master",
            because="the command is read from the file shellCommands in its directory, which nothing writes",
            hint="begin with: printf '%s' 'sleep 10' > shellCommands;",
        )
    kind = (given.get("container_type") or ["GUARANTEED"])[-1].upper()
    if kind not in ExecutionType.__members__:
        raise UsageError(f"Invalid container_type: {kind}")
    return shell.plan_shell(
        TaskSpec(
            1,
            _container_size(given),
            ExecutionType[kind],
            _number(given, "priority", 0, -LARGEST),
            "enforce_execution_type" in given,
        ),
        _number(given, "num_containers", 1),
        shell_command=shell_command,
        shell_args=(files["shellArgs"],) if files.get("shellArgs") else (),
        shell=shell_program,
        environment={**_assignments(given.get("shell_env", [])), **_portable(environment)},
        retry=shell.ContainerRetryContext(
            _number(given, "container_retry_policy", 0, 0),
            tuple(
                int(code)
                for word in given.get("container_retry_error_codes", [])
                for code in word.split(",")
                if _WHOLE.fullmatch(code)
            ),
            _number(given, "container_max_retries", 0, -1),
            _number(given, "container_retry_interval", 0, 0),
        ),
        promote="promote_opportunistic_after_start" in given,
        name=name or (given.get("appname") or [shell.NAME])[-1],
        max_preemptions=max_preemptions,
    )


_OPTIONS = frozenset(
    {
        "container_memory", "container_vcores", "container_resources", "num_containers", "priority", "container_type",
        "shell_env",
        "promote_opportunistic_after_start", "enforce_execution_type", "container_retry_policy", "appname",
        "container_retry_error_codes", "container_max_retries", "container_retry_interval", "debug",
        "container_failures_validity_interval", "homedir", "user", "keep_containers_across_application_attempts",
    }
)  # fmt: skip


def _container_size(given: Mapping[str, list[str]]) -> Resource:
    """The container size from the master's options; memory and vcores in ``container_resources`` have
    precedence."""
    others: dict[str, int] = {}
    for word in given.get("container_resources", []):
        for part in filter(None, word.split(",")):
            name, _, number = part.partition("=")
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise UsageError(f"{part!r} in container_resources is not an amount of a resource")
            others[name] = int(number)
    memory, vcores = others.pop(MEMORY_MB, None), others.pop(VCORES, None)
    return Resource(
        _number(given, "container_memory", 10) if memory is None else memory,
        _number(given, "container_vcores", 1, 0) if vcores is None else vcores,
        counted(others),
    )


def _is_option(word: str) -> bool:
    return word.startswith("--") or word.lstrip("-") in _OPTIONS


def _master_line(command: str) -> tuple[dict[str, str], list[str]]:
    """The texts written to files before the master starts, and the words after its class up to the first
    redirection."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError("the master's command cannot be read", because=str(error).lower()) from None
    files: dict[str, str] = {}
    statements: list[list[str]] = [[]]
    for word in words:
        if word and set(word) <= set(";|&"):
            statements.append([])
        else:
            statements[-1].append(word)
    for statement in statements:
        if shell.MASTER in statement:
            after = statement[statement.index(shell.MASTER) + 1 :]
            for at, word in enumerate(after):
                if word and set(word) <= set("<>"):
                    # The number of a file descriptor precedes its redirection.
                    after = after[: at - 1 if at and after[at - 1].isdigit() else at]
                    break
            return files, after
        match statement:
            case ["echo", text, ">", file] | ["printf", "%s", text, ">", file]:
                files[file] = text
            case ["printf", "%b", text, ">", file]:
                files[file] = _printed(text)
    raise UsageError("the master's command does not start it")


def _printed(text: str) -> str:
    """The output of ``printf %b``, decoded as by Hadoop's master (Java's ``readUTF``) if it has
    that format."""
    octal = rb"\\0([0-7]{1,3})"
    data = re.sub(octal, lambda found: bytes([int(found[1], 8) & 255]), text.encode("utf-8", "replace"))
    if int.from_bytes(data[:2], "big") != len(data) - 2:
        return data.decode("utf-8", "replace")
    try:
        units = data[2:].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data[2:].decode("utf-8", "replace")
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _assignments(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(key):
            raise UsageError(f"shell_env {key!r} is not NAME=VALUE", because="shell_env takes assignments")
        found[key] = value
    return found


def _portable(environment: Mapping[str, str]) -> dict[str, str]:
    """The master's environment for the containers, without the variables that only a JVM reads."""
    return {key: value for key, value in environment.items() if key not in ("CLASSPATH", "JAVA_HOME")}


def _number(given: Mapping[str, list[str]], key: str, default: int, least: int = 1) -> int:
    words = given.get(key)
    if not words:
        return default
    try:
        number = int(words[-1])
    except ValueError:
        raise UsageError(f"{key} takes a whole number, not {words[-1]!r}") from None
    if not least <= number <= LARGEST:
        raise UsageError(f"{key} cannot be {number}", because=f"it is at least {least}")
    return number


# -- the body's fields ----------------------------------------------------------------------------------------------


def _table(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if not isinstance(value, dict | None):
        raise UsageError(f"{key} must be an object", because=f"it is {type(value).__name__}")
    return value or {}


def _entries(body: Mapping[str, Any], key: str, inner: str, kind: type[T], shape: str) -> list[T]:
    """The entries of ``{key: {inner: [...]}}``; Hadoop may write a single entry instead of the list."""
    found = body.get(key)
    if isinstance(found, dict) and inner in found:
        found = found[inner]
    listed: list[Any] = found if isinstance(found, list) else [found] if found else []
    if not all(isinstance(one, kind) for one in listed):
        raise UsageError(f"{key} must be {shape}")
    return listed


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{key} must be a string", because=f"it is {type(value).__name__}")
    if "\0" in value or len(value) > 65536:
        raise UsageError(f"{key} must be a string without NUL bytes, of at most 65536 characters")
    return value


def _flag(body: Mapping[str, Any], key: str) -> bool:
    value = body.get(key)
    if isinstance(value, bool) or value is None:
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise UsageError(f"{key} must be true or false")


def _whole(body: Mapping[str, Any], key: str, default: int, least: int = -LARGEST) -> int:
    value = body.get(key, default)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{key} must be a whole number", because=f"it is {type(value).__name__}")
    if not least <= value <= LARGEST:
        raise UsageError(f"{key} cannot be {value}", because=f"it is {least} to {LARGEST}")
    return value


def _resource(table: Mapping[str, Any]) -> Resource:
    return Resource(_whole(table, "memory", 1024, 1), _whole(table, "vCores", 1, 0), _information(table))


def _information(table: Mapping[str, Any]) -> Others:
    """The resource types in ``resourceInformations`` except memory and vcores."""
    each = _table(table, "resourceInformations").get("resourceInformation", [])
    amounts: dict[str, int] = {}
    for one in each if isinstance(each, list) else [each]:
        if not isinstance(one, dict) or not isinstance(name := one.get("name"), str):
            raise UsageError("each resourceInformation must be an object with a name and a value")
        if name not in (MEMORY_MB, VCORES):
            amounts[name] = _whole(one, "value", 0, 0)
    return counted(amounts)


def resource_of(body: Mapping[str, Any]) -> Resource:
    """The ``resource`` of a body, which must have memory and vcores. Raises UsageError."""
    table = _table(body, "resource") if "resource" in body else dict(body)
    if "memory" not in table or "vCores" not in table:
        raise UsageError("the body must have resource.memory (MB) and resource.vCores")
    return _resource(table)


def _environment(spec: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in _entries(spec, "environment", "entry", dict, "{entry: [{key, value}, …]}"):
        name, value = entry.get("key"), entry.get("value", "")
        if not isinstance(name, str):
            raise UsageError("environment must be {entry: [{key, value}, …]}")
        if not isinstance(value, str | int | float) or not _NAME.fullmatch(name):
            raise UsageError(f"environment: {name[:80]!r} is not a variable, or its value is not a string")
        found[name] = str(value)
    return found


def _command(spec: Mapping[str, Any]) -> str:
    command = " && ".join(_entries(spec, "commands", "command", str, "{command: text}"))
    if not command.strip():
        raise UsageError("am-container-spec.commands.command must contain a command")
    if "\0" in command:
        raise UsageError("the command has a NUL byte, which a shell cannot read")
    return command


def _timeout_ms(body: Mapping[str, Any]) -> int:
    seconds = 0
    for one in _entries(body, "application-timeouts", "timeout", dict, "{timeout: [{type, value}]}"):
        if str(one.get("type", "LIFETIME")).upper() != "LIFETIME":
            raise UsageError("an application has one kind of timeout: LIFETIME")
        seconds = _whole(one, "value", 0, 1)
    return seconds * 1000
