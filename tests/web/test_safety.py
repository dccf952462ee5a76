"""What bad input and strangers get: refused clearly, nothing executed, nothing hanging."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import time
import zlib
from functools import partial
from pathlib import Path

import pytest

from tests.live.conftest import Yopp
from tests.ports import free_port
from yarnopp_cli.web.http import MOST
from yarnopp_cli.web.logs import MOST_FILES

from .conftest import Site, WebCluster, started

pytestmark = pytest.mark.live
APPS = "/ws/v1/cluster/apps"
BACKLOG = 128


def applications(web: WebCluster) -> int:
    found = web.rm.get(APPS).json["apps"]
    return len(found["app"]) if found else 0


def new_id(web: WebCluster) -> str:
    return str(web.rm("POST", f"{APPS}/new-application").json["application-id"])


def test_the_refusal_of_an_id_has_it_as_it_was_given(shared: WebCluster) -> None:
    for daemon, path in ((shared.rm, APPS), (shared.nm, "/ws/v1/node/apps")):
        refused = daemon("GET", f"{path}/application_x")
        assert refused.status == 400 and "'application_x'" in refused.json["RemoteException"]["message"]


def test_unknown_and_malformed_ids_and_methods(shared: WebCluster) -> None:
    rm, nm = shared.rm, shared.nm
    unknown = "application_1_0001"
    cases = [
        (rm, "GET", f"{APPS}/{unknown}", 404, "NotFoundException"),
        (rm, "GET", f"{APPS}/application_1_1", 404, "NotFoundException"),  # as YARN reads it
        (rm, "GET", f"{APPS}/application_1_", 400, "BadRequestException"),
        (nm, "GET", "/ws/v1/node/apps/application_1_1", 404, "NotFoundException"),
        (rm, "GET", f"{APPS}/nonsense", 400, "BadRequestException"),
        (rm, "GET", f"{APPS}/application_%00_1", 400, "BadRequestException"),
        (rm, "GET", f"{APPS}/{unknown}/appattempts/appattempt_1_0001_000001", 404, "NotFoundException"),
        (rm, "PUT", f"{APPS}/{unknown}/state", 400, "BadRequestException"),
        (rm, "GET", "/ws/v1/cluster/nodes/nowhere:1", 404, "NotFoundException"),
        (rm, "GET", "/ws/v1/cluster/nodes?states=SLEEPY", 400, "BadRequestException"),
        (rm, "GET", f"{APPS}?states=SLEEPY", 400, "BadRequestException"),
        (rm, "GET", f"{APPS}?limit=-1", 400, "BadRequestException"),
        (rm, "GET", f"{APPS}?limit=" + "9" * 5000, 400, "BadRequestException"),
        (rm, "GET", f"{APPS}?startedTimeBegin=5&startedTimeEnd=4", 400, "BadRequestException"),
        (rm, "GET", "/ws/v1/cluster/nothing", 404, "NotFoundException"),
        (rm, "DELETE", APPS, 405, "WebApplicationException"),
        (rm, "PATCH", f"{APPS}/{unknown}", 405, "WebApplicationException"),
        (rm, "POST", "/ws/v1/cluster/metrics", 405, "WebApplicationException"),
        (rm, "POST", "/ws/v1/cluster/containers/x/signal/FORCEFUL_SHUTDOWN", 400, "BadRequestException"),
        (rm, "POST", "/ws/v1/cluster/containers/container_1_0001_01_000001/signal/HUG", 400, "BadRequestException"),
        (rm, "POST", "/ws/v1/cluster/delegation-token", 403, "ForbiddenException"),
        (rm, "GET", "/ws/v1/cluster/reservation/list", 400, "UnsupportedOperationException"),
        (nm, "GET", "/ws/v1/node/containers/nonsense", 400, "BadRequestException"),
        (nm, "GET", "/ws/v1/node/containers/container_1_0001_01_000001", 404, "NotFoundException"),
        (nm, "GET", "/ws/v1/node/containers/container_1_0001_01_000001/logs/stdout", 404, "NotFoundException"),
        (nm, "GET", "/ws/v1/node/apps?state=SLEEPY", 400, "BadRequestException"),
        (nm, "DELETE", "/ws/v1/node/containers", 405, "WebApplicationException"),
    ]  # fmt: skip
    for site, method, path, status, exception in cases:
        answer = site(method, path)
        assert (answer.status, answer.exception) == (status, exception), (method, path[:80], answer)
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert rm("DELETE", APPS).headers["allow"].split(",") == ["GET", "HEAD", "POST"]


def test_bad_bodies_are_refused_and_nothing_is_submitted(shared: WebCluster) -> None:
    before, application = applications(shared), new_id(shared)
    command = {"commands": {"command": "true"}}
    bad: list[object] = [
        [], 7, None, "text", {}, {"application-id": 7}, {"application-id": application},
        {"application-id": application, "am-container-spec": []},
        {"application-id": application, "am-container-spec": {"commands": {"command": "  "}}},
        {"application-id": application, "am-container-spec": {"commands": {"command": "a\0b"}}},
        {"application-id": application, "am-container-spec": command, "priority": "high"},
        {"application-id": application, "am-container-spec": command, "priority": 2**40},
        {"application-id": application, "am-container-spec": command, "resource": {"memory": -1, "vCores": 1}},
        {"application-id": application, "am-container-spec": command, "resource": {"memory": 10**9, "vCores": 1}},
        {"application-id": application, "am-container-spec": command, "queue": "nowhere"},
        {"application-id": application, "am-container-spec": command, "unmanaged-AM": True},
        {"application-id": application, "am-container-spec": command, "application-tags": {"tag": [1]}},
        {"application-id": application, "am-container-spec": {**command, "environment": {"entry": [{"key": "a=b"}]}}},
        {"application-id": application, "am-container-spec": {**command, "local-resources": {"entry": [{}]}}},
        {"application-id": "application_1_0001", "am-container-spec": command},
    ]  # fmt: skip
    for body in bad:
        answer = shared.rm("POST", APPS, body)
        assert 400 <= answer.status < 500, (body, answer)
        assert answer.json["RemoteException"]["message"]
    raw = (b"{", b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"nul", b"1e999999")
    for data in raw:
        assert (
            shared.rm("POST", APPS, data, raw=True, headers={"Content-Type": "application/json"}).status
            == 400
        )
    huge = shared.rm(
        "POST", APPS, b" " * (5 * 1024 * 1024), raw=True, headers={"Content-Type": "application/json"}
    )
    assert (huge.status, huge.exception) == (413, "BadRequestException")
    for encoding in ("gzip", "deflate", "br", "sdch"):
        packed = shared.rm(
            "POST", APPS, b"{}", raw=True,
            headers={"Content-Type": "application/json", "Content-Encoding": encoding},
        )  # fmt: skip
        assert packed.status == 415, (encoding, packed)
    bomb = zlib.compress(b'{"application-id":"' + b" " * (64 * 1024 * 1024) + b'"}')
    packed = shared.rm(
        "POST", APPS, bomb, raw=True,
        headers={"Content-Type": "application/json", "Content-Encoding": "deflate"},
    )  # fmt: skip
    assert (packed.status, b"without Content-Encoding" in packed.body) == (415, True), "nobody unpacks it"
    for state in (None, 7, [], {}, ["KILLED"], {"KILLED": 1}, "NOTHING"):
        answer = shared.rm("PUT", f"{APPS}/{application}/state", {"state": state})
        assert (answer.status, answer.exception) == (400, "BadRequestException"), state
    form = shared.rm(
        "POST", APPS, b"a=b", raw=True, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert (form.status, form.exception) == (415, "BadRequestException")
    assert applications(shared) == before


def test_other_sites_and_other_names_are_refused(shared: WebCluster) -> None:
    rm = shared.rm
    for path in ("/ws/v1/cluster/info", "/metrics"):
        assert rm("GET", path, headers={"Host": "evil.example"}).status == 403
        assert rm("GET", path, headers={"Host": f"evil.example:{rm.port}"}).status == 403
        for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]", socket.gethostname()):
            assert rm("GET", path, headers={"Host": f"{name}:{rm.port}"}).status == 200
    for headers in (
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Origin": f"http://localhost:{rm.port + 1}"},
    ):  # fmt: skip
        answer = rm("POST", f"{APPS}/new-application", headers=headers)
        assert (answer.status, answer.exception) == (403, "ForbiddenException"), headers
    same = {"Origin": f"http://localhost:{rm.port}", "Host": f"localhost:{rm.port}"}
    named = {"Accept-Language": "*", "Host": f"{socket.gethostname()}:{rm.port}"}
    browsers = (
        {"Cookie": "a=b"},
        {"Referer": rm.url},
        {"Accept-Language": "en"},
        {"Sec-Fetch-Dest": "empty"},
    )
    for headers in (same, named, *browsers):
        assert rm("POST", f"{APPS}/new-application", headers=headers).status == 403, (
            "it came without the link"
        )
    nodes = {"Accept-Language": "*", "Sec-Fetch-Mode": "cors", "User-Agent": "node"}
    assert rm("POST", f"{APPS}/new-application", headers=nodes).status == 200, (
        "a program that calls by Node's fetch"
    )


DAEMONS_OWN = ("/stacks", "/logs/", "/logs/rm.log")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_may_look_and_change_nothing(shared: WebCluster) -> None:
    job = shared.yopp("run", "-q", "-d", "sleep", "60").stdout.split()[-1]
    shared.yopp("wait", job, "--for", "RUNNING")
    (container,) = shared.yopp.containers("--app", job)[:1]
    code = """
