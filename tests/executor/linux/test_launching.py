"""What a launcher makes of a request: exit codes, arguments, environment, and what cannot be started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import LaunchContainer
from executor.core.events import ContainerExited, ContainerLaunchFailed
from executor.linux.cgroups import CgroupDriver
from executor.linux.processes import kill_identified
from executor.linux.procfs import children, is_alive, read_bytes, read_stat, start_time
from executor.records import CgroupLimits
from executor.settings import ExecutorSettings

from .node import a_group, a_node, a_spec, soon, until

KINDS = {"none": {"cgroups_mount": "none"}, "outside": {"pooled_groups": 0}, "slot": {"pooled_groups": 1}}
ROOT = Path(__file__).parents[3]


@pytest.fixture(
    params=["none", *(pytest.param(one, marks=pytest.mark.cgroup) for one in ("outside", "slot"))]
)
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    return ExecutorSettings(**KINDS[request.param])  # type: ignore[arg-type]


@pytest.fixture
def cgroups(settings: ExecutorSettings) -> Iterator[CgroupDriver]:
    with a_group(settings) as driver:
        yield driver


class Ran:
    """One command, run to its end: its exit code, its output, its own pid."""

    def __init__(
        self,
        directory: Path,
        cgroups: CgroupDriver,
        settings: ExecutorSettings,
        *command: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        async def scenario() -> None:
            async with a_node(directory, cgroups, settings) as node:
                spec = a_spec("c1", *command, environment=environment or {})
                node.executor.perform(LaunchContainer(spec, CgroupLimits(pids_max=200)))
                until_told = lambda: (  # noqa: E731
                    node.found(ContainerExited, "c1") or node.found(ContainerLaunchFailed, "c1")
                )
                while until_told() is None:
                    await asyncio.sleep(0.001)
                self.failed = node.found(ContainerLaunchFailed, "c1")
                ended = node.found(ContainerExited, "c1")
                self.code = ended.exit_code if ended is not None else None
                self.out, self.err = (
                    b"" if self.failed else node.output("c1", name) for name in ("stdout", "stderr")
                )

        asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 255"), 255),
        (("no-such-command-anywhere",), 127),
        (("/no/such/file",), 127),
        (("/tmp",), 126),
        (("/etc/passwd",), 126),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("sh", "-c", "kill -TERM 0"), 143),
        (("sh", "-c", "kill -SEGV $$"), 139),
    ],
)
def test_exit_codes_are_those_of_a_shell(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings, command: tuple[str, ...], code: int
) -> None:
    ran = Ran(tmp_path, cgroups, settings, *command)
    assert (ran.code, ran.out, ran.failed) == (code, b"", None)
    assert bool(ran.err) == (code in (126, 127)), "the launcher itself says nothing"


ODD = ["", "-n", "--", "two\nlines\n", "$(touch x)", "a'b\"c", "*", "\\0", "ünï", os.fsdecode(b"\xff\xfe")]
LARGE = "x" * 120_000
"""More than a message has room for."""


@pytest.mark.parametrize("words", [ODD, [LARGE] * 3], ids=["odd", "large"])
def test_arguments_and_output_go_through_as_they_are(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings, words: list[str]
) -> None:
    ran = Ran(tmp_path, cgroups, settings, "printf", "%s|", *words)
    assert ran.code == 0
    assert ran.out == b"".join(os.fsencode(word) + b"|" for word in words)


def test_the_environment_is_exactly_the_given_one(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "x")
    given = {
        "EMPTY": "",
        "LINES": "a\nb",
        "IFS": ":",
        "PPID": "1",
        "OPTIND": "5",
        "OLDPWD": "/gone",
        "SHLVL": "3",
        "_": "last",
        "ENV": "/no/such/file",
        "odd.name": "dots",
        "BYTES": os.fsdecode(b"\xff"),
        "LARGE": LARGE,
    }
    ran = Ran(tmp_path, cgroups, settings, "/usr/bin/env", "-0", environment=given)
    assert ran.code == 0, ran.err
    found = dict(entry.split(b"=", 1) for entry in ran.out.split(b"\0") if entry)
    assert {os.fsencode(name): os.fsencode(value) for name, value in given.items()}.items() <= found.items()
    assert not any(name.startswith((b"YOPP_POOL", b"SECRET", b"LC_CTYPE")) for name in found)


LOOK = """
import json, os, signal
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
ignored = [n for n in range(1, 32) if int(status["SigIgn"], 16) >> n - 1 & 1]
print(json.dumps([
    sorted(os.listdir("/proc/self/fd")), os.readlink("/proc/self/fd/0"), os.getsid(0) == os.getpid() == os.getpgrp(),
    [n for n in ignored if n not in (signal.SIGPIPE, signal.SIGXFSZ)], int(status["SigBlk"], 16),
]))
"""
"""Python itself ignores SIGPIPE and SIGXFSZ; descriptor 3 is the directory that it reads."""


def test_it_has_a_session_of_its_own_no_input_no_file_of_ours_and_no_signal_ignored(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    ran = Ran(tmp_path, cgroups, settings, sys.executable, "-S", "-E", "-c", LOOK)
    assert ran.out == b'[["0", "1", "2", "3"], "/dev/null", true, [], 0]\n', ran.err
    masks = Ran(tmp_path / "2", cgroups, settings, "grep", "SigIgn", "/proc/self/status").out
    assert not int(masks.split()[1], 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


@pytest.mark.parametrize(
    ("command", "code"), [((), 127), (("",), 127), (("-n",), 127), (("a\0b",), 126), (("x" * 300_000,), 126)]
)
def test_what_no_shell_could_start_is_refused(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings, command: tuple[str, ...], code: int
) -> None:
    failed = Ran(tmp_path, cgroups, settings, *command).failed
    assert failed is not None and failed.exit_code == code and failed.node_status == 0


@pytest.mark.timeout(30)
def test_output_that_nobody_reads_is_not_waited_for(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    """A FIFO in the place of the output would stop the launcher."""
    (tmp_path / "logs" / "c1").mkdir(parents=True)
    os.mkfifo(tmp_path / "logs" / "c1" / "stdout")
    failed = Ran(tmp_path, cgroups, settings, "true").failed
    assert failed is not None and "stdout" in failed.reason


UNDER_LATIN_1 = """
import asyncio, sys
from pathlib import Path
from tests.executor.linux.node import a_node, a_spec
from executor.linux.cgroups.none import NoCgroups
async def scenario():
    async with a_node(Path(sys.argv[1]), NoCgroups()) as node:
        spec = a_spec("c1", "printf", "%s", sys.argv[2], environment={"A": sys.argv[2]})
        assert (await node.run(spec)).exit_code == 0
        assert node.output("c1") == sys.argv[2].encode("latin-1"), node.output("c1")
