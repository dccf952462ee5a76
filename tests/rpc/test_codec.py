"""The daemons' codec: every message there and back, and faults that name their place."""

from __future__ import annotations

import enum
import json
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.errors import REMOTE_ERRORS, ApplicationNotFoundError, RemoteError, YoppError
from yarnopp_cli.records.client_protocol import (
    ApplicationResponse,
    GetClusterNodesRequest,
    KillApplicationRequest,
)
from yarnopp_cli.records.container_protocol import StopContainersRequest, StopContainersResponse
from yarnopp_cli.records.master_protocol import AllocateRequest
from yarnopp_cli.records.requests import ResourceRequest, Token
from yarnopp_cli.rpc import codec
from yarnopp_cli.rpc.methods import NM_METHODS, RM_METHODS
from yarnopp_cli.rpc.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    WireError,
    response_of,
)

METHODS = {**RM_METHODS, **NM_METHODS}


def messages(kind: type) -> st.SearchStrategy[Any]:
    """Any instance of a record."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{item.name: values(hints[item.name]) for item in fields(kind)})


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type: every text but lone surrogates, and integers of 64 bits."""
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    arguments = get_args(hint)
    if get_origin(hint) is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values, arguments))
    if get_origin(hint) is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if arguments:
        return st.one_of(*(values(argument) for argument in arguments))
    if issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    return messages(hint)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_message_comes_back_as_it_was(method: str, data: st.DataObject) -> None:
    kind = METHODS[method]
    request = data.draw(messages(kind))
    line = codec.encode_call(7, request)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert codec.decode_call(line[:-1], METHODS) == (7, request)
    response = data.draw(messages(response_of(kind)))
    answer = codec.decode_answer(codec.encode_response(7, response)[:-1], {7: kind})
    assert (answer.call_id, answer.response, answer.error) == (7, response, None)


def test_the_tables_have_no_method_in_common() -> None:
    assert not RM_METHODS.keys() & NM_METHODS.keys()
    assert len(METHODS) == len(RM_METHODS) + len(NM_METHODS)


def test_the_wire_looks_as_documented() -> None:
    line = codec.encode_call(7, StopContainersRequest(("c1",)))
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "stopContainers",
        "params": {"container_ids": ["c1"], "exit_status": -105, "diagnostics": "", "by_person": False},
    }
    assert json.loads(codec.encode_response(7, StopContainersResponse(("c1",)))) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {"stopped": ["c1"], "failed": []},
    }
    error = ApplicationNotFoundError("no such application", because="b", hint="h")
    assert json.loads(codec.encode_error("x", error)) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {
            "code": -32000,
            "message": "no such application",
            "data": {
                "type": "ApplicationNotFoundError",
                "exception": "ApplicationNotFoundException",
                "because": "b",
                "hint": "h",
                "exit": 66,
            },
        },
    }


@pytest.mark.parametrize("kind", REMOTE_ERRORS.values())
def test_every_error_travels_whole(kind: type[YoppError]) -> None:
    error = kind("what", because="why", hint="what to type", exit_code=42)
    answer = codec.decode_answer(codec.encode_error(3, error), {3: AllocateRequest})
    assert type(answer.error) is kind
    assert answer.error is not None
    assert (answer.error.message, answer.error.because, answer.error.hint) == ("what", "why", "what to type")
    assert answer.error.exit_code == 42


def test_an_error_of_a_later_version_is_a_remote_error() -> None:
    line = b'{"id":1,"error":{"code":-32000,"message":"m","data":{"type":"NewError","exit":"many"}}}'
    error = codec.decode_answer(line, {1: AllocateRequest}).error
    assert type(error) is RemoteError
    assert error.message == "m"


