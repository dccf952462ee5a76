"""The blocking connection against a peer that answers late, wrongly, in another order, or not at all."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    RemoteError,
    YoppError,
)
from yarnopp_cli.records.client_protocol import (
    GetNewApplicationRequest,
    GetQueueInfoRequest,
    GetQueueInfoResponse,
    KillApplicationRequest,
)
from yarnopp_cli.records.job_protocol import GetApplicationsRequest, GetApplicationsResponse
from yarnopp_cli.rpc.blocking import Connection
from yarnopp_cli.rpc.plain import MessageError
from yarnopp_cli.rpc.wire import MAX_LINE_BYTES

Script = Callable[[socket.socket], None]


class Peer:
    """A listening socket whose one client is served by a script in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads: list[threading.Thread] = []

    def serve(self, script: Script) -> str:
        """Serve the next client with this; returns the address."""

        def run() -> None:
            client, _ = self._listener.accept()
            with client:
                client.settimeout(10)
                script(client)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)
        return f"unix:{self.path}"

    def close(self) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    made = Peer(tmp_path / "rm.sock")
    yield made
    made.close()


def read_calls(client: socket.socket, count: int) -> list[dict[str, Any]]:
    stream = client.makefile("rb")
    return [json.loads(stream.readline()) for _ in range(count)]


def answer(client: socket.socket, call: dict[str, Any], result: Any) -> None:
    client.sendall(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode() + b"\n")


def refuse(client: socket.socket, call: dict[str, Any], data: Any) -> None:
    error = {"code": -32000, "message": "no such thing", "data": data}
    client.sendall(json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error}).encode() + b"\n")


def test_a_call_carries_its_request_and_gives_the_response(peer: Peer) -> None:
    seen: list[dict[str, Any]] = []

    def script(client: socket.socket) -> None:
        seen.extend(read_calls(client, 1))
        answer(client, seen[0], {"applications": []})

    with Connection(peer.serve(script)) as connection:
        response = connection.call(GetApplicationsRequest(queue="default"))
    assert response == GetApplicationsResponse(())
    assert seen[0]["jsonrpc"] == "2.0" and seen[0]["method"] == "getApplications"
    assert seen[0]["params"]["queue"] == "default" and seen[0]["params"]["states"] == []


