"""Root's browser, in which a page of another user acts: with nobody's rights. The owner's link has the owner's.

The attacker is real: a server of another user that had the port before, with a page and a service worker that stay in
the browser when the port is the daemon's.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.live.conftest import Yopp, wait_until
from tests.ports import free_port
from tests.strangers import NOBODY_UID
from yarnopp_cli.cluster import resttoken
from yarnopp_cli.cluster.rundir import RunDir

from .browser import Browser, needs_chromium, opened
from .conftest import Site, WebCluster, started

pytestmark = [pytest.mark.live]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
APPS = "/ws/v1/cluster/apps"
SQUATTER = """
import encodings.idna, http.server, os, socket, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
PAGE = b'''<h1>mine</h1><script>
  navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready)
    .then(() => document.title = "stays");
</script>'''
WORKER = b'''self.addEventListener('activate', event => event.waitUntil(clients.claim()));
self.addEventListener('message', async event => {
  const [url, options] = event.data;
  try { event.ports[0].postMessage((await fetch(url, options)).status); }
  catch (error) { event.ports[0].postMessage(0); }
});'''
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_worker = self.path == "/worker.js"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_worker else "text/html")
        self.end_headers()
        self.wfile.write(WORKER if is_worker else PAGE)
    def log_message(self, *_):
        pass
