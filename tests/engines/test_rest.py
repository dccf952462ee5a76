"""The HTTP of the engine against daemons that say what ours never would: standbys, Kerberos, garbage, halves."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from executor.records import ContainerState, ExecutionType
from yarnopp_cli.client import rest
from yarnopp_cli.client.rest import RefusedError, Rest
from yarnopp_cli.client.yarn import YarnClient, expiry
from yarnopp_cli.errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    YoppError,
)
from yarnopp_cli.records import client_protocol as rm
from yarnopp_cli.records.job_protocol import GetApplicationsRequest
from yarnopp_cli.records.reports import (
    ApplicationAttemptReport,
    NodeReport,
    NodeState,
    YarnApplicationState,
)

INFO = {"clusterInfo": {"state": "STARTED", "haState": "ACTIVE", "resourceManagerVersion": "3.4.1"}}
Reply = tuple[int, dict[str, str], bytes]


def as_json(value: Any, status: int = 200) -> Reply:
    return status, {"Content-Type": "application/json;charset=utf-8"}, json.dumps(value).encode()


class Fake:
    """A daemon that answers each path as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply | Callable[[Any], None]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                parts = urllib.parse.urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                query = dict(urllib.parse.parse_qsl(parts.query))
                fake.asked.append((self.command, parts.path, query, body))
                reply = fake.replies.get(parts.path.removeprefix("/ws/v1/cluster"), (404, {}, b""))
                if callable(reply):
                    reply(self)
                    return
                status, headers, content = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *args: Any) -> None:
                """Be silent."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def fakes() -> Iterator[Callable[[], Fake]]:
    made: list[Fake] = []

    def make() -> Fake:
        made.append(Fake())
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def fake(fakes: Callable[[], Fake]) -> Fake:
    return fakes()


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


NEW_OR_RUNNING = GetApplicationsRequest(states=(YarnApplicationState.NEW, YarnApplicationState.RUNNING))


def test_who_asks_is_said_and_filters_go_along(fake: Fake) -> None:
    fake.replies["/apps"] = as_json({"apps": None})
    assert YarnClient(Rest([fake.url], "ada b")).applications(NEW_OR_RUNNING) == ()
    assert fake.asked == [
        ("GET", "/ws/v1/cluster/apps", {"states": "NEW,RUNNING", "user.name": "ada b"}, b"")
    ]


@pytest.mark.parametrize("way", ["307", "307 to the root", "refresh"])
def test_a_standby_sends_on_and_the_other_one_is_kept(fakes: Callable[[], Fake], way: str) -> None:
    standby, active = fakes(), fakes()
    to = f"{active.url}/" if "root" in way else f"{active.url}/ws/v1/cluster/metrics?user.name=x"
    told = {"Refresh": f"3; url={to}"} if way == "refresh" else {"Location": to}
    text = b"This is standby RM. The redirect url is: " + to.encode()
    standby.replies["/metrics"] = (200 if way == "refresh" else 307, told, text)
    active.replies["/metrics"] = as_json({"clusterMetrics": {"activeNodes": 2}})
    engine = YarnClient(Rest([standby.url], "ada"))
    assert engine.metrics() == {"activeNodes": 2}
    assert engine.metrics() == {"activeNodes": 2}
    assert [one[1:3] for one in standby.asked] == [("/ws/v1/cluster/metrics", {"user.name": "ada"})]
    assert [one[2] for one in active.asked] == [{"user.name": "ada"}] * 2


def test_several_are_tried_in_turn(fakes: Callable[[], Fake]) -> None:
    standby, active = fakes(), fakes()
    standby.replies["/metrics"] = (200, {}, b"This is standby RM. There is currently no active RM.")
    active.replies["/metrics"] = as_json({"clusterMetrics": {}})
    calls = Rest([nobody(), standby.url, active.url], "ada")
    assert YarnClient(calls).metrics() == {}
    assert calls.address == active.url
    active.replies["/metrics"] = (307, {"Location": f"{active.url}/ws/v1/cluster/metrics"}, b"")
    with pytest.raises(ConnectionFailedError, match="no active ResourceManager") as told:
        YarnClient(calls).metrics()
    assert told.value.exit_code == 69 and "it is a standby" in told.value.because


def test_the_one_document_that_a_standby_gives_itself(fakes: Callable[[], Fake]) -> None:
    standby, active = fakes(), fakes()
    standby.replies["/info"] = as_json({"clusterInfo": {"haState": "STANDBY"}})
    standby.replies["/metrics"] = (307, {"Location": f"{active.url}/ws/v1/cluster/metrics"}, b"")
    active.replies["/metrics"] = as_json({"clusterMetrics": {}})
    active.replies["/info"] = as_json(INFO)
    engine = YarnClient(Rest([standby.url], "ada"))
    assert engine.info(anybody=True).document()["clusterInfo"]["haState"] == "STANDBY"
    assert engine.info().document() == INFO


def test_circles_and_steps_down_are_not_followed(fakes: Callable[[], Fake]) -> None:
    one, other = fakes(), fakes()
    one.replies["/info"] = (307, {"Location": f"{other.url}/ws/v1/cluster/info"}, b"")
    other.replies["/info"] = (307, {"Location": f"{one.url}/ws/v1/cluster/info"}, b"")
    with pytest.raises(RefusedError, match="in a circle"):
        Rest([one.url], "ada").call("GET", "/info")
    assert len(one.asked) + len(other.asked) == rest.REDIRECTS + 1
    one.replies["/info"] = (307, {"Location": "file:///etc/passwd"}, b"")
    with pytest.raises(ConnectionFailedError):
        Rest([one.url], "ada").call("GET", "/info")
    one.replies["/apps"] = (302, {"Location": f"{other.url}/ws/v1/cluster/apps"}, b"")
    with pytest.raises(RefusedError, match="not YARN's"):
        Rest([one.url], "ada").call("POST", "/apps", body={})
    assert not any(path.endswith("/apps") for _, path, _, _ in other.asked)


def test_kerberos_is_said_and_exit_77(fake: Fake) -> None:
    fake.replies["/info"] = (401, {"WWW-Authenticate": "Negotiate"}, b"<html>Authentication required</html>")
    with pytest.raises(RefusedError, match="wants Kerberos") as told:
        Rest([fake.url], "ada").call("GET", "/info")
    assert told.value.exit_code == 77
    fake.replies["/info"] = (401, {"WWW-Authenticate": "Basic realm=x"}, b"")
    with pytest.raises(RefusedError, match="who you are") as told:
        Rest([fake.url], "ada").call("GET", "/info")
    assert told.value.exit_code == 77


@pytest.mark.parametrize(
    ("status", "code"), [(400, 1), (403, 77), (404, 66), (500, 1), (503, 69), (201, 1), (204, 1)]
)
def test_only_200_and_202_are_success(fake: Fake, status: int, code: int) -> None:
    said = {"RemoteException": {"exception": "X", "message": "java.lang.Exception: not so\n\tat a.b.C"}}
    fake.replies["/info"] = as_json(said, status) if status != 204 else (204, {}, b"")
    with pytest.raises(RefusedError) as told:
        Rest([fake.url], "ada").call("GET", "/info")
    assert told.value.exit_code == code
    assert told.value.message == (
        "not so" if status != 204 else f"{fake.url}/ws/v1/cluster/info answered 204"
    )


@pytest.mark.parametrize(
    ("status", "body", "message", "code"),
    [  # as a ResourceManager of Hadoop 3.4.2 says it
        (400, b"App in KILLED state cannot be moved.", "App in KILLED state cannot be moved.", 1),
        (
            503,
            b'{"RemoteException":{"exception":"UndeclaredThrowableException",'
            b'"javaClassName":"java.lang.reflect.UndeclaredThrowableException"}}',
            "UndeclaredThrowableException",
            1,
        ),
    ],
)
def test_refused_changes_say_why(fake: Fake, status: int, body: bytes, message: str, code: int) -> None:
    fake.replies["/apps/application_1_0001/queue"] = (
        status,
        {"Content-Type": "application/json;charset=utf-8"},
        body,
    )
    with pytest.raises(RefusedError) as told:
        Rest([fake.url], "ada").call("PUT", "/apps/application_1_0001/queue", body={"queue": "x"})
    assert (told.value.message, told.value.exit_code) == (message, code)


def test_a_yopp_that_refuses_says_why_itself(fake: Fake) -> None:
    ours = {"message": "app 1 is not yours", "because": "it is root's,\n  and you are ada", "hint": ""}
    fake.replies["/apps/x"] = as_json({"RemoteException": {"message": ours["message"]}, "yopp": ours}, 403)
    with pytest.raises(RefusedError) as told:
        Rest([fake.url], "ada").call("GET", "/apps/x")
    assert (told.value.message, told.value.because, told.value.hint, told.value.exit_code) == (
        "app 1 is not yours", "it is root's, and you are ada", "", 77,
    )  # fmt: skip


HTML = b"<html><body>Welcome to the proxy</body></html>"


@pytest.mark.parametrize(
    "reply",
    [
        (200, {"Content-Type": "text/html"}, HTML),
        (200, {}, b"{}"),
        (200, {"Content-Type": "application/json"}, HTML),
        (200, {"Content-Type": "application/json"}, b'{"clusterMetrics": '),
        (200, {"Content-Type": "application/json"}, b"[" * 100_000),
        (200, {"Content-Type": "application/json"}, b"[]"),
        (200, {"Content-Type": "application/json"}, b"{}"),
        (200, {"Content-Type": "application/json"}, b'{"clusterMetrics": 7}'),
        (200, {"Content-Type": "application/json"}, b"\xff\xfe{"),
        (200, {"Content-Type": "application/json"}, b""),
    ],
)
def test_what_is_not_yarns_is_refused_in_three_lines(fake: Fake, reply: Reply) -> None:
    fake.replies["/metrics"] = reply
    with pytest.raises(RefusedError, match="is not YARN's") as told:
        YarnClient(Rest([fake.url], "ada")).metrics()
    assert told.value.because and told.value.hint and "\n" not in told.value.because


def half(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"clusterMetrics": {}}')
    handler.close_connection = True


def half_a_chunk(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'100\r\n{"clusterMetrics": {}}')
    handler.close_connection = True


@pytest.mark.parametrize("reply", [half, half_a_chunk])
def test_half_an_answer_is_none(fake: Fake, reply: Callable[[Any], None]) -> None:
    fake.replies["/metrics"] = reply
    with pytest.raises(RefusedError) as told:
        YarnClient(Rest([fake.url], "ada")).metrics()
    assert "is incomplete" in told.value.because


def test_answers_are_bounded(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LARGEST", 1000)
    fake.replies["/metrics"] = as_json({"clusterMetrics": {"x": "y" * 2000}})
    with pytest.raises(RefusedError) as told:
        YarnClient(Rest([fake.url], "ada")).metrics()
    assert "larger than" in told.value.because


def test_who_says_nothing_and_who_says_nonsense() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        calls = Rest([f"http://127.0.0.1:{silent.getsockname()[1]}"], "ada", seconds=0.2)
        with pytest.raises(ConnectionFailedError) as told:
            calls.call("GET", "/info")
        assert "in time" in told.value.because
        with pytest.raises(ConnectionFailedError, match="did not answer") as told:
            calls.call("PUT", "/apps/x/state", body={})
        assert "may have taken effect" in told.value.hint

    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(ConnectionFailedError) as told:
            Rest([f"http://127.0.0.1:{server.getsockname()[1]}"], "ada").call("GET", "/info")
        thread.join()
        assert "not HTTP" in told.value.because


def test_what_trickles_is_cut_off(fake: Fake) -> None:
    gone = threading.Event()

    def drip(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            while not gone.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            handler.close_connection = True

    fake.replies["/info"] = drip
    try:
        with pytest.raises(ConnectionFailedError):
            Rest([fake.url], "ada", seconds=0.3).call("GET", "/info")
    finally:
        gone.set()


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n{", b" "),
    ],
    ids=["status line", "headers", "interim answers", "size of a chunk", "trailer", "body without a length"],
)
def test_whatever_part_of_an_answer_trickles_its_time_is_bounded(begin: bytes, again: bytes) -> None:
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(1000)
                peer.sendall(begin)
                while not gone.wait(0.02):
                    peer.sendall(again)

        thread = threading.Thread(target=speak)
        thread.start()
        # If it is not bounded it ends, too: the peer goes away, and what is said then is something else.
        giving_up = threading.Timer(5, gone.set)
        giving_up.start()
        try:
            with pytest.raises(ConnectionFailedError) as told:
                Rest([f"http://127.0.0.1:{server.getsockname()[1]}"], "ada", seconds=0.2).call("GET", "/info")
            assert "in time" in told.value.because and not gone.is_set()
        finally:
            gone.set()
            giving_up.cancel()
            thread.join()


@pytest.mark.parametrize("header", ["Location", "Refresh"])
@pytest.mark.parametrize(
    "place", ["http://[", "http://a..b/", f"http://{'a' * 300}/", "http://1:x/", "http:///x"]
)
def test_who_sends_on_to_no_address_is_told_of(fake: Fake, header: str, place: str) -> None:
    told = place if header == "Location" else f"3; url={place}"
    fake.replies["/info"] = (307 if header == "Location" else 200, {header: told}, b"")
    with pytest.raises((ConnectionFailedError, RefusedError)):
        Rest([fake.url], "ada").call("GET", "/info")


@pytest.mark.parametrize("address", ["http://[", "ftp://n:1", "a..b:1", "n:x", "//", "n 1", "é\x1b:1"])
def test_a_node_whose_web_address_is_none_does_not_answer(fake: Fake, address: str) -> None:
    fake.replies["/ws/v1/node/containers"] = as_json({"containers": None})
    good = NodeReport("good:1", NodeState.RUNNING, "", fake.url[7:])
    strange = NodeReport("strange:1", NodeState.RUNNING, "", address)
    found, failed = YarnClient(Rest([], "ada")).containers_of([strange, good])
    assert (len(found), [name for name, _ in failed]) == (1, ["strange:1"])


def test_nodes_that_hang_have_a_time_together_and_nobody_waits_for_their_threads(fake: Fake) -> None:
    before = set(threading.enumerate())
    fake.replies["/ws/v1/node/containers"] = as_json({"containers": None})
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        hanging = f"127.0.0.1:{silent.getsockname()[1]}"
        nodes = [NodeReport(f"n:{number}", NodeState.RUNNING, "", hanging) for number in range(40)]
        nodes.insert(3, NodeReport("good:1", NodeState.RUNNING, "", fake.url[7:]))
        found, failed = YarnClient(Rest([], "ada", seconds=0.1)).containers_of(nodes)
        asked = {one for one in set(threading.enumerate()) - before if one.name.endswith("(work)")}
        assert len(found) == 1 and len(failed) == 40
        assert "too many nodes" in failed[-1][1].because
        assert all(one.daemon for one in asked)


def test_the_calls_that_change_something(fake: Fake) -> None:
    app = "application_1765400000000_0001"
    for what in ("state", "queue", "priority", "timeout"):
        fake.replies[f"/apps/{app}/{what}"] = as_json({}, 202)
    fake.replies[f"/apps/{app}"] = as_json({"app": {"id": app}})
    fake.replies["/apps/new-application"] = as_json({"application-id": app})
    fake.replies["/apps"] = (202, {"Location": f"{fake.url}/x"}, b"")
    engine = YarnClient(Rest([fake.url], "ada"))
    assert engine.submit(lambda given: {"application-id": given}) == app
    engine.change(rm.KillApplicationRequest(app))
    engine.change(rm.MoveApplicationRequest(app, "prod"))
    engine.change(rm.UpdateApplicationPriorityRequest(app, 7))
    engine.change(rm.UpdateApplicationTimeoutsRequest(app, 1765400000007))
    asked = [
        (method, path.removeprefix("/ws/v1/cluster"), json.loads(body or "null"))
        for method, path, _, body in fake.asked
        if method != "GET"  # how it is then
    ]
    moment = "2025-12-10T20:53:20.007+0000"
    assert expiry(1765400000007) == moment
    assert asked == [
        ("POST", "/apps/new-application", None),
        ("POST", "/apps", {"application-id": app}),
        ("PUT", f"/apps/{app}/state", {"state": "KILLED"}),
        ("PUT", f"/apps/{app}/queue", {"queue": "prod"}),
        ("PUT", f"/apps/{app}/priority", {"priority": 7}),
        ("PUT", f"/apps/{app}/timeout", {"timeout": {"type": "LIFETIME", "expiryTime": moment}}),
    ]
    with pytest.raises(ApplicationNotFoundError):
        engine.change(rm.KillApplicationRequest("application_1765400000000_0002"))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_submission_without_an_answer_is_repeated_once(fake: Fake, lost: int) -> None:
    app, bodies = "application_1765400000000_0001", list[bytes]()

    def hang_up_or_take(handler: http.server.BaseHTTPRequestHandler) -> None:
        bodies.append(fake.asked[-1][3])
        if len(bodies) > lost:
            handler.send_response(202)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            handler.close_connection = True

    fake.replies["/apps/new-application"] = as_json({"application-id": app})
    fake.replies["/apps"] = hang_up_or_take
    engine = YarnClient(Rest([fake.url], "ada"))
    if lost == 1:
        assert engine.submit(lambda given: {"application-id": given}) == app
    else:
        with pytest.raises(ConnectionFailedError, match="did not answer") as told:
            engine.submit(lambda given: {"application-id": given})
        assert "may have taken effect" in told.value.hint
    assert bodies == [json.dumps({"application-id": app}).encode()] * 2


def test_an_id_that_is_none_is_not_used(fake: Fake) -> None:
    fake.replies["/apps/new-application"] = as_json({"application-id": "../../etc"})
    with pytest.raises(YoppError, match="not YARN's"):
        YarnClient(Rest([fake.url], "ada")).submit(lambda given: {})
    assert len(fake.asked) == 1


def test_logs_are_text_and_a_page_is_none(fake: Fake) -> None:
    container, node = "container_1_0001_01_000002", NodeReport("n:1", NodeState.RUNNING, "", fake.url[7:])
    path = f"/ws/v1/node/containers/{container}/logs"
    for listed in (
        [{"containerLogInfo": [{"fileName": "stdout"}]}],
        {"containerLogInfo": {"fileName": "stdout"}},
    ):
        fake.replies[path] = as_json({"containerLogsInfo": listed})
        assert YarnClient(Rest([], "ada")).log_files(node, container) == ["stdout"]
    fake.replies[f"{path}/stdout"] = (200, {"Content-Type": "text/plain"}, b"hello\n")
    assert YarnClient(Rest([], "ada")).log(node, container, "stdout") == b"hello\n"
    fake.replies[f"{path}/stdout"] = (200, {"Content-Type": "text/html"}, HTML)
    with pytest.raises(ContainerNotFoundError) as told:
        YarnClient(Rest([], "ada")).log(node, container, "stdout")
    assert "yarn logs -applicationId application_1_0001" in told.value.hint


def test_nodes_that_do_not_answer_are_told_and_none_at_all_is_an_error(fake: Fake) -> None:
    fake.replies["/ws/v1/node/containers"] = as_json({"containers": None})
    good = NodeReport("good:1", NodeState.RUNNING, "", fake.url[7:])
    bad = NodeReport("bad:1", NodeState.RUNNING, "", nobody()[7:])
    engine = YarnClient(Rest([], "ada"))
    found, failed = engine.containers_of([bad, good])
    assert (len(found), [name for name, _ in failed]) == (1, ["bad:1"])
    with pytest.raises(ConnectionFailedError, match="cannot reach"):
        engine.containers_of([bad, bad])
    assert engine.containers_of([]) == ([], [])


def test_type_and_state_are_the_nodes(fake: Fake) -> None:
    # Hadoop's ResourceManager tells no type, and calls RUNNING what waits at its node
    one = {"containerId": "container_1_0001_01_000002", "containerState": "RUNNING", "nodeId": "n:1"}
    fake.replies["/apps/application_1_0001/appattempts/appattempt_1_0001_000001/containers"] = as_json(
        {"container": [one]}
    )
    there = {"id": one["containerId"], "state": "SCHEDULED", "executionType": "OPPORTUNISTIC"}
    fake.replies["/ws/v1/node/containers"] = as_json({"containers": {"container": [there]}})
    engine = YarnClient(Rest([fake.url], "ada"))
    told = engine.attempt_containers(ApplicationAttemptReport("appattempt_1_0001_000001", ""))
    node = NodeReport("n:1", NodeState.RUNNING, "", fake.url[7:])
    [found] = engine.in_truth(told, [node])
    assert (found.execution_type, found.state) == (ExecutionType.OPPORTUNISTIC, ContainerState.SCHEDULED)
    assert engine.in_truth(told, []) == told


def test_a_queued_container_has_no_logs_yet(fake: Fake) -> None:
    said = "java.lang.Exception: Container is not yet running. Current state is SCHEDULED"
    path = "/ws/v1/node/containers/container_1_0001_01_000002/logs"
    fake.replies[path] = as_json(
        {"RemoteException": {"exception": "WebApplicationException", "message": said}}, 503
    )
    node = NodeReport("n:1", NodeState.RUNNING, "", fake.url[7:])
    assert YarnClient(Rest([fake.url], "ada")).log_files(node, "container_1_0001_01_000002") == []