def test_answers_in_another_order_and_in_pieces_find_their_calls(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        first, second = read_calls(client, 2)
        text = json.dumps({"id": second["id"], "result": {"queues": []}}) + "\n"
        text += json.dumps({"id": first["id"], "result": {"applications": []}}) + "\n"
        for byte in text.encode():
            client.send(bytes([byte]))

    with Connection(peer.serve(script)) as connection:
        first = connection.send(GetApplicationsRequest())
        # the later call's answer is waited for; the earlier one's is kept for receive()
        assert connection.call(GetQueueInfoRequest()) == GetQueueInfoResponse(())
        answers: list[tuple[int, Any]] = []
        while not answers:
            if not connection.has_answers:
                assert select.select([connection], [], [], 10)[0]
            answers = connection.receive()
        assert answers == [(first, GetApplicationsResponse(()))]


def test_errors_come_back_as_what_they_were(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        known, unknown, bare = read_calls(client, 3)
        refuse(client, known, {"type": "ApplicationNotFoundError", "because": "b", "hint": "h", "exit": 66})
        refuse(client, unknown, {"type": "OfAnotherVersion", "exit": 9})
        refuse(client, bare, None)

    with Connection(peer.serve(script)) as connection:
        ids = [connection.send(KillApplicationRequest("a")) for _ in range(3)]
        got: dict[int, YoppError] = {}
        while len(got) < 3:
            select.select([connection], [], [], 10)
            got.update(connection.receive())
    error = got[ids[0]]
    assert type(error) is ApplicationNotFoundError
    assert (error.message, error.because, error.hint, error.exit_code) == ("no such thing", "b", "h", 66)
    assert type(got[ids[1]]) is RemoteError and got[ids[1]].exit_code == 9
    assert type(got[ids[2]]) is RemoteError


def test_what_came_before_the_end_is_given_before_the_end(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        call = read_calls(client, 1)[0]
        answer(client, call, {"queues": []})

    with Connection(peer.serve(script)) as connection:
        call_id = connection.send(GetQueueInfoRequest())
        got: list[tuple[int, Any]] = []
        with pytest.raises(ConnectionFailedError) as caught:
            while True:
                select.select([connection], [], [], 10)
                got += connection.receive()
        assert got == [(call_id, GetQueueInfoResponse(()))]
        assert "lost the connection" in caught.value.message and caught.value.exit_code == 69
        with pytest.raises(ConnectionFailedError):
            connection.call(GetQueueInfoRequest())


def test_a_wrong_answer_is_an_error_and_not_a_value(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        answer(client, read_calls(client, 1)[0], {"queues": "none"})

    with Connection(peer.serve(script)) as connection, pytest.raises(MessageError) as caught:
        connection.call(GetQueueInfoRequest())
    assert "$.queues" in caught.value.because


def test_what_is_no_json_ends_the_connection(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        read_calls(client, 1)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with Connection(peer.serve(script)) as connection, pytest.raises(ConnectionFailedError) as caught:
        connection.call(GetQueueInfoRequest())
    assert "not JSON" in caught.value.because


def test_a_peer_that_never_answers_is_given_up(peer: Peer) -> None:
    done = threading.Event()

    def script(client: socket.socket) -> None:
        read_calls(client, 1)
        done.wait(10)

    with Connection(peer.serve(script)) as connection, pytest.raises(ConnectionFailedError) as caught:
        connection.call(GetNewApplicationRequest(), timeout=0.05)
    done.set()
    assert "within 0.05 s" in caught.value.message


def test_large_calls_and_answers_at_once_do_not_block_each_other(peer: Peer) -> None:
    size = 3_000_000

    def script(client: socket.socket) -> None:
        # answers before it reads on: with both pipes full, neither side may wait for the other for ever
        stream = client.makefile("rb")
        first = json.loads(stream.readline())
        client.sendall(
            json.dumps({"id": first["id"], "result": {"queues": [], "pad": "x" * size}}).encode() + b"\n"
        )
        second = json.loads(stream.readline())
        answer(client, second, {"queues": [], "length": len(second["params"]["queue"])})

    with Connection(peer.serve(script)) as connection:
        connection.send(GetQueueInfoRequest())
        connection.send(GetQueueInfoRequest(queue="y" * size))
        got: list[tuple[int, Any]] = []
        while len(got) < 2:
            select.select([connection], [], [], 10)
            got += connection.receive()
    assert all(isinstance(item, GetQueueInfoResponse) for _, item in got)


def test_a_call_over_the_line_limit_is_refused_here(peer: Peer) -> None:
    def script(client: socket.socket) -> None:
        answer(client, read_calls(client, 1)[0], {"queues": []})

    with Connection(peer.serve(script)) as connection:
        with pytest.raises(MessageError):
            connection.send(GetQueueInfoRequest(queue="z" * MAX_LINE_BYTES))
        assert connection.call(GetQueueInfoRequest()) == GetQueueInfoResponse(())


def test_no_socket_and_nobody_behind_it_say_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailedError) as caught:
        Connection(str(tmp_path / "rm.sock"))
    assert caught.value.hint == "yopp up" and caught.value.exit_code == 69
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(tmp_path / "rm.sock"))
    stale.close()
    with pytest.raises(ConnectionFailedError) as caught:
        Connection(f"unix:{tmp_path / 'rm.sock'}")
    assert caught.value.hint == "yopp up"
    with pytest.raises(ConnectionFailedError) as caught:
        Connection(f"unix:{tmp_path / 'rm.sock'}", hint="yopp -D x=true up")
    assert caught.value.hint == "yopp -D x=true up"
    with pytest.raises(ConnectionFailedError):
        Connection("localhost:notaport")
    with pytest.raises(ConnectionFailedError):
        Connection("unix:/" + "x" * 200)
