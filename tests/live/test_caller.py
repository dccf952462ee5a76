"""A job has what its caller has, and nothing of whoever started the cluster: variables, words, umask, signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.linux.environment import OWNED
from tests.web.conftest import started

from .conftest import Yopp, a_yopp, wait_until

pytestmark = pytest.mark.live

APPS = "/ws/v1/cluster/apps"
NODES = {*OWNED, "YOPP_TASK", "YOPP_TASKS"}
STARTERS = {"TZ": "Asia/Tokyo", "LANG": "C.UTF-8", "JAVA_HOME": "/j", "HADOOP_CONF_DIR": "/c"}
WAYS = {
    "slots": [],
    "shims": ["-Dyopp.nodemanager.pooled-groups=0"],
    "plain shims": ["-Dyopp.nodemanager.pooled-groups=0", "-Dyopp.nodemanager.confined-containers=false"],
}


def odd_starter() -> None:
    os.umask(0o067)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGALRM})


@pytest.fixture(scope="module", params=WAYS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Yopp]:
    with a_yopp(Yopp) as program:
        more = WAYS[request.param]
        program("up", "--vcores", "2", "--memory", "1024", *more, env=STARTERS, preexec_fn=odd_starter)
        yield program


def called(cluster: Yopp, environment: dict[str, str], *words: str | bytes, **more: Any) -> bytes:
    """What a job writes whose caller has exactly these variables, and those by which yopp is found."""
    environment = environment | {name: cluster.environment[name] for name in ("PYTHONPATH", "YOPP_RUN_DIR")}
    ended = subprocess.run(
        [*cluster.command, "run", *words], env=environment, cwd=more.pop("cwd", cluster.home), capture_output=True,
        timeout=60, stdin=subprocess.DEVNULL, **more,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return bytes(ended.stdout)


def variables(printed: bytes) -> dict[str, str]:
    found = dict(line.split("=", 1) for line in printed.decode().split("\0") if line)
    return {name: value for name, value in found.items() if name not in NODES}


@pytest.mark.parametrize(
    "mine",
    [
        {"LANG": "C"},
        {"LC_ALL": "C", "PATH": "/usr/bin"},
        {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "A.b": "1", "BASH_FUNC_f%%": "() {\n true\n}"},
        {"PYTHONIOENCODING": "latin-1", "IFS": "x", "OPTIND": "3", "EMPTY": "", "TWO": "a=b\n\u00e9"},
        {"LONG": "x" * 100_000, "COLUMNS": "7", "document": "mine", "root": "mine"},
    ],
    ids=lambda mine: next(iter(mine)),
)
def test_its_variables_are_the_callers_own(cluster: Yopp, mine: dict[str, str]) -> None:
    mine |= {name: cluster.environment[name] for name in ("PYTHONPATH", "YOPP_RUN_DIR")}
    assert variables(called(cluster, mine, "env", "-0")) == mine
    assert variables(called(cluster, mine, "-e", "X=1", "-e", "LC_CTYPE", "env", "-0")) == {**mine, "X": "1"}


def test_what_follows_its_end_has_the_callers_variables(cluster: Yopp, tmp_path: Path) -> None:
    mine = {"LANG": "C", "PATH": os.environ["PATH"], "document": "mine"}
    mine |= {name: cluster.environment[name] for name in ("PYTHONPATH", "YOPP_RUN_DIR")}
    told, document = tmp_path / "environment", tmp_path / "document"
    line = f"cat >{document}; env -0 >{told}.new && umask >>{told}.new && mv {told}.new {told}"
    called(cluster, mine, "--on-end", line, "true", preexec_fn=lambda: os.umask(0o27))
    wait_until(told.exists, what="the command has run")
    printed, _, mask = told.read_bytes().rpartition(b"\0")
    assert variables(printed) == mine
    assert int(mask, 8) == 0o27
    assert json.loads(document.read_bytes())["app"]["finalStatus"] == "SUCCEEDED"


def test_whoever_starts_a_cluster_gives_variables_to_the_distributed_shell_only(cluster: Yopp) -> None:
    printed = cluster("dshell", "-shell_command", "env", "--follow", env={"TZ": "mine"}).stdout
    assert {f"{name}={value}" for name, value in STARTERS.items()} <= set(printed.split("\n"))


def test_its_umask_is_the_callers_and_its_signals_are_as_at_first(cluster: Yopp) -> None:
    line = "umask; grep -E '^Sig(Blk|Ign)' /proc/self/status; : >made; stat -c %a made; rm made"
    mine = {"PATH": "/usr/bin:/bin"}
    for mask in (0o22, 0o77, 0o777):
        printed = called(cluster, mine, "sh", "-c", line, preexec_fn=lambda mask=mask: os.umask(mask)).split()
        assert [int(printed[0], 8), int(printed[-1], 8)] == [mask, 0o666 & ~mask]
        # glibc's posix_spawn(3) leaves the two signals ignored that only glibc itself uses, 32 and 33
        assert [int(word, 16) & ~(3 << 31) for word in printed[2:-1:2]] == [0, 0]
    assert {path.stat().st_mode & 0o777 for path in cluster.home.glob("run/state/logs/*/*/stdout")} == {
        0o640 & ~0o67
    }


WORD = "gr\u00fcn-\u3042\u301c\u2016.dat"
LOCALES: dict[str, dict[str, str]] = {
    "latin": {"LC_ALL": "de_DE.ISO-8859-1"},
    "euc": {"LC_ALL": "ja_JP.EUC-JP"},
    "ascii": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "utf8 mode": {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "1"},
    "streams": {"PYTHONIOENCODING": "ascii"},
}


@pytest.fixture(scope="session")
def locpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("localedef") is None:
        pytest.skip("no localedef (Debian: libc-bin): locales that are not UTF-8 cannot be made")
    path = tmp_path_factory.mktemp("locales")
    for name, charmap in (("de_DE", "ISO-8859-1"), ("ja_JP", "EUC-JP")):
        subprocess.run(["localedef", "-i", name, "-f", charmap, path / f"{name}.{charmap}"], check=True)
    return str(path)


class Elsewhere(Yopp):
    """Python itself does not start where ``-m`` makes it import from a directory that EUC-JP has no name for."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "yarnopp_cli"]