import json, os, sys, urllib.error, urllib.request, encodings.idna
os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = []
for method, url, body in json.loads(sys.argv[1]):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body and body.encode(), method=method, headers=headers)
    try:
        found.append(urllib.request.urlopen(request, timeout=10).status)
    except urllib.error.HTTPError as error:
        found.append(error.code)
print(json.dumps(found))
"""
    asked = [
        ("GET", f"{shared.rm.url}{APPS}/{job}", None),
        ("PUT", f"{shared.rm.url}{APPS}/{job}/state", '{"state":"KILLED"}'),
        ("POST", f"{shared.rm.url}{APPS}/new-application", None),
        ("GET", f"{shared.nm.url}/ws/v1/node/containers", None),
        ("GET", f"{shared.nm.url}/ws/v1/node/containers/{container['id']}/logs/stdout", None),
        ("GET", f"{shared.rm.url}/conf", None),
        *(("GET", f"{site.url}{path}", None) for site in (shared.rm, shared.nm) for path in DAEMONS_OWN),
    ]
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code, json.dumps(asked)],
        capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert json.loads(ended.stdout) == [200, 403, 403, 200, 403, 200] + [403] * 6, ended
    assert shared.rm.get(f"{APPS}/{job}/state").json == {"state": "RUNNING"}


def as_nobody(urls: list[str], *, method: str = "GET", token: str = "") -> list[int]:
    """What another user's requests are answered with."""
    code = """
import json, os, sys, urllib.error, urllib.request, encodings.idna
os.setgroups([]); os.setgid(65534); os.setuid(65534)
method, token, *urls = sys.argv[1:]
for url in urls:
    request = urllib.request.Request(url, method=method, headers={"Authorization": token} if token else {})
    try:
        print(urllib.request.urlopen(request, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    words = [sys.executable, "-I", "-c", code, method, token, *urls]
    return [
        int(line) for line in subprocess.run(words, capture_output=True, text=True, timeout=60).stdout.split()
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_who_has_the_token_of_the_run_directory_is_its_owner_and_nobody_else_is(web: WebCluster) -> None:
    file = web.yopp.run_dir / "rest.token"
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(token) >= 32
    logs, new = [f"{site.url}/logs/" for site in (web.rm, web.nm)], f"{web.rm.url}{APPS}/new-application"
    assert as_nobody(logs, token=f"Bearer {token}") == [200, 200]
    assert as_nobody([new], method="POST", token=f"bearer {token}") == [200]
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        f"Basic {token}",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        token,
    ):
        assert as_nobody([*logs, new], token=wrong)[:2] == [403, 403], wrong
        assert as_nobody([new], method="POST", token=wrong) == [403], wrong
    other = {"Origin": "http://evil.example", "Authorization": f"Bearer {token}"}
    assert web.rm("POST", f"{APPS}/new-application", headers=other).status == 403, "a page that knew it, too"
    file.chmod(0o644)
    assert as_nobody(logs, token=f"Bearer {token}") == [403, 403], "others may have read it"
    file.write_text("")
    assert as_nobody(logs, token=f"Bearer {token}") == [403, 403], "it is taken back"
    assert as_nobody(logs, token="Bearer ") == [403, 403]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_where_a_property_says_so_another_user_may_not_even_look(yopp: Yopp) -> None:
    web = started(yopp, "-Dyopp.webapp.readers=owner")
    code = """
