"""The daemons' server on real sockets: order, garbage, slow readers, lost callers, strangers, TCP; and their
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.errors import ConnectionFailedError, InvalidPropertyError, NodeNotFoundError, YoppError
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from yarnopp_cli.records.client_protocol import (
    GetClusterNodesRequest,
    GetClusterNodesResponse,
    KillApplicationRequest,
)
from yarnopp_cli.records.job_protocol import GetApplicationsRequest, GetApplicationsResponse
from yarnopp_cli.rpc import connection as connection_module
from yarnopp_cli.rpc import server as server_module
from yarnopp_cli.rpc import tcp
from yarnopp_cli.rpc.client import RpcClient
from yarnopp_cli.rpc.methods import RM_METHODS
from yarnopp_cli.rpc.server import RpcServer
from yarnopp_cli.settings.rules import RM_ADDRESS

DEADLINE = 10.0


class World:
    """A server whose machine is the test: it answers getClusterNodes at once, holds getApplications, refuses
    the rest.
    """

    def __init__(self, path: str, **options: Any) -> None:
        self.path = path
        self.events: list[CallReceived | ConnectionLost] = []
        self.held: list[int] = []
        self.server = RpcServer(RM_METHODS, self.post, **options)

    def post(self, event: CallReceived | ConnectionLost) -> None:
        self.events.append(event)
        if not isinstance(event, CallReceived):
            return
        if isinstance(event.request, GetClusterNodesRequest):
            self.server.perform(Reply(event.call_id, GetClusterNodesResponse(())))
        elif isinstance(event.request, GetApplicationsRequest):
            self.held.append(event.call_id)
        else:
            self.server.perform(ReplyError(event.call_id, NodeNotFoundError("no such node", hint="look")))

    def release(self, call_id: int) -> None:
        self.held.remove(call_id)
        self.server.perform(Reply(call_id, GetApplicationsResponse(())))

    def lost(self) -> list[int]:
        return [event.connection_id for event in self.events if isinstance(event, ConnectionLost)]


@contextlib.asynccontextmanager
async def serving(directory: Path, **options: Any) -> AsyncIterator[World]:
    world = World(str(directory / "rm.sock"), **options)
    await world.server.listen_unix(world.path)
    try:
        yield world
    finally:
        await world.server.close()
    assert not os.path.exists(world.path)


class Caller:
    """A caller that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, text: bytes) -> None:
        self.writer.write(text)

    def call(self, call_id: object, method: str, **params: object) -> None:
        self.say(
            json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}).encode() + b"\n"
        )

    async def hear(self) -> Any:
        line = await asyncio.wait_for(self.reader.readline(), DEADLINE)
        return json.loads(line) if line else None


@contextlib.asynccontextmanager
async def calling(path: str) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_unix_connection(path, limit=64 * 1024)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE
    while not condition():
        assert loop.time() < deadline, "it never came to be"
        await asyncio.sleep(0.002)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 4 * DEADLINE)

    asyncio.run(bounded())