@pytest.fixture(scope="module", params=LOCALES)
def elsewhere(request: pytest.FixtureRequest, locpath: str) -> Iterator[tuple[Yopp, dict[str, str]]]:
    """A cluster that was started in a locale which is not UTF-8, and the variables of a caller in that locale."""
    with a_yopp(Elsewhere) as program:
        mine = LOCALES[request.param] | {"LOCPATH": locpath}
        program.environment |= mine
        place = program.home / WORD
        place.mkdir()
        program("up", "--vcores", "2", "--memory", "1024", "--run-dir", str(place / "run"))
        program.run_dir = place / "run"
        program.environment["YOPP_RUN_DIR"] = str(program.run_dir)
        yield program, mine | {"PATH": os.environ["PATH"]}


def test_words_are_the_callers_bytes_in_every_locale(elsewhere: tuple[Yopp, dict[str, str]]) -> None:
    cluster, mine = elsewhere
    place, word = cluster.run_dir.parent, WORD.encode()
    (place / WORD).write_bytes(word)
    (place / "values").write_bytes(word + b"\n")
    (place / "commands").write_bytes(b"printf '%s\\n' " + word + b"\n")
    inside: dict[str, Any] = {"cwd": place}
    assert called(cluster, mine, "cat", word, **inside) == word
    assert called(cluster, mine, "printf", "%s", ":::", word, **inside) == word
    assert called(cluster, mine, "printf", "%s", "::::", "values", **inside) == word
    assert called(cluster, mine, "::::", "commands", **inside) == word + b"\n"
    assert called(cluster, mine, "--stdin", word, "cat", **inside) == word
    assert called(cluster, mine, "pwd", **inside) == os.fsencode(place) + b"\n"
    assert called(cluster, mine, "-C", os.fsencode(place), "pwd") == os.fsencode(place) + b"\n"
    assert called(cluster, mine | {"V": WORD}, "printenv", "V") == word + b"\n"
    assert called(cluster, mine | {"V": WORD}, "-e", "W=" + WORD, "-e", "V", "printenv", "W") == word + b"\n"
    made = ("--name", word, "--tag", word, "--results", b"out-" + word, "--joblog", b"log-" + word)
    assert called(cluster, mine, *made, "echo", word, **inside) == b""
    assert (place / f"out-{WORD}/1/stdout").read_bytes() == word + b"\n"
    assert (place / f"log-{WORD}").read_bytes().endswith(b"echo '" + word + b"'\n")
    for look in (("app", "list", "-a"), ("ps", "-a"), ("logs", "last"), ("app", "status", "last", "--json")):
        told = subprocess.run(
            [*cluster.command, *look],
            env=cluster.environment,
            cwd=cluster.home,
            capture_output=True,
            timeout=60,
        )
        assert told.returncode == 0 and word in told.stdout + told.stderr, (look, told)
    words = ["completion", "words", "yopp", "run", "-C", f"{place}/gr"]
    told = subprocess.run(
        [*cluster.command, *words], env=cluster.environment, capture_output=True, timeout=60
    )
    assert told.returncode == 0, told


