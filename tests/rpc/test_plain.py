"""The stdlib conversion of messages agrees with msgspec's on every message type, and names what is wrong."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.light import Record
from executor.records import ContainerState, ExecutionType, Resource
from yarnopp_cli.errors import UsageError
from yarnopp_cli.records import (
    client_protocol,
    container_protocol,
    job_protocol,
    master_protocol,
    tracker_protocol,
)
from yarnopp_cli.records.client_protocol import KillApplicationRequest
from yarnopp_cli.records.jobs import JobSpec, TaskSpec
from yarnopp_cli.records.reports import ApplicationReport, ContainerReport, JobSummary, NodeReport
from yarnopp_cli.records.requests import ContainerLaunchContext, ResourceRequest
from yarnopp_cli.rpc.methods import methods_of
from yarnopp_cli.rpc.plain import MessageError, decode, decode_answer, encode, encode_call
from yarnopp_cli.rpc.wire import WireError, response_of

PROTOCOLS = (client_protocol, job_protocol, container_protocol, master_protocol, tracker_protocol)
REQUESTS = methods_of(*PROTOCOLS).values()
MESSAGES = [*REQUESTS, *(response_of(kind) for kind in REQUESTS), JobSpec]

_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float),
    bool: st.booleans(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for values of one annotation."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = {item.name: values_of(hints[item.name]) for item in dataclasses.fields(hint)}
        return st.builds(hint, **fields)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.none() | values_of(next(item for item in arguments if item is not type(None)))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    raise AssertionError(f"no strategy for {hint!r}")


class Nodes(Record):
    """Many nodes."""

    found: tuple[NodeReport, ...]


class Containers(Record):
    """Many containers."""

    found: tuple[ContainerReport, ...]


class Applications(Record):
    """Many applications."""

    found: tuple[ApplicationReport, ...]


class Tasks(Record):
    """Many tasks."""

    found: tuple[TaskSpec, ...]


Many: dict[str, Any] = {
    "NodeReport": Nodes, "ContainerReport": Containers, "ApplicationReport": Applications, "TaskSpec": Tasks
}  # fmt: skip


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_it_agrees_with_msgspec_on_every_message(kind: type) -> None:
    @settings(max_examples=8, deadline=None, database=None)
    @given(values_of(kind))
    def agree(message: Any) -> None:
        text = json.dumps(encode(message))
        assert msgspec.json.decode(text, type=kind) == message
        assert decode(kind, json.loads(msgspec.json.encode(message))) == message
        assert encode(message) == msgspec.to_builtins(message, builtin_types=()) or json.loads(
            text
        ) == json.loads(msgspec.json.encode(message))

    agree()


@pytest.mark.parametrize("kind", [NodeReport, ContainerReport, ApplicationReport, TaskSpec])
def test_many_are_read_as_one_is(kind: type) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(values_of(kind), st.data())
    def same(message: Any, data: st.DataObject) -> None:
        plain_form = json.loads(json.dumps(encode(message)))
        bent = data.draw(st.sampled_from([None, *plain_form]))
        bent_form = {name: value for name, value in plain_form.items() if name != bent}
        for form in (
            plain_form,
            bent_form,
            {**plain_form, str(bent): []},
            {**plain_form, str(bent): 1},
            None,
        ):
            try:
                one: Any = decode(kind, form)
            except MessageError as error:
                with pytest.raises(MessageError) as many:
                    decode(Many[kind.__name__], {"found": [form] * 60})
                assert many.value.because == error.because.replace("at $", "at $.found[0]")
            else:
                assert decode(Many[kind.__name__], {"found": [plain_form] * 60 + [form]}).found[-1] == one

    same()


def test_missing_fields_are_defaults_and_unknown_ones_are_ignored() -> None:
    request = decode(
        ResourceRequest, {"num_containers": 3, "capability": {"memory": 5, "vcores": 1}, "new": 1}
    )
    assert request == ResourceRequest(3, Resource(5, 1))
    assert decode(JobSummary, {}) == JobSummary()


def test_types_are_converted_as_declared() -> None:
    context = decode(ContainerLaunchContext, {"command": ["a"], "environment": {"K": "v"}})
    assert context.command == ("a",) and context.environment == {"K": "v"}
    request = decode(master_protocol.AllocateRequest, {"attempt_id": "a", "token": token(), "progress": 1})
    assert isinstance(request.progress, float)


def token() -> dict[str, str]:
    return {"kind": "k", "identifier": "i", "password": "p"}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (ResourceRequest, [], "an object at $,"),
        (ResourceRequest, {"num_containers": 1}, "'capability'"),
        (
            ResourceRequest,
            {"num_containers": "1", "capability": {}},
            "an integer at $.num_containers, found a string",
        ),
        (ResourceRequest, {"num_containers": True, "capability": {}}, "an integer at $.num_containers"),
        (ResourceRequest, {"num_containers": 1.0, "capability": {}}, "an integer at $.num_containers"),
        (ResourceRequest, {"num_containers": 1, "capability": {"memory": None}}, "at $.capability.memory"),
        (ContainerLaunchContext, {"command": "ls"}, "an array at $.command"),
        (ContainerLaunchContext, {"command": ["a", 2]}, "a string at $.command[1]"),
        (ContainerLaunchContext, {"command": [], "environment": {"A": 1}}, "a string at $.environment['A']"),
        (job_protocol.GetApplicationsRequest, {"states": ["RUNNING", "GONE"]}, "at $.states[1]"),
        (job_protocol.GetApplicationsRequest, {"live_only": 1}, "true or false at $.live_only"),
        (
            master_protocol.AllocateRequest,
            {"attempt_id": "", "token": token(), "progress": "x"},
            "a number at $.progress",
        ),
        (
            master_protocol.AllocateRequest,
            {"attempt_id": "", "token": token(), "progress": 10**400},
            "a number at $.progress",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(kind: type, value: Any, expected: str) -> None:
    with pytest.raises(MessageError) as caught:
        decode(kind, value)
    assert expected in caught.value.because
    assert kind.__name__ in caught.value.message
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, kind)


def test_enums_travel_by_value() -> None:
    assert encode(ContainerState.PAUSED) == "PAUSED"
    assert type(encode(ExecutionType.OPPORTUNISTIC)) is str


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"id":1,"result":' + b"[" * 100_000, b"\xff", b"[]"])
def test_a_line_that_is_no_answer_is_refused_however_deep_it_is(line: bytes) -> None:
    with pytest.raises(WireError):
        decode_answer(line, {})


@pytest.mark.parametrize("name", ["caf\udce9", "\udcff \U0001f600", "half a pair: \ud800"])
def test_text_of_other_bytes_is_refused_by_its_name(name: str) -> None:
    request = KillApplicationRequest("application_1_0001", name)
    with pytest.raises(UsageError) as refused:
        encode_call(1, request)
    assert refused.value.message == f"{name!a} is not UTF-8"


def test_text_beyond_ascii_arrives() -> None:
    line = encode_call(1, KillApplicationRequest("application_1_0001", 'caf\u00e9 "\U0001f600"'))
    assert json.loads(line)["params"]["diagnostics"] == 'caf\u00e9 "\U0001f600"'
