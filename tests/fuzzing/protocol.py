"""Targets: what comes over sockets, from callers, daemons and other clusters."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from multidict import MultiDict

from tests.fuzzing.target import Target, example, lines, of_document, text_of
from yarnopp_cli.client import documents
from yarnopp_cli.errors import InvalidTokenError, UsageError
from yarnopp_cli.machine import tokens
from yarnopp_cli.machine.tokens import CONTAINER_TOKEN
from yarnopp_cli.masters import submission
from yarnopp_cli.masters.commands import MASTER
from yarnopp_cli.records.requests import Token
from yarnopp_cli.rpc import codec, plain
from yarnopp_cli.rpc.methods import NM_METHODS, PROXY_METHODS, RM_METHODS
from yarnopp_cli.rpc.wire import Lines, WireError, response_of
from yarnopp_cli.web import queries
from yarnopp_cli.web.http import HttpError

METHODS = {**NM_METHODS, **PROXY_METHODS, **RM_METHODS}
REQUESTS = list(METHODS.values())
CALLS = [{"id": 1, "method": name, "params": example(kind)} for name, kind in METHODS.items()]
ERROR = {
    "code": -32000,
    "message": "m",
    "data": {"type": "UsageError", "because": "b", "hint": "h", "exit": 2},
}
ANSWERS = [
    *({"id": 1, "result": example(response_of(kind))} for kind in REQUESTS),
    {"id": 1, "error": ERROR},
]


def is_text(line: bytes) -> bool:
    """Whether it is UTF-8: msgspec does not look at the texts of unknown fields."""
    return "\ufffd" not in line.decode("utf-8", "replace")


def call(_: int, line: bytes) -> None:
    """A call is refused with a line that can be sent, or read as the clients' codec reads it, and it can be sent on."""
    try:
        call_id, request = codec.decode_call(line, METHODS)
    except WireError as error:
        json.loads(codec.encode_wire_error(error))
        return
    json.loads(codec.encode_response(call_id, request))
    if is_text(line):
        assert plain.decode(type(request), json.loads(line).get("params", {})) == request
    assert codec.decode_call(codec.encode_call(1, request), METHODS) == (1, request)


def answer(number: int, line: bytes) -> None:
    """What the daemons' codec reads, the clients' codec reads as the same."""
    calls: Any = {1: REQUESTS[number % len(REQUESTS)]}
    try:
        found = codec.decode_answer(line, calls)
    except WireError:
        found = None
    try:
        same = plain.decode_answer(line, calls)
    except WireError:
        same = None
    if found is not None and found.call_id in calls and is_text(line):
        assert same is not None and same.response == found.response
        assert repr(same.error) == repr(found.error) and type(same.error) is type(found.error)


def filters(data: bytes) -> None:
    request: Any = SimpleNamespace(query=MultiDict(parse_qsl(text_of(data), keep_blank_values=True)))
    readers: tuple[Callable[[], object], ...] = (
        lambda: queries.application_filter(request)[0],
        lambda: queries.latest(request, [1, 2]),
        lambda: queries.numbers(request, "numbers"),
        lambda: queries.grouped_by(request),
        lambda: queries.nodes_in(request.query.get("state", ""), ()),
        lambda: queries.chosen_nodes(request, (), "states"),
        lambda: queries.iso_ms(request.query.get("expiryTime", "")),
    )
    for read in readers:
        try:
            read()
        except HttpError as error:
            assert error.status in (400, 404)


def body(_: int, text: bytes) -> None:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(given, dict):
        return
    try:
        found = submission.read(given, shell_program="sh", max_preemptions=3)
    except UsageError:
        return
    json.loads(codec.encode(found.context))
    json.loads(codec.encode(found.job))


NODE = {
    "id": "node1:45454", "state": "RUNNING", "lastHealthUpdate": 1765400001000, "numContainers": 3,
    "usedMemoryMB": 3072, "availMemoryMB": 5120, "usedVirtualCores": 3, "availableVirtualCores": 5,
    "nodeLabels": ["gpu"], "totalResource": {"memory": 8192, "vCores": 8},
    "resourceUtilization": {"nodePhysicalMemoryMB": 4000, "nodeCPUUsage": 1.5, "containersCPUUsage": "NaN"},
}  # fmt: skip
APPLICATION = {
    "id": "application_1765400000000_0007", "state": "RUNNING", "finalStatus": "UNDEFINED", "progress": 42.5,
    "applicationTags": "a,b", "startedTime": 1765400001000, "amHostHttpAddress": "node1:8042", "allocatedMB": 2048,
    "yopp": {"containers": {}, "summary": {}},
}  # fmt: skip
QUEUES = {
    "scheduler": {"schedulerInfo": {
        "type": "capacityScheduler", "capacity": 100.0, "queueName": "root",
        "resourcesUsed": {"memory": 1, "vCores": 1},
        "queues": {"queue": [{"queueName": "a", "capacity": 40, "users": {"user": [{"username": "ada"}]}}]},
    }},
}  # fmt: skip
CONTAINER = {
    "id": "container_1765400000000_0001_01_000002", "state": "RUNNING", "totalMemoryNeededMB": 1024,
    "totalVCoresNeeded": 1, "nodeId": "node1:45454", "containerLogFiles": ["stdout"], "user": "ada",
    "executionType": "OPPORTUNISTIC", "exitCode": -1000,
}  # fmt: skip
LOGS = {"containerLogsInfo": [{"containerLogInfo": [{"fileName": "stdout", "fileSize": "3"}]}]}
READERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (APPLICATION, documents.application),
    (NODE, documents.node),
    (CONTAINER, documents.container),
    (QUEUES, documents.queues),
    (LOGS, documents.log_files),
    ({"appAttemptId": "appattempt_1765400000000_0001_000001", "startTime": 1, "finishedTime": 2},
     lambda one: documents.attempt(one, "application_1765400000000_0001")),
]  # fmt: skip