import os, sys, urllib.error, urllib.request, encodings.idna
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    urls = [
        f"{web.rm.url}{APPS}",
        f"{web.rm.url}/metrics",
        f"{web.rm.url}/cluster",
        f"{web.nm.url}/ws/v1/node/info",
    ]
    told = subprocess.run(
        [sys.executable, "-I", "-c", code, *urls], capture_output=True, text=True, timeout=60
    )
    assert told.stdout.split() == ["403"] * len(urls), told
    assert web.rm.get(APPS).status == web.rm.get("/metrics").status == 200


def own_address() -> str:
    """An address of this machine that is not loopback, "" if it has none."""
    import psutil

    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not one.address.startswith(("127.", "169.254.")):
                return one.address
    return ""


@pytest.mark.skipif(not own_address(), reason="needs an address besides loopback")
def test_callers_from_elsewhere_may_look_where_a_property_lets_them_and_change_nothing(yopp: Yopp) -> None:
    defines = (
        "-Dyopp.webapp.loopback-only=false", "-Dyarn.resourcemanager.webapp.address=0.0.0.0:0",
        "-Dyarn.nodemanager.webapp.address=0.0.0.0:0",
    )  # fmt: skip
    info = yopp.json("up", *defines)["clusterInfo"]["yopp"]
    host, _, port = info["rm"]["http"].rpartition(":")
    assert host == socket.gethostname()
    elsewhere, here = Site(f"{own_address()}:{port}"), Site(f"127.0.0.1:{port}")
    assert elsewhere.get("/ws/v1/cluster/info").status == 200
    refused = elsewhere("POST", f"{APPS}/new-application")
    assert (refused.status, refused.exception) == (403, "ForbiddenException")
    assert here("POST", f"{APPS}/new-application").status == 200