server = Server((sys.argv[1], int(sys.argv[2])), Handler)
print("there", flush=True)
server.serve_forever()
"""
WAYS = {
    "fetch": "status = (await fetch(url, options)).status",
    "fetch without a referrer": "status = (await fetch(url, {...options, referrerPolicy: 'no-referrer'})).status",
    "fetch in mode same-origin": "status = (await fetch(url, {...options, mode: 'same-origin'})).status",
    "fetch with headers of a program": """
        const program = {'User-Agent': 'curl/8', 'Accept-Language': '*', 'Sec-Fetch-Site': 'none', Origin: ''};
        status = (await fetch(url, {...options, headers: {...options.headers, ...program}})).status""",
    "XMLHttpRequest": """
        status = await new Promise(resolve => {
          const request = new XMLHttpRequest();
          request.open(options.method, url);
          for (const [name, value] of Object.entries(options.headers)) request.setRequestHeader(name, value);
          request.onloadend = () => resolve(request.status);
          request.send(options.body);
        })""",
    "service worker": """
        const channel = new MessageChannel();
        const answer = new Promise(resolve => { channel.port1.onmessage = event => resolve(event.data); });
        (await navigator.serviceWorker.ready).active.postMessage([url, options], [channel.port2]);
        status = await answer""",
}
"""How a page makes a request; each sets ``status``."""


def ask(browser: Browser, way: str, method: str, url: str, body: Any = None) -> int:
    """The status of a request that the open page makes; 0 for none."""
    options = {"method": method, "headers": {"Content-Type": "application/json"}}
    if body is not None:
        options["body"] = json.dumps(body)
    script = f"let status = 0; try {{ {WAYS[way]} }} catch (error) {{ }} return status;"
    return int(
        browser.run(f"const [url, options] = arguments; return (async () => {{ {script} }})()", url, options)
    )


@contextmanager
def squatter(host: str, port: int) -> Iterator[None]:
    """Another user's server."""
    words = [sys.executable, "-I", "-c", SQUATTER, host, str(port), str(NOBODY_UID)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert server.stdout is not None and server.stdout.readline() == "there\n"
        yield
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


def sleeper(yopp: Yopp) -> tuple[str, str]:
    """A job that runs, and its container."""
    job = yopp("run", "-q", "-d", "--memory", "64", "sh", "-c", "echo secret; sleep 600").stdout.split()[-1]
    yopp("wait", job, "--for", "RUNNING")
    found = ("--app", job, "--state", "RUNNING")
    return job, str(wait_until(lambda: yopp.containers(*found), what="it runs")[0]["id"])


@as_root
@needs_chromium
@pytest.mark.parametrize("daemon", ["resourcemanager", "nodemanager"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_page_of_whoever_had_the_port_before_has_nobodys_rights(
    yopp: Yopp, browser: Browser, daemon: str, host: str
) -> None:
    port = free_port()
    with squatter("127.0.0.1", port):
        browser.open(f"http://{host}:{port}/")
        browser.until(lambda: browser.driver.title == "stays", "the worker is registered")
    web = started(yopp, f"-Dyarn.{daemon}.webapp.address={host}:{port}", "--vcores", "2", "--memory", "1024")
    job, container = sleeper(yopp)
    own = f"http://{host}:{port}"
    if daemon == "resourcemanager":
        spec = {"commands": {"command": f"touch {yopp.home}/proof"}}
        promised = web.rm("POST", f"{APPS}/new-application").json["application-id"]
        submission = {"application-id": promised, "application-name": "mine", "am-container-spec": spec}
        refused = [
            ("POST", f"{APPS}/new-application", None),
            ("POST", APPS, submission),
            ("PUT", f"{APPS}/{job}/state", {"state": "KILLED"}),
            ("POST", f"/ws/v1/cluster/containers/{container}/signal/FORCEFUL_SHUTDOWN", None),
            ("GET", "/stacks", None),
            ("GET", "/logs/rm.log", None),
        ]
        public = f"{APPS}/{job}"
    else:
        refused = [
            ("GET", f"/ws/v1/node/containers/{container}/logs/stdout", None),
            ("GET", f"/node/containerlogs/{container}/root/stdout", None),
            ("PUT", "/ws/v1/node/auxiliaryservices", {}),
        ]
        public = "/ws/v1/node/info"
    for way in WAYS:
        assert ask(browser, way, "GET", own + public) == 200, f"{way}: everybody may read that"
        for method, path, body in refused:
            assert ask(browser, way, method, own + path, body) == 403, (way, path)
    assert web.rm.get(f"{APPS}/{job}").json["app"]["state"] == "RUNNING"
    assert [one["id"] for one in yopp.containers("--state", "RUNNING")] == [container]
    assert not (yopp.home / "proof").exists()
    assert web.rm("PUT", f"{APPS}/{job}/state", {"state": "KILLED"}).status == 200, "a program of root's may"


@as_root
def test_a_port_whose_other_loopback_address_is_another_users_is_not_taken(yopp: Yopp) -> None:
    port = free_port()
    with squatter("::1", port):
        for daemon in ("resourcemanager", "nodemanager"):
            refused = yopp("up", f"-Dyarn.{daemon}.webapp.address=localhost:{port}", code=None)
            assert refused.returncode and f"port {port} is taken" in refused.stderr, refused
            yopp("down", "-y", code=None)


@needs_chromium
def test_the_owners_link_has_the_owners_rights_until_the_daemon_ends(
    web: WebCluster, browser: Browser
) -> None:
    job, _ = sleeper(web.yopp)
    browser.open(f"{web.nm.url}/node/allContainers")
    browser.driver.find_element("css selector", "td a").click()
    browser.driver.find_element("link text", "Link to logs").click()
    browser.until(lambda: "`yopp status` prints" in browser.text(), "the refusal")
    assert ask(browser, "fetch", "POST", f"{web.rm.url}{APPS}/new-application") == 0, "it is another origin"
    browser.open(f"{web.rm.url}/cluster")
    assert ask(browser, "fetch", "POST", f"{web.rm.url}{APPS}/new-application") == 403

    link = link_of(web.yopp)
    assert web.yopp.json("status")["clusterInfo"]["yopp"]["rm"]["link"] == link
    browser.open(f"{link}cluster/app/{job}")
    assert ask(browser, "fetch", "PUT", f"{link.rstrip('/')}{APPS}/{job}/priority", {"priority": 3}) == 200
    browser.driver.find_element("css selector", "a[href*='container_']").click()
    browser.driver.find_element("link text", "Link to logs").click()
    browser.until(lambda: "secret" in browser.texts("pre")[1], "the output, at the node")
    browser.driver.find_element("link text", "Cluster").click()
    assert browser.run("return location.origin + '/'") == link, "and back"

    web.yopp("rm", "restart")
    browser.until(lambda: "no longer valid" in browser.text("#link"), "the old link has ended")
    assert ask(browser, "fetch", "POST", f"{link.rstrip('/')}{APPS}/new-application") == 403
    fresh = link_of(web.yopp)
    browser.open(f"{fresh}cluster")
    assert (
        fresh != link and ask(browser, "fetch", "POST", f"{fresh.rstrip('/')}{APPS}/new-application") == 200
    )


def link_of(yopp: Yopp) -> str:
    found = re.search(r"http://[0-9a-f]{32}\.localhost:\d+/", yopp("status").stdout)
    assert found
    return found[0]


def test_a_link_is_for_its_owner_alone_and_is_written_nowhere(web: WebCluster) -> None:
    link = link_of(web.yopp)
    name = link.removeprefix("http://").partition(".")[0]
    host = {"Host": link.removeprefix("http://").rstrip("/")}
    browsers = {**host, "Sec-Fetch-Site": "same-origin", "Origin": link.rstrip("/")}
    assert web.rm("POST", f"{APPS}/new-application", headers=browsers).status == 200
    other = {**browsers, "Origin": web.rm.url}
    assert web.rm("POST", f"{APPS}/new-application", headers=other).status == 403, (
        "a page with another origin"
    )
    assert web.nm("GET", "/node", headers=host).status == 403, "each daemon has its own"
    assert web.rm("GET", "/cluster", headers={"Host": f"{'0' * 32}.localhost:{web.rm.port}"}).status == 403
    without = web.rm("GET", "/ws/v1/cluster/info", headers={"Sec-Fetch-Site": "same-origin"}).json
    assert without["clusterInfo"]["yopp"]["rm"]["link"] == "", "a page that reads it has none"
    web.yopp("run", "true")
    written = [*web.yopp.run_dir.glob("*"), *(web.yopp.run_dir / "state").rglob("*")]
    assert not [one for one in written if one.is_file() and name.encode() in one.read_bytes()]
    assert name not in web.yopp("events").stdout
    (web.yopp.run_dir / "rest.token").write_text("")
    assert web.rm("POST", f"{APPS}/new-application", headers=browsers).status == 403, "it is taken back"
    assert ".localhost" not in web.yopp("status").stdout


def test_a_link_is_of_one_boot(web: WebCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `yopp down`, the token stays; a process of a later boot may have the same number and start time."""
    run_dir = RunDir.of(str(web.yopp.run_dir))
    before = resttoken.links(run_dir)
    monkeypatch.setattr(resttoken, "boot_id", lambda: "another")
    after = resttoken.links(run_dir)
    assert before.keys() == after.keys() != set() and not {*before.values()} & {*after.values()}


@needs_chromium
def test_a_page_makes_no_call_at_a_port_for_programs(yopp: Yopp, browser: Browser) -> None:
    """The body of a request is lines, each of which would be a call."""
    port, theirs = free_port(), free_port()
    web = started(yopp, f"-Dyarn.resourcemanager.address=localhost:{port}")
    with squatter("127.0.0.1", theirs):
        browser.open(f"http://localhost:{theirs}/")
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "shutdownCluster", "params": {}})
    script = "return fetch(arguments[0], {method: 'POST', mode: 'no-cors', body: arguments[1]}).then(() => 1, () => 0)"
    browser.run(script, f"http://localhost:{port}/", f"\n{call}\n")
    with socket.create_connection(("localhost", port), 20) as caller:
        caller.sendall(f"POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n{call}\n".encode())
        assert caller.makefile().read().count("jsonrpc") == 1, "it hears of the first line, and of no other"
    assert Site(web.rm.address).get("/ws/v1/cluster/info").status == 200
    assert yopp.json("status")["clusterInfo"]["yopp"]["state"] == "running"