@pytest.mark.parametrize(
    "options",
    [
        ("cat", b"gr\xfcn.dat"), ("echo", ":::", b"\xa4\xa2"), ("--name", b"\xfc", "true"), ("--tag", b"\xfc", "true"),
        ("--results", b"out\xfc", "true"), ("-C", b"gr\xfcn", "true"), ("-e", b"V=\xfc", "true"),
        ("--stdin", b"gr\xfcn.dat", "cat"), ("--queue", b"\xfc", "true"), ("--on-end", b": \xfc", "true"),
        ("--user", b"\xfc", "true"), ("echo", "::::", "values"), ("::::", "values"),
    ],
    ids=lambda options: " ".join(map(str, options)),
)  # fmt: skip
def test_what_is_not_utf8_is_refused_in_every_locale(
    elsewhere: tuple[Yopp, dict[str, str]], options: tuple[str | bytes, ...]
) -> None:
    cluster, _ = elsewhere
    place = cluster.run_dir.parent
    for name in (b"gr\xfcn.dat", WORD.encode("latin-1", "replace"), "gr\u00fcn.dat".encode()):
        (place / os.fsdecode(name)).write_bytes(b"not what was asked for\n")
    (place / "values").write_bytes(b"echo gr\xfcn.dat\n")
    os.makedirs(os.fsencode(place) + b"/gr\xfcn", exist_ok=True)
    ended = cluster("run", *options, cwd=place, code=2)
    assert "not UTF-8" in ended.stderr or options[0] == "--user", ended.stderr
    assert ended.stdout == ""


def test_a_directory_or_variable_that_is_not_utf8_is_refused_or_told(
    elsewhere: tuple[Yopp, dict[str, str]],
) -> None:
    cluster, _ = elsewhere
    odd = os.fsencode(cluster.run_dir.parent) + b"/d\xfc"
    os.makedirs(odd, exist_ok=True)
    ended = cluster("run", "true", cwd=odd, code=2)
    assert "is not UTF-8" in ended.stderr
    environment = {os.fsencode(name): os.fsencode(value) for name, value in cluster.environment.items()}
    ended = subprocess.run(
        [*cluster.command, "run", "env"], env={**environment, b"V": b"\xfc", b"W": WORD.encode()},
        capture_output=True, timeout=60, cwd=cluster.home,
    )  # fmt: skip
    assert ended.returncode == 0 and b"not passed on: V\n" in ended.stderr
    assert b"\nV=" not in ended.stdout and b"W=" + WORD.encode() + b"\n" in ended.stdout


def test_a_command_submitted_over_rest_has_no_variable_of_its_master(yopp: Yopp, tmp_path: Path) -> None:
    yopp.environment["LANG"] = "C"
    rm = started(yopp, "--vcores", "2", "--memory", "1024").rm
    told = tmp_path / "told"
    spec = {
        "commands": {"command": f"env -0 >{told}.new; mv {told}.new {told}"},
        "environment": {"entry": [{"key": "X", "value": "1"}]},
    }
    for more in ({}, {"Y": "2", "PYTHONPATH": yopp.environment["PYTHONPATH"]}):
        spec["environment"]["entry"] += [{"key": name, "value": value} for name, value in more.items()]  # type: ignore[index]
        application = rm("POST", f"{APPS}/new-application").json["application-id"]
        assert rm("POST", APPS, {"application-id": application, "am-container-spec": spec}).status == 202
        wait_until(told.exists, what="the command has run")
        found = variables(told.read_bytes())
        names = {"APP_SUBMIT_TIME_ENV", "HOME", "LANG", "LOGNAME", "PATH", "USER", "X", *more}
        assert {
            name for name in found if "ATTEMPT" not in name and name not in ("_", "SHLVL", "OLDPWD")
        } == names
        told.unlink()


def test_a_shell_of_yopps_own_before_the_command_changes_no_variable(cluster: Yopp, tmp_path: Path) -> None:
    mine = {
        "BASH_FUNC_f%%": "() {  echo a function\n}",
        "IFS": "x",
        "OPTIND": "3",
        "A.b": "1",
        "PATH": "/usr/bin:/bin",
    }
    mine |= {"out": "1", "err": "2", "job": "3", "document": "4", "root": "5"}
    mine |= {"YOPP_SHIM_VARIABLES": "6", "YOPP_SHIM_WORD": "7"}
    mine |= {name: cluster.environment[name] for name in ("PYTHONPATH", "YOPP_RUN_DIR")}
    data, log = tmp_path / "data", tmp_path / "log"
    data.write_text("read\n")
    reads, writes = ("--stdin", str(data)), ("--results", f"{tmp_path}/out", "--joblog", str(log))
    assert variables(called(cluster, mine, *reads, "env", "-0")) == mine
    assert called(cluster, mine, *reads, "bash", "-c", "f; cat") == b"a function\nread\n"
    called(cluster, mine, *writes, "env", "-0")
    assert variables((tmp_path / "out/1/stdout").read_bytes()) == mine
    called(
        cluster, mine, *reads, "--results", f"{tmp_path}/{{task}}-{{1}}", "printenv", ":::", "OPTIND", "job"
    )
    assert [(tmp_path / name).read_text() for name in ("1-OPTIND", "2-job")] == ["3\n", "3\n"]
    assert log.read_text().endswith("\tenv -0\n")
    called(cluster, {"PATH": "/usr/bin:/bin"}, *writes[:2], "echo", "a\\tb")
    assert (tmp_path / "out/1/stdout").read_bytes() == b"a\\tb\n", (
        "the program, and not what the shell has of that name"
    )