def assert_within(found: bytes, data: bytes) -> None:
    assert found in data


def document(number: int, text: bytes) -> None:
    """The documents of a YARN cluster. Refused by ValueError; what is read can be sent."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict):
        try:
            found = READERS[number][1](given)
        except ValueError:
            return
        json.loads(codec.encode(found))


COMMAND = {"application-id": "application_1765400000000_0001", "application-name": "n", "queue": "q", "priority": 1,
    "am-container-spec": {"commands": {"command": "sleep 1"}, "environment": {"entry": [{"key": "A", "value": "b"}]}},
    "unmanaged-AM": False, "max-app-attempts": 2, "resource": {"memory": 1024, "vCores": 1, "resourceInformations":
    {"resourceInformation": [{"name": "gpu", "value": 1}]}}, "application-type": "YARN",
    "keep-containers-across-application-attempts": "false", "application-tags": {"tag": ["a"]},
    "application-timeouts": {"timeout": [{"type": "LIFETIME", "value": "60"}]}}  # fmt: skip
SHELL = {"application-id": "application_1765400000000_0001", "am-container-spec": {"commands": {"command":
    "printf '%b' '\\0000\\0002ls' > shellCommands; printf '%s' -l > shellArgs && {{JAVA_HOME}}/bin/java "
    f"{MASTER} --container_type OPPORTUNISTIC --container_memory 32 --num_containers 4 --priority 5 "
    "--container_resources memory-mb=1,gpu=1 --shell_env A=1 --container_retry_policy 2 "
    "--container_retry_error_codes 1,75 1><LOG_DIR>/o 2><LOG_DIR>/e"}}}  # fmt: skip


def shell(data: bytes) -> None:
    """The command line of Hadoop's master."""
    body(0, json.dumps({**SHELL, "am-container-spec": {"commands": {"command": text_of(data)}}}).encode())


def pieces(data: bytes) -> None:
    """The lines of a connection, in whatever pieces they arrive: their length is before each."""
    arrived, reader, found = b"", Lines(limit=50), list[bytes]()
    while data and not reader.too_long:
        piece, data = data[1 : data[0] + 1], data[data[0] + 1 :]
        arrived += piece
        found += reader.add(piece)
    *whole, rest = arrived.split(b"\n")
    assert found == whole[: len(found)] and all(len(one) <= 50 for one in found)
    if reader.too_long:
        assert len([*whole, rest][len(found)]) > 50
    else:
        assert found == whole and reader.begun == len(rest)


def token(data: bytes) -> None:
    """A forged token: kind, text and signature on a line each."""
    kind, identifier, password, *_ = *text_of(data).split("\n"), "", "", ""
    try:
        tokens.verify(b"k" * 32, Token(kind, identifier, password), CONTAINER_TOKEN, now_ms=5)
    except InvalidTokenError as error:
        assert error.message
    else:
        raise AssertionError("it was taken for genuine")


TARGETS = {
    "pieces": Target(pieces, (b"\3ab\n\2cd\1\n", b"\4a\nb\n" + b"\60" + b"x" * 48 + b"\5yyyy\n")),
    "token": Target(token, (b'ContainerToken\n{"expires_ms":9}\nab', b"AMRMToken\n{}\n")),
    "log_text": Target(
        lambda data: assert_within(documents.log_text(data), data),
        lines(
            "Container: c1 on h_1\nLogAggregationType: LOCAL\n====\nLogType:stdout\nLogLength:3\nLogContents:\nabc\n"
            "End of LogType:stdout\n"
        ),
        ("LogLength:", "LogContents:\n", "End of LogType:", "Container: "),
    ),
    "call": of_document(call, CALLS),
    "call_bytes": Target(lambda data: call(0, data), tuple(json.dumps(one).encode() for one in CALLS[:9])),
    "answer": of_document(answer, ANSWERS),
    "answer_bytes": Target(
        lambda data: answer(0, data), tuple(json.dumps(one).encode() for one in ANSWERS[:9])
    ),
    "filters": Target(
        filters,
        lines(
            "states=RUNNING,finished&finalStatus=FAILED&queue=q&user=u&applicationTags=a,b&limit=3",
            "startedTimeBegin=1&startedTimeEnd=2&finishedTimeBegin=3&groupBy=diagnostic&numbers=1,-2",
            "state=lost&expiryTime=2026-11-22T05:26:35.987%2B0000",
            "expiryTime=unlimited&states=NEW",
        ),
    ),
    "body": of_document(body, [COMMAND, SHELL]),
    "shell": Target(
        shell,
        lines(SHELL["am-container-spec"]["commands"]["command"]),  # type: ignore[index]
        (
            "printf '%b' '",
            "shellCommands",
            "\\0355\\0240",
            "--container_retry_error_codes ",
            MASTER,
        ),
    ),
    "document": of_document(document, [one for one, _ in READERS]),
}
