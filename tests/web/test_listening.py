"""The sockets of the web servers, without a cluster."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from tests.ports import free_port
from yarnopp_cli.errors import InvalidPropertyError, YoppError
from yarnopp_cli.web.listening import WebListener, listen, parse

NAME = "yarn.resourcemanager.webapp.address"


@pytest.mark.parametrize(
    ("address", "loopback_only", "meant"),
    [
        ("localhost:8088", True, ("localhost", "127.0.0.1", 8088)),
        ("0.0.0.0:8088", True, ("localhost", "127.0.0.1", 8088)),
        ("127.0.0.2:1", True, ("127.0.0.2", "127.0.0.2", 1)),
        ("[::1]:0", True, ("::1", "::1", 0)),
        ("0.0.0.0:8088", False, (socket.gethostname(), "0.0.0.0", 8088)),
        ("192.0.2.7:80", False, ("192.0.2.7", "192.0.2.7", 80)),
    ],
)
def test_addresses(address: str, loopback_only: bool, meant: tuple[str, str, int]) -> None:
    assert parse(address, NAME, loopback_only=loopback_only) == meant


@pytest.mark.parametrize(
    "address", ["", "8088", "localhost", "localhost:x", "localhost:70000", ":80", "192.0.2.7:80"]
)
def test_what_is_no_loopback_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidPropertyError):
        parse(address, NAME, loopback_only=True)


def test_a_taken_port_is_refused_or_gives_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(YoppError, match=f"port {port} is taken") as refused:
            listen(f"localhost:{port}", NAME, loopback_only=True)
        assert refused.value.hint.startswith(f"-D{NAME}=localhost:")
        other = listen(f"localhost:{port}", NAME, loopback_only=True, fallback=True)
    try:
        assert other.port != port and str(port) in other.warning and other.address in other.warning
    finally:
        asyncio.run(other.close())


def test_a_port_that_nobody_configured_is_kept_over_a_restart() -> None:
    for address, fallback in (("localhost:0", False), (f"localhost:{free_port()}", True)):
        port = free_port()
        listener = listen(address, NAME, loopback_only=True, fallback=fallback, earlier=port)
        assert listener.port == port and not listener.warning
        again = listen(address, NAME, loopback_only=True, fallback=True, earlier=port)
        assert again.port not in (0, port), "somebody else has it by now"
        for one in (listener, again):
            asyncio.run(one.close())
    named = free_port()
    listener = listen(f"localhost:{named}", NAME, loopback_only=True, earlier=free_port())
    assert listener.port == named
    asyncio.run(listener.close())


def test_the_next_node_has_the_next_port() -> None:
    port = free_port()
    listener = listen(f"localhost:{port - 3}", NAME, loopback_only=True, offset=3)
    assert listener.address == f"localhost:{port}"
    asyncio.run(listener.close())


@pytest.mark.parametrize("what", ["there is none", "removed", "replaced"])
def test_a_server_that_cannot_be_loaded_tells_callers_what_to_do(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package, name = tmp_path / f"pages_{what.replace(' ', '_')}", "server"
    package.mkdir()
    (package / "__init__.py").touch()
    if what != "there is none":
        (package / "server.py").write_text("")

    async def scenario() -> None:
        listener: WebListener = listen("localhost:0", NAME, loopback_only=True)
        listener.serve(f"{package.name}.{name}", ())
        if what != "there is none":
            package.rename(tmp_path / "earlier")
        if what == "replaced":
            package.mkdir()
            for file in ("__init__.py", "server.py"):
                (package / file).touch()
        try:
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = await asyncio.wait_for(reader.read(), 20)
                writer.close()
                assert answer.startswith(b"HTTP/1.1 503 "), answer
                assert b"yopp rm restart" in answer
        finally:
            await listener.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "the web server cannot start" in caplog.text
