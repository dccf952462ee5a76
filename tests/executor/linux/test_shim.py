"""The shim and the launcher: exit codes, arguments, environment, and what cannot be started."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from executor.linux.procfs import children, is_alive, read_bytes, read_stat, start_time
from executor.linux.shim import (
    CannotLaunchError,
    LaunchRequest,
    ShimLauncher,
    claim_exit_file,
    command_pid,
    kill_identified,
    read_exit_file,
    reap,
)

from .node import until

PLAIN = {"PATH": os.environ["PATH"]}


class Run:
    """One command under its shim, run to its end."""

    def __init__(self, directory: Path, *command: str, environment: dict[str, str] | None = None) -> None:
        self.exit_file = str(directory / "exit1")
        self.request = LaunchRequest(
            container_id="c1",
            command=command,
            environment=PLAIN if environment is None else environment,
            working_directory=str(directory),
            stdout=str(directory / "stdout"),
            stderr=str(directory / "stderr"),
            exit_file=self.exit_file,
        )
        self.directory = directory
        self.launched = ShimLauncher().launch(self.request)

    def end(self) -> int | None:
        until(lambda: not is_alive(self.launched.pid, self.launched.start), "the end of the shim")
        reap(self.launched.pid)
        left = read_exit_file(self.exit_file)
        assert left is not None and left.pid == self.launched.pid
        return left.exit_code

    @property
    def out(self) -> bytes:
        return (self.directory / "stdout").read_bytes()

    @property
    def err(self) -> bytes:
        return (self.directory / "stderr").read_bytes()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "exit 255"), 255),
        (("no-such-command-anywhere",), 127),
        (("/no/such/file",), 127),
        (("/tmp",), 126),
        (("/etc/passwd",), 126),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("sh", "-c", "kill -SEGV $$"), 139),
    ],
)
def test_exit_codes_are_those_of_a_shell(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    run = Run(tmp_path, *command)
    assert run.end() == code
    assert run.out == b""
    assert bool(run.err) == (code in (126, 127)), "the shim itself says nothing"


def test_a_signal_to_the_whole_session_still_leaves_the_code(tmp_path: Path) -> None:
    run = Run(tmp_path, "sleep", "1000")
    command = until(lambda: command_pid(run.launched.pid), "the command")
    until(lambda: b"sleep" in Path(f"/proc/{command}/cmdline").read_bytes()[:6], "sleep itself")
    os.killpg(run.launched.pid, signal.SIGTERM)
    assert run.end() == 143


def test_arguments_go_through_as_they_are(tmp_path: Path) -> None:
    words = [
        "",
        "-n",
        "--",
        "two\nlines\n",
        "$(touch x)",
        "a'b\"c",
        "*",
        "\\0",
        "ünï",
        os.fsdecode(b"\xff\xfe"),
    ]
    run = Run(tmp_path, "printf", "%s|", *words)
    assert run.end() == 0
    assert run.out == b"".join(os.fsencode(word) + b"|" for word in words)
    assert not (tmp_path / "x").exists()


def test_output_is_bytes(tmp_path: Path) -> None:
    run = Run(tmp_path, "sh", "-c", r"printf '\377\000\n'; printf '\376' >&2")
    assert run.end() == 0
    assert (run.out, run.err) == (b"\xff\x00\n", b"\xfe")


def test_the_environment_is_exactly_the_given_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "x")
    given = {
        "PATH": os.environ["PATH"],
        "PWD": str(tmp_path),
        "EMPTY": "",
        "LINES": "a\nb",
        "IFS": ":",
        "PPID": "1",
        "OPTIND": "5",
        "LINENO": "7",
        "OLDPWD": "/gone",
        "SHLVL": "3",
        "_": "last",
        "PS4": "$(touch y)",
        "ENV": "/no/such/file",
        "odd.name": "dots",
        "BYTES": os.fsdecode(b"\xff"),
    }
    run = Run(tmp_path, "/usr/bin/env", "-0", environment=given)
    assert run.end() == 0, run.err
    found = dict(entry.split(b"=", 1) for entry in run.out.split(b"\0") if entry)
    assert found == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}
    assert not (tmp_path / "y").exists()


SECRET = {"PATH": os.environ["PATH"], "my.secret": "hunter2", "IFS": "hunter2", "PLAIN": "hunter2"}
"""Two names that no shell passes on, and one that all do."""


def test_no_value_of_a_variable_is_on_a_command_line(tmp_path: Path) -> None:
    """Of the shim and of all that it becomes and starts: each user of the host can read those."""
    go = tmp_path / "go"
    os.mkfifo(go)
    run = Run(tmp_path, "sh", "-c", f"read -r line <{go}", environment=SECRET)
    try:

        def runs() -> bool:  # a process that just becomes another program shows no command line at all
            *_, last = shown = lines_of(run.launched.pid)
            return all(shown) and os.fsencode(str(go)) in last and b"exact" not in last

        until(runs, "it runs")
        assert not [line for line in lines_of(run.launched.pid) if b"hunter2" in line]
    finally:
        go.write_text("go\n")
    assert run.end() == 0


def lines_of(pid: int) -> list[bytes]:
    """The command lines of a process and of those below it."""
    return [
        read_bytes(f"/proc/{pid}/cmdline"),
        *(line for child in children(pid) for line in lines_of(child)),
    ]


@pytest.mark.parametrize(
    ("command", "code"),
    [(("no-such-command",), 127), (("/etc/passwd",), 126), (("./plain",), 5), (("sh", "-c", "exit 6"), 6)],
)
def test_beside_odd_variables_codes_and_signals_are_the_same(
    tmp_path: Path, command: tuple[str, ...], code: int
) -> None:
    (tmp_path / "plain").write_text("exit 5\n")
    (tmp_path / "plain").chmod(0o755)
    assert Run(tmp_path, *command, environment=SECRET).end() == code


def test_beside_odd_variables_signals_have_their_default_action(tmp_path: Path) -> None:
    run = Run(tmp_path, "grep", "SigIgn", "/proc/self/status", environment=SECRET)
    assert run.end() == 0
    ignored = int(run.out.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_no_file_of_ours_stays_open_in_the_container(tmp_path: Path) -> None:
    run = Run(tmp_path, "ls", "/proc/self/fd")
    assert run.end() == 0
    assert run.out.split() == [b"0", b"1", b"2", b"3"], "3 is the directory that ls reads"


def test_standard_input_is_empty_and_the_session_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path, "sh", "-c", "cat; cut -d' ' -f6 /proc/$$/stat")
    assert run.end() == 0
    assert int(run.out) == run.launched.pid != os.getsid(0)


def test_signals_have_their_default_action_in_the_container(tmp_path: Path) -> None:
    run = Run(tmp_path, "grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
    assert run.end() == 0
    masks = {line.split()[0]: int(line.split()[1], 16) for line in run.out.decode().splitlines()}
    wanted = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1) | 1 << (signal.SIGPIPE - 1)
    assert masks["SigIgn:"] & wanted == 0 and masks["SigBlk:"] == 0


@pytest.mark.parametrize(
    ("command", "code"), [((), 127), (("",), 127), (("-n",), 127), (("a\0b",), 126), (("x" * 300_000,), 126)]
)
def test_what_no_shell_could_start_is_refused(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    with pytest.raises(CannotLaunchError) as error:
        Run(tmp_path, *command)
    assert error.value.exit_code == code
    assert not (tmp_path / "exit1").exists()


def test_a_working_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotLaunchError) as error:
        Run(tmp_path / "gone", "true")
    assert "gone" in str(error.value) and error.value.exit_code == 126


@pytest.mark.timeout(20)
def test_output_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO in the place of the output would stop the whole node."""
    os.mkfifo(tmp_path / "stdout")
    with pytest.raises(CannotLaunchError) as error:
        Run(tmp_path, "true")
    assert "stdout" in str(error.value) and not (tmp_path / "exit1").exists()
    reader = os.open(tmp_path / "stdout", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert Run(tmp_path, "sh", "-c", "echo said; head -c 0 /dev/null").end() == 0
        assert os.read(reader, 99) == b"said\n"
    finally:
        os.close(reader)


def test_a_shim_never_runs_for_an_exit_file_that_is_taken(tmp_path: Path) -> None:
    assert claim_exit_file(str(tmp_path / "exit1"))
    assert not claim_exit_file(str(tmp_path / "exit1"))
    run = Run(tmp_path, "touch", "ran")
    until(lambda: not is_alive(run.launched.pid, run.launched.start), "the end of the shim")
    reap(run.launched.pid)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "exit1").read_bytes() == b""


@pytest.mark.parametrize(
    ("text", "pid", "code"),
    [(b"", 0, None), (b"12", 0, None), (b"12\n", 12, None), (b"12\n13", 12, None), (b"12\n137\n", 12, 137)],
)
def test_a_line_of_the_exit_file_counts_once_it_is_whole(
    tmp_path: Path, text: bytes, pid: int, code: int | None
) -> None:
    (tmp_path / "exit").write_bytes(text)
    left = read_exit_file(str(tmp_path / "exit"))
    assert left is not None and (left.pid, left.exit_code) == (pid, code)
    assert read_exit_file(str(tmp_path / "none")) is None


def test_identity_is_pid_and_start_time() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        start = start_time(process.pid)
        assert start is not None
        assert is_alive(process.pid, start) and not is_alive(process.pid, start + 1)
        kill_identified(process.pid, start + 1)
        kill_identified(process.pid, start)
    finally:
        assert process.wait(10) == -signal.SIGKILL
    assert not is_alive(process.pid, start)
    assert read_stat(process.pid) is None and children(process.pid) == []