def refused(line: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        codec.decode_call(line, METHODS)
    return caught.value


@pytest.mark.parametrize(
    ("line", "code", "call_id"),
    [
        (b"", PARSE_ERROR, None),
        (b"hello", PARSE_ERROR, None),
        (b"{", PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b'{"id":1,"method":"\xed\xa0\x80"}', PARSE_ERROR, None),
        (b'{"id":1,"method":"allocate"} x', PARSE_ERROR, None),
        (b'{"id":1,"method":"a","params":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}", PARSE_ERROR, None),
        (b'{"id":5,"method":"stopContainers","params":{"exit_status":NaN}}', PARSE_ERROR, 5),
        (b'{"id":"five","method":"allocate","params":[-Infinity]}', PARSE_ERROR, "five"),
        (b"[]", INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b'{"method":"allocate"}', INVALID_REQUEST, None),
        (b'{"id":null,"method":"allocate"}', INVALID_REQUEST, None),
        (b'{"id":1.5,"method":"allocate"}', INVALID_REQUEST, None),
        (b'{"id":true,"method":"allocate"}', INVALID_REQUEST, None),
        (b'{"id":4}', INVALID_REQUEST, 4),
        (b'{"id":4,"method":7}', INVALID_REQUEST, 4),
        (b'{"id":"four","method":[]}', INVALID_REQUEST, "four"),
        (b'{"id":4,"method":"dance"}', METHOD_NOT_FOUND, 4),
        (b'{"id":4,"method":"stopContainers"}', INVALID_PARAMS, 4),
        (b'{"id":4,"method":"stopContainers","params":[1]}', INVALID_PARAMS, 4),
        (b'{"id":4,"method":"stopContainers","params":null}', INVALID_PARAMS, 4),
        (b'{"id":4,"method":"stopContainers","params":{"container_ids":"c1"}}', INVALID_PARAMS, 4),
    ],
)
def test_what_is_no_call_is_refused_by_jsonrpcs_code(line: bytes, code: int, call_id: object) -> None:
    error = refused(line)
    assert (error.code, error.call_id) == (code, call_id)
    assert json.loads(codec.encode_wire_error(error))["error"]["code"] == code


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"container_ids": ["a", 5]}, "$.params.container_ids[1]"),
        ({"container_ids": [], "exit_status": "x"}, "$.params.exit_status"),
        ({"container_ids": [], "exit_status": 1.5}, "$.params.exit_status"),
        ({"container_ids": [], "exit_status": 10**30}, "$.params.exit_status"),
        ({"container_ids": [], "exit_status": -(2**63) - 1}, "$.params.exit_status"),
        ({}, "container_ids"),
    ],
)
def test_a_wrong_parameter_is_named(params: dict[str, object], says: str) -> None:
    line = json.dumps({"id": 1, "method": "stopContainers", "params": params}).encode()
    error = refused(line)
    assert error.code == INVALID_PARAMS
    assert "stopContainers" in error.message
    assert says in error.message


def test_huge_integers_are_found_however_deep_they_are() -> None:
    request = AllocateRequest("a", Token("", "", ""), asks=(ResourceRequest(1, Resource(10**20, 1)),))
    error = refused(codec.encode_call(1, request))
    assert "$.params.asks[0].capability.memory" in error.message
    large = AllocateRequest("a", Token("", "", ""), asks=(ResourceRequest(1, Resource(2**62, 1)),))
    assert codec.decode_call(codec.encode_call(1, large), METHODS)[1] == large


@pytest.mark.parametrize(
    ("text", "suspicious"),
    [
        (b'{"cpu_seconds":0.0012999999999999956}', False),
        (b"[-0.00012345678901234567890,1e5]", False),
        (b"[12345678901234567890]", True),
        (b"[1.5,-12345678901234567890]", True),
        (b"[0.5,12345678901234567890.5]", True),
        (b"[0.12345678901234567890,0.5,12345678901234567890]", True),
        (b"0.12345678901234567890", False),
        (b"12345678901234567890", True),
    ],
)
def test_only_what_may_be_a_huge_integer_is_searched_for_one(text: bytes, suspicious: bool) -> None:
    assert codec._has_many_digits(text) is suspicious


def test_unknown_fields_are_those_of_a_later_version_and_are_passed_over() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"getClusterNodes","params":{"new":[1]},"more":{}}'
    assert codec.decode_call(line, METHODS) == (1, GetClusterNodesRequest())


def test_text_that_was_never_utf8_does_not_keep_an_answer_from_leaving() -> None:
    line = codec.encode_response(1, StopContainersResponse(("caf\udce9",)))
    assert json.loads(line)["result"]["stopped"] == ["caf?"]
    error = codec.encode_error(2, RemoteError("\udcff is no command"))
    assert json.loads(error)["error"]["message"] == "? is no command"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"id":1}',
        b'{"id":9,"result":{}}',
        b'{"id":1,"result":{"application":5}}',
        b'{"id":1,"result":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
        b'{"id":1,"error":"no"}',
    ],
)
def test_what_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode_answer(line, {1: KillApplicationRequest})


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(line: bytes) -> None:
    for decode in (
        lambda line: codec.decode_call(line, METHODS),
        lambda line: codec.decode_answer(line, {1: AllocateRequest}),
    ):
        try:
            decode(line)
        except WireError as error:
            assert error.message


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(call_id=json_values, method=st.sampled_from(sorted(METHODS)), data=st.data())
def test_no_json_raises_anything_else(call_id: object, method: str, data: st.DataObject) -> None:
    names = [item.name for item in fields(METHODS[method])]
    keys = st.sampled_from([*names, "unknown"])
    params = data.draw(st.dictionaries(keys, json_values, max_size=4))
    line = json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}).encode()
    try:
        codec.decode_call(line, METHODS)
    except WireError as error:
        assert error.code in (INVALID_REQUEST, INVALID_PARAMS)


def test_an_answer_without_an_application_names_the_method() -> None:
    with pytest.raises(WireError, match="forceKillApplication"):
        codec.decode_answer(b'{"id":1,"result":{}}', {1: KillApplicationRequest})
    assert ApplicationResponse.__name__ == "ApplicationResponse"