def test_any_number_of_log_files_is_listed_in_part_and_said_so(shared: WebCluster) -> None:
    """300,000 files in a submitter's log directory kept the node's loop busy for seconds."""
    make = f"cd $LOG_DIRS && python3 -c 'for n in range({2 * MOST_FILES}): open(str(n), \"w\")'"
    job = shared.yopp("dshell", "-q", "-d", "--shell-command", make).stdout.split()[-1]
    shared.yopp("wait", job)
    (one,) = [one["id"] for one in shared.yopp.containers("-a", "--app", job) if not one["yopp"]["am"]]
    told = shared.nm.get(f"/ws/v1/node/containers/{one}/logs").json["containerLogsInfo"]
    names = [file["fileName"] for file in told["containerLogInfo"]]
    assert MOST_FILES <= len(names) <= MOST_FILES + 2 and {"stdout", "stderr"} <= set(names)
    assert told["yopp"] == {"more": True}
    assert "More files are in" in shared.nm.get(f"/node/containerlogs/{one}/root").body.decode()


def test_logs_are_read_from_plain_files_of_the_container_only(shared: WebCluster) -> None:
    shout = r"printf '\033]0;x\007<script>alert(1)</script>\377\n'"
    shout += "; ln -s /etc/passwd $LOG_DIRS/sneaky; mkfifo $LOG_DIRS/pipe"
    job = shared.yopp("dshell", "-q", "-d", "--shell-command", shout).stdout.split()[-1]
    shared.yopp("wait", job)
    ids = [one["id"] for one in shared.yopp.containers("-a", "--app", job) if not one["yopp"]["am"]]
    base = f"/ws/v1/node/containers/{ids[0]}/logs"
    listed = shared.nm.get(base).json["containerLogsInfo"]["containerLogInfo"]
    assert sorted(one["fileName"] for one in listed) == ["stderr", "stdout"]
    text = shared.nm.get(f"{base}/stdout")
    assert text.body == b"\x1b]0;x\x07<script>alert(1)</script>\xff\n"
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.headers["x-content-type-options"] == "nosniff"
    assert shared.nm.get(f"{base}/stdout?size=-2").body == b"\xff\n"
    assert shared.nm.get(f"{base}/stdout?size=3").body == b"\x1b]0"
    assert shared.nm.get(f"{base}/stdout?start=4").body == text.body[4:]
    assert shared.nm.get(f"{base}/stdout?size=a").status == 400
    for name in ("sneaky", "pipe", "..", "%2e%2e", "..%2f..%2fx", "%2fetc%2fpasswd", "stdout%00", "absent"):
        assert shared.nm.get(f"{base}/{name}").status in (400, 404), name