assert sys.getfilesystemencoding() == "iso8859-1", sys.getfilesystemencoding()
asyncio.run(scenario())
"""


def test_where_names_of_files_are_not_utf_8_words_are_the_same_bytes(tmp_path: Path) -> None:
    made = tmp_path / "de_DE.ISO-8859-1"
    if not shutil.which("localedef") or not Path("/usr/share/i18n/locales/de_DE").exists():
        pytest.skip("NOT TESTED: this host cannot make locales")
    subprocess.run(["localedef", "-c", "-i", "de_DE", "-f", "ISO-8859-1", made], capture_output=True)
    words = [sys.executable, "-c", UNDER_LATIN_1, os.fspath(tmp_path), b"\xfcn\xef"]
    subprocess.run(
        words, env={**os.environ, "LC_ALL": made.name, "LOCPATH": str(tmp_path)}, cwd=ROOT, check=True
    )


@pytest.mark.parametrize("name", ["a b", "ünï", "back\\slash", "\\n", os.fsdecode(b"\xff")])
def test_a_journal_has_every_id(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings, name: str
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, settings) as node:
            await node.launch(a_spec(name, "sleep", "1000"))
            node.executor._finder.survey()
            assert list(node.executor._finder._begun) == [name]

    asyncio.run(scenario())


def test_no_value_of_a_variable_is_on_a_command_line(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    """Of a launcher and of all that it starts: each user of the host can read those."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, settings) as node:
            secret = {"odd.name": "hunter2", "PLAIN": "hunter2"}
            pid = (await node.launch(a_spec("c1", "sleep", "1000", environment=secret))).pid
            launcher = read_stat(pid)
            assert launcher is not None and pid in children(launcher.parent)
            for one in (pid, launcher.parent):  # a process that becomes a program has none for a moment
                line = await soon(lambda one=one: read_bytes(f"/proc/{one}/cmdline"), "its command line")
                assert b"hunter2" not in line

    asyncio.run(scenario())


def test_identity_is_pid_and_start_time() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        start = start_time(process.pid)
        assert start is not None
        assert is_alive(process.pid, start) and not is_alive(process.pid, start + 1)
        kill_identified(process.pid, start + 1)
        until(lambda: is_alive(process.pid, start), "it runs on")
        kill_identified(process.pid, start)
    finally:
        assert process.wait(10) == -signal.SIGKILL
    assert not is_alive(process.pid, start)
    assert read_stat(process.pid) is None and children(process.pid) == []
