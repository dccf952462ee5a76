"""The acceptance list of the command line, (b) to (i), over the real program. tests/index.md names the other tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from yarnopp_cli.cli.tree import root

from ..patience import PATIENCE
from . import schema
from .conftest import Yopp, wait_until
from .schema import mismatch

pytestmark = pytest.mark.live

CALM = "-Dyopp.nodemanager.pressure.enabled=false"
"""Whatever else the machine has to do, containers run at once."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command that does something, by what is typed."""
    below = getattr(command, "commands", None)
    if below is None:
        return {" ".join(words): command}
    return {path: leaf for name in list(below) for path, leaf in leaves(below[name], (*words, name)).items()}


COMMANDS = leaves(root())


EACH_HELP = """
import os, sys
import yarnopp_cli.__main__ as program
for words in sys.argv[1:]:
    child = os.fork()
    if not child:
        sys.argv = ["yopp", *words.split(), "--help"]
        program.main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, b"\\0%d " % code)
"""
"""The help of each of its arguments, by a process each: one start of Python for all of them."""

# -- (b) help and completion need nothing ----------------------------------------------------------------------


def test_help_and_completion_need_no_daemon_no_configuration_and_no_home(yopp: Yopp) -> None:
    yopp.home.chmod(0o555)
    nowhere = {
        "YOPP_CONF": "/nonexistent/site.toml",
        "HOME": str(yopp.home),
        "YOPP_RUN_DIR": "/nonexistent/run",
    }
    try:
        assert "Usage" in yopp("--help", env=nowhere).stdout
        ended = subprocess.run(
            [sys.executable, "-c", EACH_HELP, *COMMANDS], env=yopp.environment | nowhere, cwd=yopp.home,
            capture_output=True, text=True, timeout=110,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        assert [page.split(" ", 1)[0] for page in ended.stdout.split("\0")[1:]] == ["0"] * len(COMMANDS)
        assert ended.stdout.count("Usage") >= len(COMMANDS)
        for shell in ("bash", "zsh", "fish"):
            assert yopp("completion", shell, env=nowhere).stdout
        assert "container" in yopp("completion", "words", "co", env=nowhere).stdout.split()
        assert yopp("completion", "words", "app", "kill", "", env=nowhere).stderr == ""
        assert yopp("--version", env=nowhere).stdout.startswith("yopp ")
    finally:
        yopp.home.chmod(0o755)
    assert list(yopp.home.iterdir()) == [yopp.calm], "nothing was made"


# -- (c) JSON --------------------------------------------------------------------------------------------------


class Printed:
    """What commands print with ``--json``, checked as it comes; ``seen`` are the commands."""

    def __init__(self, yopp: Yopp) -> None:
        self.yopp = yopp
        self.seen: set[str] = set()

    def __call__(self, command: str, *words: str, shape: Any, code: int | None = 0) -> Any:
        """One document."""
        [value] = self.lines(command, *words, shape=shape, code=code)
        return value

    def lines(self, command: str, *words: str, shape: Any, code: int | None = 0) -> list[Any]:
        """Objects, one a line."""
        first, *rest = command.split()
        ended = self.yopp(first, *rest, "--json", *words, code=code)
        self.seen.add(command)
        assert ended.stdout.endswith("\n"), command
        values = [json.loads(line) for line in ended.stdout.splitlines()]
        for value in values:
            assert not (wrong := mismatch(value, shape)), f"yopp {command} {' '.join(words)}: {wrong}"
        return values


def test_the_checker_finds_what_is_wrong() -> None:
    shape = {
        "a": int,
        "b": [{"c": (str, None)}],
        "d": ("x", "y"),
        "t": schema.moment,
        "i": schema.APP_ID,
        "n": 0,
    }
    good: dict[str, Any] = {
        "a": 1, "b": [{"c": None}, {"c": "q", "more": 1}], "d": "x",
        "t": 1_765_400_000_000, "i": "application_1765400000000_0001", "n": 0,
    }  # fmt: skip
    assert mismatch(good, shape) == ""
    for wrong in (
        {"a": True},
        {"a": "1"},
        {"b": {}},
        {"b": [{}]},
        {"b": [{"c": 1}]},
        {"d": "z"},
        {"d": None},
        {"t": 1_765_400_000},
        {"t": "1765400000000"},
        {"i": "application_1"},
        {"n": 1},
    ):
        assert mismatch(good | wrong, shape), wrong


def test_json_of_every_command_has_the_promised_shape(yopp: Yopp) -> None:
    """Every command that there is is typed; those that look print what REST answers (tests/web/test_documents.py)."""
    host = socket.gethostname()
    (yopp.home / "exclude").write_text("45455\n")
    say = Printed(yopp)
    cluster, node, nodes = schema.CLUSTER, {"node": schema.NODE}, {"nodes": {"node": [schema.NODE]}}
    app, container = {"app": schema.APP}, {"container": schema.CONTAINER}

    say("version", shape=schema.VERSION)
    say("doctor", shape=schema.CHECKS, code=None)
    say("config show", "--origin", shape={"properties": [schema.PROPERTY]})
    say("config get", "yarn.acl.enable", shape=schema.PROPERTY)
    say("config check", shape={"check": [{"read": [str], "problems": [], "warnings": [str]}], "exit": int})
    say("config set", "--dry-run", "--conf", f"{yopp.home}/my.toml", "yarn.acl.enable", "true",
        shape=schema.PROPERTY)  # fmt: skip
    (yopp.home / "my.toml").write_text("yarn.acl.enable = true\n")
    say("config unset", "--conf", f"{yopp.home}/my.toml", "yarn.acl.enable", shape=schema.PROPERTY)
    (yopp.home / "site.xml").write_text(
        "<configuration><property><name>a</name><value>1</value></property></configuration>"
    )
    given = {"name": str, "value": str, "origin": str, "taken": bool, "why": str}
    say("config import", f"{yopp.home}/site.xml", shape={"import": {"to": str, "properties": [given]}})
    say("service status", shape={"service": schema.SERVICE}, code=None)
    say("config path", shape={"path": {"read": [str], "candidates": [str]}})
    engine = {"engine": ("local", "yarn"), "where": [str], "file": str}
    say("engine use", "yarn", "--rm", "rm", shape=engine)
    say("engine use", "local", shape=engine)
    place = {"name": ("local", "yarn"), "used": bool, "origin": (str, None), "where": str}
    say("engine list", shape={"engines": [place]})
    say("up", "--nodes", "2", "--vcores", "2", "--memory", "512", CALM, shape=cluster)
    say("engine test", shape={"engine": str, "origin": str, "opportunistic": bool})
    say("status", shape=cluster)
    say("rm status", shape=cluster)
    say("nm status", shape=cluster)
    say("rmadmin service-state", shape={"serviceState": {"state": "active", "pid": int}})

    own_container = "-Dyopp.resourcemanager.hosted-masters=false"
    words = ("-d", "-n", "6", "-O", "--memory", "32", "sleep", "600")
    first = say("run", own_container, *words, shape=app)["app"]["id"]
    wait_until(lambda: len(yopp.containers("--app", first)) == 7, what="its containers are there")
    wait_until(lambda: len(yopp.containers("--app", first, "--state", "RUNNING")) == 5, what="five run")
    live = [one["id"] for one in yopp.containers("--app", first, "--state", "RUNNING", "--type", "O")]
    say("app list", shape={"apps": {"app": [schema.APP]}})
    say("app status", first, shape=app)
    say("app priority", first, "3", shape={"priority": 3, **app})
    say("app queue", first, "default", shape={"queue": "default", **app})
    limit = {"type": "LIFETIME", "expiryTime": str, "remainingTimeInSeconds": int}
    say("app lifetime", first, "1h", shape={"timeout": limit, **app})
    say("app tags", first, "nightly", shape=app)
    [attempt] = say(
        "attempt list", first, shape={"appAttempts": {"appAttempt": [schema.ATTEMPT]}}
    )["appAttempts"]["appAttempt"]  # fmt: skip
    say("attempt status", attempt["appAttemptId"], shape={"appAttempt": schema.ATTEMPT})
    for listing in ("container list", "ps"):
        listed = say(listing, "-a", shape={"containers": {"container": [schema.CONTAINER]}})
        assert {"OPPORTUNISTIC", "GUARANTEED"} == {
            one["executionType"] for one in listed["containers"]["container"]
        }
    say("container status", live[0], shape=container)
    say("container pause", live[0], shape=container)
    say("container resume", live[0], "--no-wait", shape=container)
    say("container promote", live[1], "--no-wait", shape=container, code=None)
    say("container demote", live[1], "--no-wait", shape=container, code=None)
    say("container resize", live[2], "--memory", "48", "--no-wait", shape=container, code=None)
    shell = {"shellInto": {"id": str, "exit": int, "containerEnded": bool}}
    say("container shell-into", live[2], "--", "sh", "-c", "exit 3", shape=shell, code=3)
    say("container signal", live[2], "--signal", "CONT", shape=container)
    say("container kill", live[3], shape=container)
    say("node list", shape=nodes)
    say("node status", f"{host}:45454", shape=node)
    say("node resize", "45454", "--vcores", "3", shape={"memory": 512, "vCores": 3, **node})
    say("node resource", "45454", "--vcores", "3", shape={"memory": 512, "vCores": 3, **node})
    say("metrics", shape={"beans": [{"name": str, "modelerType": str}]})
    say("queue list", shape={"queues": {"queue": [schema.QUEUE]}})
    say("queue status", "default", shape={"queue": schema.QUEUE})
    for name in (live[0], first, "45454"):
        say("explain", name, shape=schema.EXPLANATION)
    say.lines("stats", "-n", "2", "-d", "0.2", shape=schema.STATS)
    say.lines("events", "--since", "0", shape=schema.EVENT)
    say("report", first, shape={"report": {"containers": int, "ran": int, "lines": [dict]}})
    say("top", shape={"top": {"t": int, "containers": [dict]}, **nodes})
    say("app kill", first, shape={"state": "KILLED", **app})

    for words in (("pi", "2", "10"), ("dshell", "--shell-command", "echo hello"), ("rerun", "last")):
        ended = say(words[0], *words[1:], shape=app)["app"]
        assert (ended["yopp"]["exit"], ended["finalStatus"]) == (0, "SUCCEEDED")
        task = {"container": schema.CONTAINER_ID, "executionType": schema.TYPES, "exit": 0, "preemptions": 0}
        assert ended["yopp"]["tasks"] and not mismatch(ended["yopp"]["tasks"], [task])
        if words[0] == "pi":
            assert not mismatch(
                ended["yopp"]["pi"], {"estimate": re.compile(r"[34]\.\d+"), "inside": int, "total": 20}
            )
    say("wait", "last", first, shape=schema.WAITED, code=143)
    assert say.lines("logs", "last", shape=schema.LINE)

    say("rmadmin refresh-queues", "--dry-run", shape={"queues": {"queue": [schema.QUEUE]},
        "yopp": {"added": [str], "removed": [str], "changed": [str]}})  # fmt: skip
    say("rmadmin state", "check", shape={"state": {"path": str, "format": int, "records": {"task": int}, "live": int,
        "problems": [str]}})  # fmt: skip
    say("rmadmin update-node-resource", "45454", "512", "2", shape={"memory": 512, "vCores": 2, **node})
    say.lines("rmadmin refresh-nodes", "--exclude", f"{yopp.home}/exclude", shape=node)
    say("node labels", shape={"nodeLabelInfo": list})
    say("node resume", "45455", shape=node)
    say("node drain", "45455", shape=node)
    say("nm resume", "45455", shape=node)
    say("nm drain", "45455", shape=node)
    say("nm stop", "45455", shape=cluster)
    say("nm start", "45455", shape=cluster)
    say("nm restart", "45455", shape=cluster)
    say("rm restart", shape=cluster)
    say("rm stop", shape=dict)
    say("rm start", shape=cluster)
    say("down", "-y", shape={"yopp": {"ended": [str]}})

    say("man", "run", shape={"man": {"name": "yopp-run", "section": "1", "text": str}})
    for shell in ("bash", "zsh", "fish"):
        say(f"completion {shell}", shape={"completion": {"shell": shell, "script": str}})
    for name in ("rm", "nm"):
        daemon = yopp.start(name, "run", "--json")
        assert daemon.stdout is not None
        ready = json.loads(daemon.stdout.readline())
        assert not mismatch(
            ready,
            {
                "daemon": {
                    "name": str,
                    "state": "RUNNING",
                    "pid": int,
                    **dict.fromkeys(("address", "run_dir", "http"), str),
                }
            },
        )
        assert ready["daemon"]["pid"] == daemon.pid and ready["daemon"]["name"].startswith(name)
        say.seen.add(f"{name} run")
    say("down", "-y", shape={"yopp": {"ended": [str]}})
    of_systemd = {"service install", "service remove"}  # typed in tests/lifecycle/test_service.py
    assert say.seen | of_systemd == COMMANDS.keys(), "every command there is"


def test_errors_in_json_are_those_of_rest(cluster: Yopp) -> None:
    """The same lookup, asked both ways: one RemoteException. Ours stands under ``yopp``."""
    ours = cluster.json("status")["clusterInfo"]["yopp"]
    rm, nm = f"{ours['rm']['http']}/ws/v1/cluster", f"{ours['nms'][0]['http']}/ws/v1/node"
    app = cluster("run", "-q", "true").stdout.strip()
    apart, attempt = "application_1765400000000_0001", f"appattempt_{app.partition('_')[2]}_000009"
    container = "container_1765400000000_0001_01_000001"
    for words, url, code in (
        (("app", "status", apart), f"{rm}/apps/{apart}", 66),
        (("app", "status", "application_x"), f"{rm}/apps/application_x", 2),
        (("wait", apart), f"{rm}/apps/{apart}", 66),
        (("logs", apart), f"{rm}/apps/{apart}", 66),
        (("explain", apart), f"{rm}/apps/{apart}", 66),
        (("attempt", "list", apart), f"{rm}/apps/{apart}/appattempts", 66),
        (("attempt", "status", attempt), f"{rm}/apps/{app}/appattempts/{attempt}", 66),
        (("attempt", "status", "appattempt_x"), f"{rm}/apps/{app}/appattempts/appattempt_x", 2),
        (("node", "status", "elsewhere:1"), f"{rm}/nodes/elsewhere:1", 66),
        (("container", "status", container), f"{nm}/containers/{container}", 66),
        (("container", "status", "container_x"), f"{nm}/containers/container_x", 2),
        (("queue", "status"), None, 2),
    ):
        ended = cluster(*words, "--json", code=code)
        printed = json.loads(ended.stderr)
        assert ended.stdout == "" and not mismatch(printed, schema.ERROR), words
        assert printed["yopp"]["exit"] == code
        assert (
            printed["RemoteException"]["exception"]
            == {66: "NotFoundException", 2: "BadRequestException"}[code]
        )
        if url is not None:
            got = subprocess.run(["curl", "-s", f"http://{url}"], capture_output=True, text=True, timeout=20)
            answered = json.loads(got.stdout)
            assert not mismatch(answered, schema.ERROR)
            assert answered["RemoteException"] == printed["RemoteException"], words
        people = cluster(*words, code=code).stderr
        assert people.startswith(f"error: {printed['yopp']['message']}\n") and "java" not in people


# -- (d) exit codes --------------------------------------------------------------------------------------------


def test_every_exit_code_of_the_table_is_provoked(cluster: Yopp) -> None:
    (cluster.home / "plain").write_text("no program")
    cluster("run", "true", code=0)
    cluster("run", "--vcores", "9", "true", code=1)
    cluster("run", "-n", "0", "true", code=2)
    cluster("down", code=0)
    cluster("status", code=3)
    cluster("ps", code=69)
    cluster(
        "up",
        "--vcores",
        "2",
        "--memory",
        "512",
        "-Dyarn.nodemanager.opportunistic-containers-max-queue-length=0",
    )
    cluster("config", "show", "-Dyarn.nosuch=1", code=78)
    cluster("app", "status", "99", code=66)
    cluster("run", "sh", "-c", "exit 42", code=42)
    cluster("run", "--timeout", "300ms", "sleep", "60", code=124)
    cluster("run", "./plain", code=126)
    cluster("run", "no-such-command-here", code=127)
    cluster("run", "sh", "-c", "kill -KILL $$", code=137)
    cluster("run", "sh", "-c", "kill -TERM $$", code=143)
    job = cluster.start("run", "sleep", "60")
    wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    job.send_signal(signal.SIGINT)
    assert job.wait(20) == 130
    several = ("-n", "3", "--memory", "32", "sh", "-c",
        'until [ "$(cat f)" = $YOPP_TASK ]; do sleep 0.02; done; exit $((10-YOPP_TASK))')  # fmt: skip

    def ended_with(code: int) -> int:
        return [one["exitCode"] for one in cluster.containers("-a")].count(code)

    for rule, code in (("first", 7), ("highest", 9), ("any", 1)):
        (cluster.home / "f").write_text("none\n")
        job = cluster.start("run", "--vcores", "0", "--exit-code", rule, *several)
        for task in (3, 2, 1):  # they end in this order
            before = ended_with(10 - task)
            (cluster.home / "f").write_text(f"{task}\n")
            wait_until(lambda: ended_with(10 - task) > before, what=f"task {task} ended")  # noqa: B023
        job.communicate(timeout=20 * PATIENCE)
        assert job.returncode == code
        cluster("wait", "last", code=code)
    of_it = [one["id"] for one in cluster.containers("-a", "--app", "last")]
    for rule, code in (("first", 7), ("highest", 9), ("any", 1)):
        cluster("wait", "--exit-code", rule, *of_it, code=code)
    cluster("dshell", "-shell_command", "exit 5", env={"YOPP_HADOOP_EXIT": "0"}, code=5)
    for words, code in (
        (("-shell_command", "true"), 0),
        (("-shell_command", "exit 5"), 2),
        (("-shell_command", "true", "-container_vcores", "99"), 1),
        (("-shell_comand", "true"), 255),
        ((), 255),
    ):
        cluster("dshell", *words, env={"YOPP_HADOOP_EXIT": "1"}, code=code)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can be somebody else")
def test_somebody_elses_cluster_is_77(cluster: Yopp) -> None:
    """Another user, who may read this interpreter and these modules wherever they are, and nothing else."""
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    nobody += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    for words in (["ps"], ["run", "true"], ["up"], ["down", "-y"], ["status", "--json"]):
        ended = subprocess.run(
            [*nobody, *cluster.command, *words], env=cluster.environment, cwd="/", capture_output=True, text=True,
            timeout=30,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (77, ""), (words, ended.stderr)
    assert json.loads(ended.stderr)["yopp"]["because"] == "it belongs to user 0, and you are 65534"
    assert cluster.json("status")["clusterInfo"]["yopp"]["state"] == "running"


def test_who_is_preempted_for_good_gets_75(yopp: Yopp) -> None:
    yopp("up", "--vcores", "1", "--memory", "512", CALM)
    patience = "-Dyopp.am.max-preemptions-per-container=1"
    job = yopp.start("run", patience, "-O", "--memory", "64", "sleep", "60")
    for _ in range(2):
        wait_until(lambda: yopp.containers("--state", "RUNNING", "--type", "O"), what="it runs")
        yopp("run", "-G", "--memory", "64", "true")
    _, said = job.communicate(timeout=40)
    assert job.returncode == 75, said
    yopp("wait", "last", "--timeout", "5", code=0)
    [first, _] = [one["id"] for one in yopp.containers("-a", "--type", "O")]
    yopp("wait", first, code=75)


# -- (e) pipes and colours ---------------------------------------------------------------------------------------


def test_a_pipe_gets_all_without_escapes_unless_they_are_forced(cluster: Yopp) -> None:
    text = "a-rather-long-word-that-no-terminal-of-eighty-columns-has-room-for-" * 3
    cluster.start("run", "-n", "3", "-O", "--memory", "32", "sh", "-c", "sleep 600; :", text)
    wait_until(lambda: len(cluster.containers("--state", "RUNNING")) == 2, what="two run")
    wait_until(lambda: len(cluster.containers("--state", "QUEUED")) == 1, what="one waits")
    plain = cluster("ps").stdout
    assert "\x1b" not in plain and plain.count(text) == 3 and "…" not in plain
    assert len(re.findall(r"container_\d+_\d{4}_\d\d_\d{6}", plain)) == 3
    assert cluster("ps", env={"CLICOLOR_FORCE": "1", "COLUMNS": "40"}).stdout.count("\x1b[") > 0
    uncoloured = re.sub(r"\x1b\[\d*m", "", cluster("ps", env={"CLICOLOR_FORCE": "1"}).stdout)
    assert [line.split()[:3] for line in uncoloured.splitlines()] == [
        line.split()[:3] for line in plain.splitlines()
    ], "colour changes nothing else"
    for more in ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, {"CLICOLOR_FORCE": "0"}, {"CLICOLOR": "0"}):
        assert "\x1b" not in cluster("ps", env=more).stdout, more
    assert "\x1b[" in cluster("ps", "--color", "always", env={"NO_COLOR": "1"}).stdout
    assert "\x1b" not in cluster("ps", "--color", "never", env={"CLICOLOR_FORCE": "1"}).stdout
    assert "\x1b" not in cluster("run", "--color", "auto", "-n", "2", "true").stderr, (
        "no bars where nobody looks"
    )


# -- (f) logs ----------------------------------------------------------------------------------------------------


def test_logs_follow_a_queued_container_from_nothing_to_its_end(cluster: Yopp) -> None:
    flag = cluster.home / "go"
    cluster.start(
        "run", "-n", "2", "-O", "--memory", "32", "sh", "-c", f"until [ -e {flag} ]; do sleep 0.05; done"
    )
    wait_until(lambda: len(cluster.containers("--state", "RUNNING")) == 2, what="the node is full")
    cluster.start(
        "run", "-O", "--memory", "32", "sh", "-c", "echo first; sleep 0.5; echo last; echo oops >&2; exit 3"
    )
    [queued] = wait_until(lambda: cluster.containers("--state", "QUEUED"), what="it waits")
    out = cluster.home / "followed"
    with out.open("w") as file:
        follower = cluster.start("logs", "-f", "--stdout", queued["id"], stdout=file)
    assert follower.stderr is not None
    assert "queued" in follower.stderr.readline().lower(), "it says what it waits for"
    assert follower.poll() is None and out.read_text() == ""
    flag.touch()
    assert follower.wait(30) == 0
    assert out.read_text() == "first\nlast\n"
    assert cluster("logs", "-f", "--exit-code", queued["id"], code=3).stdout.count("first") == 1


# -- (g) up, down, and a killed NodeManager ------------------------------------------------------------------------


def test_up_twice_a_killed_nodemanager_and_down_twice(yopp: Yopp) -> None:
    size = ("--vcores", "1", "--memory", "256")
    assert yopp("up", *size).stdout == yopp("up", *size).stdout
    before = yopp.json("status")["clusterInfo"]["yopp"]
    os.kill(before["nms"][0]["pid"], signal.SIGKILL)
    yopp("up", *size)
    after = yopp.json("status")["clusterInfo"]["yopp"]
    assert after["rm"]["pid"] == before["rm"]["pid"]
    assert after["nms"][0]["node"] == before["nms"][0]["node"]
    assert after["nms"][0]["pid"] != before["nms"][0]["pid"]
    assert yopp("run", "--memory", "64", "echo", "works").stdout == "works\n"
    yopp("down")
    yopp("down")
    assert not yopp.leftovers()


# -- (h) cron ------------------------------------------------------------------------------------------------------


def test_an_empty_environment_finds_the_daemon_of_the_same_home(yopp: Yopp) -> None:
    """As cron and ``ssh host command`` have it: no XDG_RUNTIME_DIR, no terminal, hardly any variable."""
    kept = {"PYTHONPATH": yopp.environment["PYTHONPATH"], "HOME": str(yopp.home)}
    if os.getuid() == 0:  # root's place does not follow from the home
        kept["YOPP_RUN_DIR"] = str(yopp.run_dir)
    else:
        del yopp.environment["YOPP_RUN_DIR"]
    yopp.environment["XDG_RUNTIME_DIR"] = str(yopp.home)
    cron = ["env", "-i", *(f"{name}={value}" for name, value in kept.items()), *yopp.command]
    yopp("up", "--vcores", "1", "--memory", "256")
    shown = yopp.json("status")["clusterInfo"]["yopp"]["rm"]
    bare = subprocess.run([*cron, "status", "--json"], capture_output=True, text=True, timeout=30, cwd="/")
    assert bare.returncode == 0, bare.stderr
    assert json.loads(bare.stdout)["clusterInfo"]["yopp"]["rm"] == shown
    ran = subprocess.run(
        [*cron, "run", "--memory", "64", "echo", "from cron"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert (ran.returncode, ran.stdout) == (0, "from cron\n"), ran.stderr
    yopp("down", "-y")


# -- (i) readers that leave, and Ctrl-C ------------------------------------------------------------------------------


def test_a_reader_that_leaves_and_ctrl_c_are_quiet(cluster: Yopp) -> None:
    cluster(
        "run",
        "-n",
        "3",
        "-O",
        "--memory",
        "32",
        "sh",
        "-c",
        "for i in $(seq 20000); do echo $i; done",
        timeout=120,
    )
    program = " ".join(cluster.command)
    for words in ("logs last", "events --since 0", "ps -a", "config show --all", "--help"):
        ended = subprocess.run(
            ["bash", "-c", f"{program} {words} | head -1"], env=cluster.environment, cwd=cluster.home,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        note = "the values of the cluster that runs" if "config" in words else ""
        assert ended.returncode == 0, words
        assert [line[: len(note)] for line in ended.stderr.splitlines()] == [note] * bool(note), words
        assert len(ended.stdout.splitlines()) == 1, words
    app = cluster("run", "-d", "-q", "-O", "--memory", "32", "sleep", "60").stdout.split()[-1]
    wait_until(lambda: cluster.containers("--app", app, "--type", "O", "--state", "RUNNING"), what="it runs")
    for watching in (("wait", app), ("logs", "-f", app), ("events", "-f"), ("stats", "-n", "0", "-d", "0.2")):
        watcher = cluster.start(watching[0], "-v", *watching[1:])
        assert watcher.stderr is not None
        assert watcher.stderr.readline().startswith("run directory"), watching
        assert watcher.poll() is None, watching
        watcher.send_signal(signal.SIGINT)
        _, said = watcher.communicate(timeout=20)
        assert (watcher.returncode, "Traceback" in said) == (130, False), (watching, said)
    assert cluster.json("app", "status", app)["app"]["state"] == "RUNNING", "watching is not owning"
    cluster("app", "kill", app)