def test_callers_that_say_nothing_or_half_do_not_stop_others(web: WebCluster) -> None:
    idle = []
    try:
        half = b"POST /ws/v1/cluster/apps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for sent in (b"", half, half + b"Content-Length: 100\r\n\r\n{"):
            for _ in range(20):
                connection = socket.create_connection((web.rm.host, web.rm.port), timeout=5)
                connection.sendall(sent)
                idle.append(connection)
        assert web.rm.get("/ws/v1/cluster/info").status == 200  # while all of them are still there
        for garbage in (
            b"\x16\x03\x01\x02\x00\x01",
            b"\0" * 4096,
            b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200_000,
        ):
            with socket.create_connection((web.rm.host, web.rm.port), timeout=20) as connection:
                try:
                    connection.sendall(garbage + b"\r\n\r\n")
                    connection.shutdown(socket.SHUT_WR)
                    answer = connection.recv(65536)
                except OSError:
                    answer = b""
                assert not answer or (answer.startswith(b"HTTP/1.") and b" 400 " in answer[:20]), answer[:60]
        assert web.rm.get("/ws/v1/cluster/info").status == 200
        for path, headers in (("/cluster/" + "a" * 9000, {}), ("/ws/v1/cluster", {"X_Long": "b" * 9000})):
            refused = web.rm.get(path, **headers)
            assert (refused.status, refused.exception) == (400, "BadRequestException"), path[:20]
            assert refused.headers["content-type"] == "application/json; charset=utf-8"
            assert refused.headers["server"] == "yopp" and refused.json["yopp"]["because"]
        assert "Traceback" not in (web.yopp.run_dir / "rm.log").read_text()
    finally:
        for connection in idle:
            connection.close()
    assert "ended rm, nm-45454" in web.yopp("down", "-y").stdout


def test_a_crowd_of_silent_callers_leaves_the_daemon_its_descriptors(web: WebCluster) -> None:
    """Who is silent for longest goes; whoever asks is answered, and containers still start."""
    pid = int((web.yopp.run_dir / "rm.pid").read_text())
    crowd: list[socket.socket] = []
    try:
        for _ in range(2 * MOST):
            crowd.append(socket.create_connection((web.rm.host, web.rm.port), timeout=10))
            if len(crowd) % 64 == 0:
                assert web.rm.get("/ws/v1/cluster/info").status == 200
        assert len(os.listdir(f"/proc/{pid}/fd")) < MOST + 60
        assert "well" in web.yopp("run", "echo", "well").stdout.split()
        crowd[0].settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert crowd[0].recv(1) == b""
    finally:
        for one in crowd:
            one.close()
    assert web.rm.get("/ws/v1/cluster/info").status == 200


def test_a_crowd_that_comes_at_once_does_not_take_all_the_descriptors_of_a_daemon_that_has_few(
    yopp: Yopp,
) -> None:
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (BACKLOG, BACKLOG))
    up = yopp.start("up", "--ports", "auto", "--vcores", "2", "--memory", "1024", preexec_fn=few)
    assert up.wait(60) == 0
    rm = Site((yopp.run_dir / "rm.http").read_text().strip())
    crowd: list[socket.socket] = []
    try:
        for _ in range(BACKLOG):  # all wait in the kernel while the first one's server is loaded
            one = socket.socket()
            one.setblocking(False)
            crowd.append(one)
            one.connect_ex((rm.host, rm.port))
        assert "well" in yopp("run", "echo", "well").stdout.split()
        assert rm.get("/ws/v1/cluster/info").status == 200
        assert "well" in yopp("run", "echo", "well").stdout.split()
    finally:
        for one in crowd:
            one.close()
    assert "Too many open files" not in (yopp.run_dir / "rm.log").read_text()


CROWD = """
import os, resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
ended, callers = select.epoll(), {}
def call():
    caller = socket.socket()
    caller.setblocking(False)
    caller.connect_ex(("127.0.0.1", int(sys.argv[1])))
    callers[caller.fileno()] = caller
    ended.register(caller, select.EPOLLRDHUP)
for _ in range(1500):
    call()
print("there", flush=True)
while True:
    for number, _ in ended.poll():
        callers.pop(number).close()
        call()
"""


