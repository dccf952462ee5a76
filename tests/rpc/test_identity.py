"""Whose a TCP connection is: by literal rows of /proc/net/tcp, and by callers that hang up before they are served.

While a test waits for such a caller its event loop stands still: so is a busy daemon, and nothing depends on time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.rpc.test_server import serving
from tests.shortage import none_free
from tests.strangers import HANG_UPS, NOBODY_UID, OWN_UID, Stranger, http_request, rpc_request
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.machine.calls import CallReceived
from yarnopp_cli.records.client_protocol import GetClusterNodesRequest
from yarnopp_cli.rpc import connection as connection_module
from yarnopp_cli.rpc import tcp_peers
from yarnopp_cli.rpc.blocking import Connection
from yarnopp_cli.rpc.tcp import (
    ACCEPT_AT_ONCE,
    ACCEPT_SECONDS,
    BURST_SECONDS,
    CROWDED_SECONDS,
    Door,
    TcpCaller,
    bind,
)
from yarnopp_cli.rpc.tcp_peers import NOBODY, Peer, peer_in
from yarnopp_cli.settings.rules import RM_ADDRESS
from yarnopp_cli.web import http
from yarnopp_cli.web.listening import listen

OWN = ("127.0.0.1", 8088)
PEER = ("127.0.0.1", 40000)
SERVER_SIDE = "0: 0100007F:1F98 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 0 0 11 1 0"
UIDS = [pytest.param(OWN_UID, id="own")]
if OWN_UID == 0:
    UIDS.append(pytest.param(NOBODY_UID, id="stranger"))


def row(state: str, uid: int, inode: int, local: str = "0100007F:9C40", remote: str = "0100007F:1F98") -> str:
    return f"   1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 1 0 20 4 30 10 -1"


little_endian = pytest.mark.skipif(
    sys.byteorder != "little", reason="the rows are those of a little-endian machine"
)


@little_endian
def test_an_open_socket_with_an_inode_is_its_users() -> None:
    assert peer_in([SERVER_SIDE, row("01", 1000, 77)], OWN, PEER) == Peer(1000, 77)
    assert peer_in([row("01", 0, 77)], OWN, PEER) == Peer(0, 77)


@little_endian
@pytest.mark.parametrize("state", ["02", "03", "04", "05", "06", "07", "08", "09", "0A", "0B", "0C"])
def test_no_other_state_tells_of_a_user(state: str) -> None:
    for uid, inode in ((0, 0), (0, 77), (1000, 77)):
        assert peer_in([SERVER_SIDE, row(state, uid, inode)], OWN, PEER) == NOBODY


@little_endian
def test_absence_tells_of_nobody() -> None:
    for rows in (
        [],
        [SERVER_SIDE],
        ["", "junk"],
        [row("01", 0, 0)],
        [row("01", 0, 77, remote="0100007F:1F99")],
    ):
        assert peer_in(rows, OWN, PEER) == NOBODY, rows


@little_endian
def test_two_rows_that_differ_tell_of_nobody() -> None:
    assert peer_in([row("01", 1000, 77), row("01", 1000, 77)], OWN, PEER) == Peer(1000, 77), "read twice"
    for other in (row("01", 0, 78), row("01", 1000, 78), row("06", 0, 0)):
        assert peer_in([row("01", 1000, 77), other], OWN, PEER) == NOBODY
        assert peer_in([other, row("01", 1000, 77)], OWN, PEER) == NOBODY


@little_endian
def test_ipv4_is_the_same_in_both_tables_and_from_both_kinds_of_sockets() -> None:
    mapped = "0000000000000000FFFF00000100007F"
    six = row("01", 5, 7, f"{mapped}:9C40", f"{mapped}:1F98")
    for rows in ([six], [row("01", 5, 7)]):
        for own, peer in ((OWN, PEER), (("::ffff:127.0.0.1", 8088, 0, 0), ("::ffff:127.0.0.1", 40000, 0, 0))):
            assert peer_in(rows, own, peer) == Peer(5, 7)
    loop = "00000000000000000000000001000000"
    rows = [row("01", 5, 7, f"{loop}:9C40", f"{loop}:1F98")]
    assert peer_in(rows, ("::1", 8088, 0, 0), ("::1", 40000, 0, 0)) == Peer(5, 7)
    assert peer_in(rows, OWN, PEER) == NOBODY


def test_a_connection_that_the_kernel_does_not_know_is_nobodys() -> None:
    for ip in ("127.0.0.1", "::1"):
        assert peer_in(tcp_peers._tables(), (ip, 1), (ip, 2)) == NOBODY


@contextmanager
def accepted() -> Iterator[tuple[socket.socket, TcpCaller]]:
    """A client's socket, and what its server knows of it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())) as client,
    ):
        served, address = listener.accept()
        with served:
            yield client, TcpCaller(served, address)


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("asks", ["sock_diag", "table"])
@pytest.mark.parametrize("at", ["127.0.0.1", "::1", "::"])
def test_the_kernel_tells_whose_a_connection_is_by_either_way(
    at: str, asks: str, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over IPv4, IPv6, and IPv4 at a socket of IPv6. The table, which others make long, is not read without need."""
    if asks == "table":
        monkeypatch.setattr(tcp_peers, "_NETLINK_SOCK_DIAG", 99)
    elif "User Mode Linux" in Path("/proc/cpuinfo").read_text():
        pytest.skip("this kernel has no tcp_diag")
    else:
        monkeypatch.delattr(tcp_peers, "_tables")
    here = "::1" if at == "::1" else "127.0.0.1"
    listener, *other = bind(at, 0)
    with contextlib.closing(listener):
        for one in other:
            one.close()
        listener.setblocking(True)
        os.seteuid(uid)
        try:
            client = socket.create_connection((here, listener.getsockname()[1]))
        finally:
            os.seteuid(OWN_UID)
        assert tcp_peers.peer_of(client, client.getpeername()) == NOBODY, "nobody has accepted it yet"
        served, address = listener.accept()
        with client, served:
            assert tcp_peers.peer_of(served, address) == Peer(uid, os.fstat(client.fileno()).st_ino)
            assert tcp_peers.peer_of(client, client.getpeername()).uid == OWN_UID
            client.shutdown(socket.SHUT_WR)
            assert tcp_peers.peer_of(served, address) == NOBODY


def test_a_caller_is_known_as_long_as_its_socket_is_open() -> None:
    for hang_up in (socket.socket.close, lambda client: client.shutdown(socket.SHUT_WR)):
        with accepted() as (client, caller):
            assert caller.uid() == OWN_UID
            assert caller.uid() == OWN_UID
            hang_up(client)
            assert caller.uid() == -1


def test_another_socket_by_the_same_addresses_is_another_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port was taken anew since, perhaps by root."""
    known = [Peer(1000, 77)]
    monkeypatch.setattr(tcp_peers, "_asked", lambda *_: known[0])
    with accepted() as (_, caller):
        assert caller.uid() == 1000
        for other in (Peer(1000, 78), Peer(0, 78), Peer(0, 77), NOBODY):
            known[0] = other
            assert caller.uid() == -1
        known[0] = Peer(1000, 77)
        assert caller.uid() == 1000
    known[0] = NOBODY
    with accepted() as (_, caller):
        assert caller.uid() == -1
        known[0] = Peer(0, 1)
        assert caller.uid() == -1, "nobody at first is nobody for good"


def test_a_dead_connection_is_not_the_living_one_that_took_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset before it was accepted, so that its port is free: a row of root's there does not belong to it."""
    monkeypatch.setattr(tcp_peers, "_asked", lambda *_: Peer(0, 1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        served, address = listener.accept()
        with served:
            assert TcpCaller(served, address).uid() == -1


def test_a_uid_that_stands_for_many_users_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a user namespace all whom it does not have are called by one number, which may be the daemon's own."""
    monkeypatch.setattr(tcp_peers, "_unmapped_uid", lambda: OWN_UID)
    with accepted() as (_, caller):
        assert caller.uid() == -1


def test_whether_a_uid_stands_for_many_is_not_known_where_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is known then, and all are afterwards."""
    monkeypatch.setattr(tcp_peers, "_asked", lambda *_: Peer(OWN_UID, 77))
    with accepted() as (_, caller):
        connection, peer = caller._connection, caller._address
        assert connection is not None
        tcp_peers._unmapped_uid.cache_clear()
        with none_free():
            assert tcp_peers.peer_of(connection, peer) == NOBODY
        assert tcp_peers.peer_of(connection, peer) == Peer(OWN_UID, 77)


def test_a_name_that_could_not_be_read_is_read_later() -> None:
    connection_module._name_of.cache_clear()
    with none_free():
        assert connection_module.user_name(OWN_UID) == str(OWN_UID)
    assert connection_module.user_name(OWN_UID) == pwd.getpwuid(OWN_UID).pw_name


def test_addresses_of_this_host_are_told_from_others() -> None:
    with accepted() as (client, caller):
        assert caller.on_loopback and caller.on_this_host
        other = TcpCaller(client, ("192.0.2.1", 5))
        assert not other.on_loopback and not other.on_this_host
        assert other.uid() == -1


# -- servers -------------------------------------------------------------------------------------------------


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def settled(ended: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 10
    while not ended():
        assert loop.time() < deadline, "it never came to be"
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("how", HANG_UPS)
@pytest.mark.parametrize("early", [True, False], ids=["before it is accepted", "after"])
@pytest.mark.parametrize("anybody", [False, True], ids=["loopback", "anybody"])
def test_who_hangs_up_calls_no_daemon(tmp_path: Path, uid: int, how: str, early: bool, anybody: bool) -> None:
    """Neither the RM's port nor an AMRMProxy's, be it one that serves other machines too."""

    async def test() -> None:
        async with serving(tmp_path) as world:
            address = await world.server.listen_tcp("127.0.0.1:0", RM_ADDRESS, loopback_only=not anybody)
            host, _, port = address.rpartition(":")
            stranger = Stranger(host, int(port), rpc_request("getClusterNodes"), how, uid)
            if not early:
                await settled(lambda: world.server._next_connection > 1)
            stranger.send()
            await settled(lambda: world.server._next_connection > 1 and not world.server._connections)
            assert [one for one in world.events if isinstance(one, CallReceived)] == []
            if how == "half" and early:
                answer = await asyncio.to_thread(stranger.answer)
                assert "own user only" in answer and "is unknown" in answer
            else:
                await asyncio.to_thread(stranger.answer)

    run(test)


@pytest.mark.parametrize("uid", UIDS)
def test_who_stays_is_served_if_he_is_the_own_user(tmp_path: Path, uid: int) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            address = await world.server.listen_tcp("127.0.0.1:0", RM_ADDRESS)
            stranger = Stranger(
                "127.0.0.1", int(address.rpartition(":")[2]), rpc_request("getClusterNodes"), "stay", uid
            )
            stranger.send()
            answer = await asyncio.to_thread(stranger.answer)
            assert ('"result"' in answer) == (uid == OWN_UID)

    run(test)


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("how", [*HANG_UPS, "stay"])
@pytest.mark.parametrize("early", [True, False], ids=["before it is accepted", "after"])
def test_who_hangs_up_changes_nothing_over_http(uid: int, how: str, early: bool) -> None:
    changed: list[int] = []
    looked: list[int] = []

    async def change(request: web.Request) -> web.StreamResponse:
        changed.append(http.caller(request))
        return web.json_response({})

    async def look(request: web.Request) -> web.StreamResponse:
        http.require_owner(request, "a secret")
        looked.append(1)
        return web.json_response({})

    async def test() -> None:
        listener = listen("127.0.0.1:0", "a.property", loopback_only=True)
        routes: list[http.Route] = [("POST", "/change", change), ("GET", "/look", look)]
        server = await http.start(listener._sockets, listener, routes)
        assert server._runner.server is not None
        open_ones = lambda: server._runner.server.connections  # noqa: E731
        try:
            for request in (http_request("POST", "/change", {"a": 1}), http_request("GET", "/look")):
                stranger = Stranger("127.0.0.1", listener.port, request, how, uid)
                if not early:
                    await settled(lambda: len(open_ones()) == 1)
                stranger.send()
                answer = await asyncio.to_thread(stranger.answer)
                if how == "stay":
                    assert answer.startswith("HTTP/1.1 200 " if uid == OWN_UID else "HTTP/1.1 403 "), answer
                else:
                    assert not answer or answer.startswith("HTTP/1.1 403 ")
                await settled(lambda: not open_ones())
        finally:
            await server.close()
            await listener.close()
        assert changed == ([OWN_UID] if how == "stay" and uid == OWN_UID else [])
        assert looked == ([1] if how == "stay" and uid == OWN_UID else [])

    run(test)


def test_who_hangs_up_while_his_body_comes_changes_nothing() -> None:
    changed: list[int] = []

    async def change(request: web.Request) -> web.StreamResponse:
        changed.append(1)
        return web.json_response({})

    async def test() -> None:
        listener = listen("127.0.0.1:0", "a.property", loopback_only=True)
        server = await http.start(listener._sockets, listener, [("POST", "/change", change)])
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            head, _, body = http_request("POST", "/change", {"a": 1}).partition("\r\n\r\n")
            writer.write((head + "\r\n\r\n" + body[:3]).encode())
            await settled(lambda: len(server._runner.server.connections) == 1)
            for _ in range(20):
                await asyncio.sleep(0)  # its head is read, and its caller known
            writer.write(body[3:].encode())
            writer.write_eof()
            answer = await reader.read()
            assert not answer or answer.startswith(b"HTTP/1.1 403 ")
        finally:
            writer.close()
            await server.close()
            await listener.close()
        assert changed == []

    run(test)


LISTENER = """
import os, socket, sys
if int(sys.argv[1]) != os.geteuid():
    os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
caller, _ = listener.accept()
caller.settimeout(20)
print("%d bytes" % len(caller.recv(100)), flush=True)
"""


@pytest.mark.parametrize("uid", UIDS)
def test_a_caller_tells_nothing_to_another_users_server(uid: int) -> None:
    """Who listens on a daemon's port in its place would get tokens otherwise."""
    listener = subprocess.Popen(
        [sys.executable, "-I", "-c", LISTENER, str(uid)], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    assert listener.stdout is not None
    address = f"localhost:{listener.stdout.readline().strip()}"
    if uid == OWN_UID:
        with Connection(address) as connection:
            connection.send(GetClusterNodesRequest())
            assert listener.stdout.readline() != "0 bytes\n"
    else:
        with pytest.raises(ConnectionFailedError, match="is not trusted") as refused:
            Connection(address)
        assert refused.value.because == f"user {uid} listens there, not you or root"
        assert listener.stdout.readline() == "0 bytes\n"
    listener.communicate(timeout=30)


def test_a_server_that_does_not_accept_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(ConnectionFailedError) as refused:
            Connection(f"localhost:{listener.getsockname()[1]}", timeout=0.05)
        assert refused.value.because.startswith("the server's user is unknown")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b""


@pytest.mark.parametrize("seconds", [ACCEPT_SECONDS, CROWDED_SECONDS])
def test_callers_come_in_at_a_rate_that_leaves_the_loop_to_others(seconds: float) -> None:
    """However many connect at once, all of them are served in the end, and who comes by the other address soon."""
    served: list[tuple[float, str]] = []

    class Served(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            served.append((asyncio.get_running_loop().time(), transport.get_extra_info("peername")[0]))
            transport.close()

    async def test() -> None:
        sockets = bind("127.0.0.1", 0)
        door = Door(sockets, Served, lambda: seconds == CROWDED_SECONDS)
        crowd = []
        try:
            for _ in range(120):
                crowd.append(socket.socket())
                crowd[-1].setblocking(False)
                crowd[-1].connect_ex(sockets[0].getsockname())
            await settled(lambda: len(served) >= 70)
            if len(sockets) > 1:
                crowd.append(socket.create_connection(sockets[1].getsockname()[:2]))
            await settled(lambda: len(served) == len(crowd))
        finally:
            door.close()
            for one in crowd:
                one.close()
        took = served[-1][0] - served[0][0]
        assert len(served) <= (BURST_SECONDS + took) / seconds + 2 * ACCEPT_AT_ONCE
        assert len(sockets) == 1 or served[-1][1] == "127.0.0.1", (
            "the other address does not wait for the crowd"
        )

    run(test)


def test_a_port_is_taken_at_both_loopback_addresses_or_at_neither() -> None:
    """Who has the other one has the origin http://localhost:PORT in a browser, too."""
    for ip in ("127.0.0.1", "::1", "0.0.0.0", "::"):
        bound = bind(ip, 0)
        port = bound[0].getsockname()[1]
        try:
            for other in ("127.0.0.1", "::1"):
                with (
                    pytest.raises(OSError),
                    socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET) as one,
                ):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    one.bind((other, port))
                    one.listen()
        finally:
            for one in bound:
                one.close()
    for mine, theirs in (("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("0.0.0.0", "::1"), ("::", "127.0.0.1")):
        with socket.create_server(
            (theirs, 0), family=socket.AF_INET6 if ":" in theirs else socket.AF_INET
        ) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError) as refused:
                bind(mine, port)
            assert refused.value.errno == errno.EADDRINUSE
            free = {"127.0.0.1": "::1", "::1": "127.0.0.1"}[theirs]
            socket.create_server(
                (free, port), family=socket.AF_INET6 if ":" in free else socket.AF_INET
            ).close()