def test_calls_are_answered_in_any_order_with_the_callers_ids(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as caller:
            caller.call("held", "getApplications")
            caller.call(2, "getClusterNodes")
            caller.call(3, "forceKillApplication", application_id="x")
            assert (await caller.hear())["id"] == 2
            refusal = await caller.hear()
            assert refusal["id"] == 3
            assert refusal["error"]["data"]["hint"] == "look"
            world.release(world.held[0])
            assert await caller.hear() == {"jsonrpc": "2.0", "id": "held", "result": {"applications": []}}
            first = world.events[0]
            assert isinstance(first, CallReceived)
            assert (first.uid, first.method) == (os.geteuid(), "getApplications")
            assert first.user
            assert world.server.unanswered == 0

    run(test)


def test_a_caller_whose_name_cannot_be_read_now_is_refused_and_served_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its uid as a name would be another user's, or nobody's: what it submits would fail for good."""

    def short(uid: int) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def test() -> None:
        async with serving(tmp_path) as world:
            with monkeypatch.context() as patched:
                patched.setattr(connection_module, "_name_of", short)
                async with calling(world.path) as caller:
                    refusal = await caller.hear()
                    assert refusal["error"]["message"] == "the users of this host cannot be read now"
                    assert refusal["error"]["data"]["because"] == "too many open files"
                    assert await caller.hear() is None
            async with calling(world.path) as caller:
                caller.call(1, "getClusterNodes")
                assert (await caller.hear())["id"] == 1
            assert [type(event) for event in world.events].count(CallReceived) == 1

    run(test)


def test_the_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            assert stat.S_IMODE(os.stat(world.path).st_mode) == 0o600

    run(test)


def test_garbage_gets_errors_and_harms_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            serving(tmp_path) as world,
            calling(world.path) as caller,
            calling(world.path) as neighbour,
        ):
            caller.say(b"GET / HTTP/1.1\r\n\r\n\n\n")
            assert (await caller.hear())["error"]["code"] == -32700
            caller.say(b'{"id":1,"method":"dance"}\n\xff\n{"id":2,"method":"getClusterNodes","params":[]}\n')
            assert (await caller.hear())["error"]["code"] == -32601
            assert (await caller.hear())["error"]["code"] == -32700
            answer = await caller.hear()
            assert (answer["id"], answer["error"]["code"]) == (2, -32602)
            for call_id in range(2):
                caller.call(call_id, "getClusterNodes")
                assert (await caller.hear())["id"] == call_id
            neighbour.call(1, "getClusterNodes")
            assert "result" in await neighbour.hear()
            assert all(event.method == "getClusterNodes" for event in world.events)  # type: ignore[union-attr]

    run(test)


def test_lines_may_come_in_pieces_and_a_half_line_is_no_call(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            async with calling(world.path) as caller:
                line = b'{"jsonrpc":"2.0","id":5,"method":"getClusterNodes","params":{}}\n'
                for index in range(len(line)):
                    caller.say(line[index : index + 1])
                    await caller.writer.drain()
                    await asyncio.sleep(0)
                assert (await caller.hear())["id"] == 5
                caller.say(line[:20])
                await caller.writer.drain()
            await until(lambda: len(world.lost()) == 1)
            assert len(world.events) == 2

    run(test)


def test_a_line_beyond_the_limit_ends_the_connection_with_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path, max_line_bytes=100_000) as world:
            for text in (b"x" * 100_001, b"y" * 300_000 + b"\n"):
                async with calling(world.path) as caller:
                    caller.say(text)
                    answer = await caller.hear()
                    assert "longer than 100000" in answer["error"]["message"]
                    with contextlib.suppress(ConnectionError):
                        assert await caller.hear() is None
            async with calling(world.path) as caller:
                caller.call(1, "forceKillApplication", application_id="z" * 90_000)
                assert (await caller.hear())["id"] == 1

    run(test)


def test_a_caller_that_goes_is_noticed_at_once_and_its_calls_are_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            async with calling(world.path) as caller:
                caller.call(1, "getApplications")
                await until(lambda: len(world.held) == 1)
            await until(lambda: len(world.lost()) == 1)
            assert world.server.unanswered == 0
            world.release(world.held[0])  # too late, and harmless
            call = world.events[0]
            assert isinstance(call, CallReceived)
            assert world.lost() == [call.connection_id]

    run(test)


def test_a_caller_that_never_called_is_no_loss(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            async with calling(world.path):
                pass
            async with calling(world.path) as caller:
                caller.call(1, "getClusterNodes")
                await caller.hear()
            await until(lambda: len(world.lost()) == 1)
            assert world.lost() == [2]

    run(test)


def test_a_caller_that_stops_sending_still_gets_what_was_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as caller:
            for call_id in range(100):
                caller.call(call_id, "getClusterNodes")
            caller.writer.write_eof()
            assert [(await caller.hear())["id"] for _ in range(100)] == list(range(100))
            assert await caller.hear() is None

    run(test)


def test_a_caller_that_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    """Its answers fill the socket and a bounded buffer; then its calls wait outside."""

    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as caller:
            flood = b'{"id":"%s","method":"getClusterNodes","params":{}}\n' % (b"i" * 2000) * 20_000
            sending = asyncio.create_task(_send(caller, flood))
            await until(lambda: bool(world.events))
            (connection,) = world.server._connections
            transport = connection._transport
            assert transport is not None
            await until(lambda: not transport.is_reading())
            assert 0 < len(world.events) < 20_000
            heard = 0
            while heard < 20_000:
                assert (await caller.hear())["id"] == "i" * 2000
                heard += 1
            await sending
            assert len(world.events) == 20_000

    run(test)


async def _send(caller: Caller, data: bytes) -> None:
    caller.say(data)
    await caller.writer.drain()


def test_unanswered_calls_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_UNANSWERED", 10)

    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as caller:
            for call_id in range(12):
                caller.call(call_id, "getApplications")
            for call_id in (10, 11):
                answer = await caller.hear()
                assert answer["id"] == call_id
                assert "too many calls" in answer["error"]["message"]
            assert len(world.held) == 10

    run(test)


def test_other_users_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_credentials", lambda connection: (1, 12345))

    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as caller:
            answer = await caller.hear()
            assert "own user only" in answer["error"]["message"]
            with contextlib.suppress(ConnectionError):
                caller.call(1, "getClusterNodes")
                assert await caller.hear() is None
            assert world.events == []

    run(test)


def test_a_stale_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    async def test() -> None:
        path = str(tmp_path / "rm.sock")
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(path)
        stale.close()
        async with serving(tmp_path) as world:
            with pytest.raises(YoppError, match="another daemon is already listening there"):
                await RpcServer(RM_METHODS, world.post).listen_unix(path)
            async with calling(path) as caller:
                caller.call(1, "getClusterNodes")
                assert (await caller.hear())["id"] == 1

    run(test)


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "rm.sock"
        path.write_text("precious")
        with pytest.raises(YoppError, match="cannot listen"):
            await RpcServer(RM_METHODS, print).listen_unix(str(path))
        assert path.read_text() == "precious"

    run(test)


def test_closing_leaves_a_socket_that_is_not_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        world = World(str(tmp_path / "rm.sock"))
        await world.server.listen_unix(world.path)
        os.unlink(world.path)
        Path(world.path).write_text("somebody else's")
        await world.server.close()
        assert Path(world.path).read_text() == "somebody else's"

    run(test)


# -- TCP -----------------------------------------------------------------------------------------------------


def test_loopback_tcp_serves_the_own_user(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            address = await world.server.listen_tcp("localhost:0", RM_ADDRESS)
            host, _, port = address.rpartition(":")
            assert host == "localhost"
            reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
            caller = Caller(reader, writer)
            caller.call(1, "getClusterNodes")
            assert (await caller.hear())["id"] == 1
            call = world.events[0]
            assert isinstance(call, CallReceived)
            assert call.uid == os.geteuid()
            writer.close()
            with pytest.raises(YoppError, match=f"port {port} is taken") as caught:
                await RpcServer(RM_METHODS, world.post).listen_tcp(address, RM_ADDRESS)
            assert str(os.getpid()) in caught.value.because
            assert RM_ADDRESS in caught.value.hint

    run(test)


@pytest.mark.parametrize(
    "address", ["0.0.0.0:8032", "10.0.0.1:1", "example.org:8032", "[::]:80", "127.0.0.1.evil:1"]
)
def test_tcp_beyond_this_host_is_refused(address: str) -> None:
    with pytest.raises(InvalidPropertyError, match="refused"):
        tcp.loopback_address(address, RM_ADDRESS)


@pytest.mark.parametrize(
    "address", ["localhost", ":80", "localhost:", "localhost:x", "localhost:65536", "localhost:-1"]
)
def test_an_address_needs_host_and_port(address: str) -> None:
    with pytest.raises(InvalidPropertyError, match="is not an address"):
        tcp.loopback_address(address, RM_ADDRESS)


# -- the client ----------------------------------------------------------------------------------------------


class Answers:
    """What a client was told."""

    def __init__(self) -> None:
        self.results: list[tuple[Any, YoppError | None]] = []
        self.lost: list[str] = []

    def take(self, response: Any, error: YoppError | None) -> None:
        self.results.append((response, error))


def test_a_client_has_many_calls_in_flight(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            answers = Answers()
            client = await RpcClient.connect(world.path, answers.lost.append)
            for _ in range(3):
                client.call(GetApplicationsRequest(), answers.take)
            client.call(KillApplicationRequest("x"), answers.take)
            await until(lambda: len(answers.results) == 1)
            assert isinstance(answers.results[0][1], NodeNotFoundError)
            for call_id in reversed(world.held[:]):
                world.release(call_id)
            await until(lambda: len(answers.results) == 4)
            assert answers.results[-1] == (GetApplicationsResponse(()), None)
            client.close()
            await until(lambda: len(world.lost()) == 1)
            assert answers.lost == []

    run(test)


def test_a_client_tells_every_call_and_its_owner_that_the_server_has_gone(tmp_path: Path) -> None:
    async def test() -> None:
        answers = Answers()
        async with serving(tmp_path) as world:
            client = await RpcClient.connect(world.path, answers.lost.append)
            client.call(GetApplicationsRequest(), answers.take)
            await until(lambda: len(world.held) == 1)
        await until(lambda: len(answers.lost) == 1)
        assert isinstance(answers.results[0][1], ConnectionFailedError)
        client.call(GetApplicationsRequest(), answers.take)
        assert len(answers.results) == 1
        await until(lambda: len(answers.results) == 2)
        with pytest.raises(ConnectionFailedError, match="cannot reach"):
            await RpcClient.connect(world.path, answers.lost.append)

    run(test)


@pytest.mark.parametrize("nonsense", [b"hello\n", b'{"id":77,"result":{}}\n', b'{"id":1,"result":5}\n'])
def test_a_client_drops_a_server_that_talks_nonsense(tmp_path: Path, nonsense: bytes) -> None:
    async def test() -> None:
        path = str(tmp_path / "x.sock")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(nonsense)
            await reader.read()
            writer.close()

        server = await asyncio.start_unix_server(serve, path)
        async with server:
            answers = Answers()
            client = await RpcClient.connect(path, answers.lost.append)
            client.call(GetApplicationsRequest(), answers.take)
            await until(lambda: len(answers.lost) == 1)
            assert isinstance(answers.results[0][1], ConnectionFailedError)

    run(test)