@pytest.mark.parametrize("daemon", ["rm", "nm-45454", "tcp"])
def test_a_silent_crowd_that_comes_again_and_again_takes_no_daemons_loop(yopp: Yopp, daemon: str) -> None:
    """1,500 callers, each of whom connects anew as soon as it is turned away."""
    port = free_port()
    web = started(yopp, f"-Dyarn.resourcemanager.address=localhost:{port}")
    if daemon != "tcp":
        assert web.rm.get("/cluster").status == 200, "its web server is loaded"
        assert web.nm.get("/node").status == 200
        port = (web.rm if daemon == "rm" else web.nm).port
    pid = int((yopp.run_dir / f"{'rm' if daemon == 'tcp' else daemon}.pid").read_text().split()[0])

    def used() -> float:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    crowd = subprocess.Popen(
        [sys.executable, "-I", "-c", CROWD, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert crowd.stdout is not None and crowd.stdout.readline() == "there\n"
        before, began = used(), time.monotonic()
        while time.monotonic() < began + 3:
            yopp("run", "true")
        assert used() - before < 0.2 * (time.monotonic() - began)
    finally:
        crowd.kill()
        crowd.communicate()


def listening(run_dir: Path) -> set[int]:
    """TCP ports on which the daemons of a run directory listen."""
    import psutil

    pids = {int(path.read_text()) for path in run_dir.glob("*.pid")}
    return {
        one.laddr.port
        for one in psutil.net_connections("tcp")
        if one.pid in pids and one.status == psutil.CONN_LISTEN
    }


def test_a_cluster_of_one_job_opens_no_port_until_it_is_made_to_stay(yopp: Yopp) -> None:
    job = yopp("run", "-q", "-d", "sleep", "60").stdout.split()[-1]
    assert listening(yopp.run_dir) == set()
    assert yopp.json("status")["clusterInfo"]["yopp"]["rm"]["http"] == ""
    web = started(yopp)
    from tests.live.conftest import wait_until

    wait_until(lambda: web.rm.get(f"{APPS}/{job}").json["app"]["state"] == "RUNNING", what="it runs")
    address = wait_until(
        lambda: web.rm.get("/ws/v1/cluster/nodes").json["nodes"]["node"][0]["nodeHTTPAddress"]
    )
    assert Site(address).get("/ws/v1/node/info").status == 200
    assert listening(yopp.run_dir) == {web.rm.port, Site(address).port}
    assert (yopp.run_dir / "rm.http").read_text() == f"{web.rm.address}\n"
    assert (yopp.run_dir / "nm-45454.http").read_text() == f"{address}\n"
    yopp("down", "-y")
    assert not list(yopp.run_dir.glob("*.http"))


def test_daemons_load_the_web_server_with_its_first_caller(web: WebCluster) -> None:
    pids = {path.stem: int(path.read_text()) for path in web.yopp.run_dir.glob("*.pid")}

    def has_aiohttp(name: str) -> bool:
        return "aiohttp" in Path(f"/proc/{pids[name]}/maps").read_text()

    assert not has_aiohttp("rm") and not has_aiohttp("nm-45454")
    assert web.rm.get("/ws/v1/cluster/info").status == 200
    assert has_aiohttp("rm") and not has_aiohttp("nm-45454")


def test_a_taken_port_says_by_whom_and_what_to_type(yopp: Yopp) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = yopp("up", f"-Dyarn.resourcemanager.webapp.address=localhost:{port}", code=1)
        assert f"port {port} is taken" in refused.stderr
        assert f"process {os.getpid()}" in refused.stderr
        assert (
            "-Dyarn.resourcemanager.webapp.address=localhost:" in refused.stderr
            and "--ports auto" in refused.stderr
        )
    refused = yopp("up", "-Dyarn.resourcemanager.webapp.address=192.0.2.1:80", code=78)
    assert "loopback" in refused.stderr and "yopp.webapp.loopback-only=false" in refused.stderr
    assert yopp.json("up", "-Dyarn.resourcemanager.webapp.address=", "-Dyarn.nodemanager.webapp.address=")
    assert listening(yopp.run_dir) == set()
