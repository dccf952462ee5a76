"""Requests and grants: YARN's resource requests, containers, tokens, launch contexts and updates; the tasks
of a MapReduce job.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from executor.light import QuickEnum, Record, field, replace
from executor.records import ExecutionType, Resource

from ..errors import UsageError
from .times import timestamp

ANY = "*"
"""The resource name that means any node (``ResourceRequest.ANY``)."""


class ExecutionTypeRequest(Record):
    """The type asked for; with ``enforce`` the scheduler must give exactly that type (YARN-5180)."""

    execution_type: ExecutionType = ExecutionType.GUARANTEED
    enforce: bool = False


class ResourceRequest(Record):
    """An ask for ``num_containers`` containers of one size (YARN's record).

    As in YARN, an ask for ``*`` *replaces* the outstanding number for its key (priority,
    allocation_request_id, execution type, capability). A smaller ``priority`` is more important.
    ``resource_name`` is ``*``, a host, a node id (host:port), or a rack beginning with ``/``.
    ``duration_hint_ms`` is the expected running time, 0 for unknown; ``age_ms`` how long the work already
    waited in earlier containers (shed or preempted).
    """

    num_containers: int
    capability: Resource
    priority: int = 0
    resource_name: str = ANY
    relax_locality: bool = True
    execution_type_request: ExecutionTypeRequest = ExecutionTypeRequest()
    allocation_request_id: int = 0
    node_label_expression: str = ""
    duration_hint_ms: int = 0
    age_ms: int = 0


class Token(Record):
    """A signed statement. ``kind`` is YARN's token kind, ``identifier`` JSON text, ``password`` hex of its HMAC."""

    kind: str
    identifier: str
    password: str


class Container(Record):
    """A granted container (YARN's record). ``node_address`` is the address on which its NM listens: ``unix:/path`` or
    host:port."""

    id: str
    node_id: str
    node_address: str
    resource: Resource
    token: Token = Token("", "", "")
    priority: int = 0
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    allocation_request_id: int = 0
    version: int = 0
    node_http_address: str = ""


class ContainerLaunchContext(Record):
    """The launch context of a granted container; the fields mean the same as in ``executor.records.ContainerSpec``."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    timeout_ms: int = 0
    duration_hint_ms: int = 0
    own_account: bool = False
    umask: int = -1

    def for_task(
        self,
        number_variable: str,
        number: int,
        arguments: tuple[str, ...],
        duration_hint_ms: int,
        variables: Mapping[str, str],
    ) -> ContainerLaunchContext:
        """This context with one task's own part: arguments after the command, ``variables``, and its number in the
        variable ``number_variable``, if that has a name.
        """
        environment = self.environment
        if number_variable:
            environment = {**environment, number_variable: str(number), **variables}
        command = self.command + arguments
        return replace(self, command=command, environment=environment, duration_hint_ms=duration_hint_ms)


class ContainerUpdateType(enum.StrEnum, metaclass=QuickEnum):
    """YARN's kinds of update of a granted container."""

    INCREASE_RESOURCE = "INCREASE_RESOURCE"
    DECREASE_RESOURCE = "DECREASE_RESOURCE"
    PROMOTE_EXECUTION_TYPE = "PROMOTE_EXECUTION_TYPE"
    DEMOTE_EXECUTION_TYPE = "DEMOTE_EXECUTION_TYPE"


class UpdateContainerRequest(Record):
    """An ask to change a granted container; ``capability`` for resizes, ``execution_type`` for type changes."""

    container_id: str
    container_version: int
    update_type: ContainerUpdateType
    capability: Resource | None = None
    execution_type: ExecutionType | None = None


class UpdatedContainer(Record):
    """A changed container, with its new token."""

    update_type: ContainerUpdateType
    container: Container


class UpdateContainerError(Record):
    """A refused update; ``reason`` is YARN's error word, ``current_version`` -1 for an unknown container."""

    reason: str
    request: UpdateContainerRequest
    current_version: int = -1


AFTER = {"ok": "to succeed", "failed": "to fail", "any": "to end"}
"""The conditions on another application's end, and each in words."""
OK, FAILED, ANY_END = AFTER
MOST_NAMED = 5
"""The number of applications named in a sentence about those that another one waits for."""
MOST_TAGS = 10
"""The maximum number of tags of an application (``ApplicationSubmissionContextPBImpl``)."""


def waits_for(begin_at_ms: int, after: Sequence[str], now_ms: int) -> str:
    """What an application that has not begun waits for: ``waits for 2026-01-31T18:00:00.000Z``."""
    parts = []
    if begin_at_ms > now_ms:
        parts.append(f"for {timestamp(begin_at_ms)}")
    for one in after[:MOST_NAMED]:
        parent, _, condition = one.rpartition(":")
        parts.append(f"for {parent} {AFTER.get(condition, condition)}")
    if len(after) > MOST_NAMED:
        parts.append(f"for {len(after) - MOST_NAMED:,} others")
    return f"waits {' and '.join(parts) or 'to begin'}"


def never_after(one: str, how: str) -> str:
    """Why an application can never begin that waits for ``one`` (``ID:condition``), which has ended OK, FAILED, or in
    another way; "" if it can.
    """
    parent, _, condition = one.rpartition(":")
    if condition in (ANY_END, how):
        return ""
    did = {OK: "has succeeded", FAILED: "has failed"}.get(how, "is no longer known")
    return f"{parent} {did}, and it waited for that {AFTER[condition]}"


class ApplicationSubmissionContext(Record):
    """An application to be run (YARN's record).

    ``unmanaged`` means that its ApplicationMaster runs in the client, which gets the AM's token with the
    answer; then ``am_container_spec`` is None and the application ends when that client's connection is lost.
    ``timeout_ms`` bounds the whole application's running time, 0 for none. ``command_line`` is what the user
    typed, for listings. ``map_reduce`` is set for a MapReduce job.

    yopp's own: the application does not begin before ``begin_at_ms`` (epoch, 0 for at once), nor before each condition
    in ``after``, ``ID:CONDITION``, is met: another application has succeeded (``ok``), failed (``failed``) or ended
    (``any``). A condition that is met is removed. ``deadline_at_ms`` is the time when the application is ended, begun
    or not, 0 for never. ``results`` is the file to which the command of a task writes its output (``yopp run
    --results``), with the marks of tasks and ``{job}``; "" if output goes to the logs. ``key`` identifies the
    submission, and its client makes it: the RM, also after a restart, answers the same key with the same application.
    """

    application_id: str
    name: str
    user: str = ""
    application_type: str = "YARN"
    queue: str = "default"
    priority: int = 0
    unmanaged: bool = False
    am_container_spec: ContainerLaunchContext | None = None
    am_resource: Resource = Resource(128, 0)
    max_attempts: int = 0
    tags: tuple[str, ...] = ()
    timeout_ms: int = 0
    keep_containers_across_attempts: bool = False
    node_label_expression: str = ""
    command_line: str = ""
    map_reduce: MapReduceJob | None = None
    begin_at_ms: int = 0
    after: tuple[str, ...] = ()
    deadline_at_ms: int = 0
    results: str = ""
    key: str = ""


def check_deadline(begin_at_ms: int, deadline_at_ms: int, now_ms: int) -> None:
    """Raise UsageError for a job without any time to run; 0 stands for no deadline, and for now."""
    if deadline_at_ms and deadline_at_ms <= max(now_ms, begin_at_ms):
        raise UsageError(
            "the deadline is in the past" if deadline_at_ms <= now_ms else "the job would never begin",
            because="the deadline must be in the future and after the time at which the job begins",
            hint="--deadline +2h",
        )


class JobProperty(Record):
    """A property as the job used it. ``source`` is the source of its value: "-D", "file:line", "default", …"""

    name: str
    value: str
    source: str = ""


class MapReduceJob(Record):
    """A job as submitted. Each map reads one record and writes ``outputs_per_map`` numbers; the reduces read all."""

    maps: int
    reduces: int = 1
    outputs_per_map: int = 0
    map_attempts: int = 1
    reduce_attempts: int = 1
    properties: tuple[JobProperty, ...] = ()


class TaskAssignment(Record):
    """Assigns a container to a task, whose ``index`` counts from 0 among the maps or among the reduces."""

    container_id: str
    index: int
    is_reduce: bool = False
