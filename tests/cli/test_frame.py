"""The frame: help of every command from nothing, errors in three lines, exit codes, closed streams."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cli.table import ALIASES, COMMANDS, SECTIONS, TABLE

Cli = Callable[..., Any]
ROOT = Path(__file__).resolve().parent.parent.parent
LOADED = (
    "import sys; sys.argv = ['yopp', *sys.argv[1:]]\n"
    "from yarnopp_cli.cli.app import run\n"
    "code = run(sys.argv[1:])\n"
    "sys.stderr.write('\\nLOADED ' + ' '.join(sorted(sys.modules)))\n"
    "sys.exit(code)\n"
)


def yopp(
    *words: str | bytes, shell: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The real program in an environment with nothing in it; ``shell`` redirects, as in ``>&-``."""
    command: list[str | bytes] = [sys.executable, "-m", "yarnopp_cli", *words]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", **(env or {})}
    return subprocess.run(command, capture_output=True, env=environment, cwd="/", timeout=60)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_two_examples(cli: Cli, name: str) -> None:
    ended = cli(name, "--help")
    assert ended.code == 0, ended.err
    assert f"yopp {name}" in ended.out
    assert examples_in(ended.out) >= 2, "no two examples"
    assert cli(name, "-h").out == ended.out
    if COMMANDS[name].group:
        for sub in re.findall(r"^  ([a-z][a-z-]*)  ", ended.out.partition("Commands:")[2], re.M):
            deeper = cli(name, sub, "--help")
            assert deeper.code == 0
            assert examples_in(deeper.out) >= 2, f"{name} {sub}: no two examples"


def examples_in(help_text: str) -> int:
    """The number of example lines at the end of a help text."""
    return len(help_text.partition("Examples:")[2].split("\n    ")[1:])


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)])
def test_help_has_whole_summaries_and_fits_in_80_columns(
    cli: Cli, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = cli(*words, "--help").out
    assert max(map(len, told.splitlines())) <= 80
    assert not re.findall(r"\w\.\.\.$", told, re.MULTILINE)


def test_commands_that_are_meant_for_a_shell_get_one_line_of_warning(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "jobs"
    file.write_text("echo 'a > b'\necho a > o1.txt\necho $HOME && true\n")
    for words, warned in (
        (("--from", str(file)), "`>` in `echo a > o1.txt` and 1 more is passed"),
        (("--shell", "--from", str(file)), ""),
        (("echo", "{}", ">", "x", ":::", "a"), "`>` in `echo {} > x` is passed"),
        (("echo {} | cat", ":::", "a"), "`|` in `echo {} | cat` is passed"),
        (("echo", "a", "&&", "true"), "`&&` in `echo a && true` is passed"),
        (("echo", ":::", ">", "a;b"), ""),
        (("expr", "1", "<", "2"), ""),
        (("find", ".", "-exec", "ls", ";"), ""),
    ):
        told = [line for line in cli("run", "--dry-run", *words).err.splitlines() if "warning" in line]
        assert len(told) == bool(warned) and all(warned in line for line in told), words


def test_the_top_help_lists_every_command_and_loads_none() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, "--help"], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert ended.returncode == 0
    for entry in TABLE:
        assert re.search(rf"^  {entry.name} +{re.escape(entry.summary)}$", ended.stdout, re.M), entry.name
    loaded = set(ended.stderr.partition("LOADED ")[2].split())
    assert not {f"yarnopp_cli.cli.{entry.module}" for entry in TABLE} & loaded
    assert (
        not {"rich", "asyncio", "psutil", "msgspec", "textual", "yarnopp_cli.client.local", "tomli"} & loaded
    )


def test_a_looking_command_loads_its_module_and_nothing_heavy(cli: Cli, run_dir: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, "node", "list"], capture_output=True, text=True, cwd=ROOT, timeout=60,
        env={**os.environ, "YOPP_RUN_DIR": str(run_dir)},
    )  # fmt: skip
    assert ended.returncode == 69
    loaded = set(ended.stderr.partition("LOADED ")[2].split())
    assert "yarnopp_cli.cli.looking.node" in loaded
    assert (
        not {"rich", "asyncio", "psutil", "msgspec", "textual", "tomli", "yarnopp_cli.cli.jobs.logs"} & loaded
    )


def test_the_table_is_sound() -> None:
    assert [entry for entries in SECTIONS.values() for entry in entries] == list(TABLE)
    assert len({entry.name for entry in TABLE}) == len(TABLE)
    assert all(target[0] in COMMANDS for target in ALIASES.values())
    assert not set(ALIASES) & set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--halt", ""], "--halt"),
        (["--array", ""], "names no tasks"),
        (["--from", "/tmp/\udcff"], "is not UTF-8"),
        (["--array", "1-3%2", "--max-running", "1"], "exclude each other"),
    ],
)
def test_what_is_empty_no_text_or_said_twice_is_refused_before_a_job_is_made(
    cli: Cli, words: list[str], named: str
) -> None:
    ended = cli("run", "-Dyopp.on-demand.enabled=false", *words, "true")
    assert ended.code == 2 and named in ended.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nodee"], "nodee"),
        (["node", "lst"], "lst"),
        (["node", "list", "--frobnicate"], "--frobnicate"),
        (["node", "list", "--limit", "-1"], "--limit"),
        (["node", "list", "--limit", "x"], "--limit"),
        (["node", "list", "-o", "yaml"], "--output"),
        (["--color", "never", "node", "list", "-ojso"], "--output"),
        (["node", "list", "--state", "BROKEN"], "--state"),
        (["wait", "last", "--timeout", "soon"], "--timeout"),
        (["wait", "last", "--timeout", "-5s"], "--timeout"),
        (["app", "status"], "ID"),
        (["container", "signal", "--signal", "99", "1.1"], "--signal"),
        (["application", "-changeQueue", "x"], "-changeQueue"),
        (["rmadmin", "-transitionToActive"], "-transitionToActive"),
        (["jar"], "jar"),
    ],
)
def test_usage_errors_are_2_and_name_the_option(cli: Cli, words: list[str], named: str) -> None:
    ended = cli(*words)
    assert ended.code == 2
    assert named in ended.err
    assert ended.out == ""
    lines = ended.err.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert all(line.startswith(("  because: ", "  hint: ")) for line in lines[1:])


def test_columns_that_there_are_not(cli: Cli, cluster: object) -> None:
    for words in (["--columns", "id,nope"], ["--sort", "-nope"]):
        ended = cli("app", "list", *words)
        assert ended.code == 2
        assert "nope" in ended.err
        assert "progress" in ended.err


def test_a_misspelt_command_gets_a_suggestion(cli: Cli) -> None:
    assert "did you mean `yopp node`?" in cli("nodde").err


def test_a_group_alone_prints_its_help(cli: Cli) -> None:
    ended = cli("node")
    assert ended.code == 2
    assert "Usage: yopp node" in ended.out
    assert ended.err == ""


@pytest.mark.parametrize(
    "words", [["node", "list"], ["app", "kill", "last"], ["ps"], ["wait", "last"], ["queue", "list"]]
)
def test_without_a_cluster_it_is_69_and_says_what_to_type(cli: Cli, words: list[str]) -> None:
    ended = cli(*words)
    assert ended.code == 69
    assert ended.err.splitlines()[0] == "error: the ResourceManager is not running"
    assert "hint: yopp up" in ended.err
    assert len(ended.err.strip().splitlines()) == 3


def test_errors_as_json_are_yarns_and_stdout_is_empty(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["ps", "--json"], ["ps", "-o", "jsonl"], ["--json", "ps"]):
        ended = cli(*words)
        assert ended.out == ""
        document = json.loads(ended.err)
        assert document["yopp"]["exit"] == ended.code == 69
        assert document["RemoteException"]["exception"] == "YarnException"
    assert json.loads(cli("node", "list", "--bad", "--json").err)["yopp"]["exit"] == 2
    assert "--json" in json.loads(cli("ps", "--json", "-o", "tsv").err)["RemoteException"]["message"]
    assert json.loads(cli("jar", "--json").err)["RemoteException"]["exception"] == "BadRequestException"
    monkeypatch.setenv("YOPP_OUTPUT", "json")
    assert json.loads(cli("ps").err)["yopp"]["exit"] == 69
    monkeypatch.setenv("YOPP_OUTPUT", "yaml")
    assert cli("ps").code == 2


def test_a_bug_is_one_line_and_its_story_is_in_a_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import yarnopp_cli.cli.help.version as module

    def broken() -> str:
        raise RuntimeError("the sky fell")

    monkeypatch.setattr(
        "yarnopp_cli.cli.app.upgrade_behind", lambda error: None
    )  # files may have just been edited
    monkeypatch.setattr(module, "cgroup_version", broken)
    ended = cli("version")
    assert (ended.code, ended.out) == (70, "")
    (line,) = ended.err.splitlines()
    story = Path(line.rpartition(" ")[2])
    try:
        text = story.read_text()
        assert "the sky fell" in text
        assert story.stat().st_mode & 0o077 == 0
    finally:
        story.unlink()


def test_ctrl_c_is_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import yarnopp_cli.cli.help.version as module

    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "cgroup_version", interrupted)
    assert cli("version").code == 130


def test_ctrl_c_in_an_import_shows_nothing(tmp_path: Path) -> None:
    """Here in yopp's first one: pip's own script for a command imports before yopp can do anything."""
    (tmp_path / "yarnopp_cli").mkdir()
    (tmp_path / "yarnopp_cli/__init__.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    script = Path(__file__).parents[2] / "bin/yopp"
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([sys.executable, script, "ps"], env=env, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-2, "", "")
    installed = Path(sys.executable).with_name("yopp").read_text()
    assert installed.splitlines()[1:] == script.read_text().splitlines()[1:]
    assert installed.splitlines()[0].endswith(" -S"), (
        "scripts/venv.sh: the imports of site come after the first lines"
    )


def test_what_the_system_refuses_is_no_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import yarnopp_cli.cli.help.version as module

    def refused() -> str:
        raise PermissionError(13, "Permission denied", "/etc/x")

    monkeypatch.setattr(module, "cgroup_version", refused)
    ended = cli("version")
    assert ended.code == 77
    assert ended.err.splitlines()[:2] == ["error: cannot use /etc/x", "  because: permission denied"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            "rn true",
            (
                "no such command: rn",
                "`yopp` has no command of that name",
                "did you mean `yopp run`? `yopp --help` lists its options and arguments",
            ),
        ),
        (
            "dshell -shell_comand ls",
            (
                "no such option: --shell_comand",
                "`yopp dshell` has no option of that name",
                "did you mean --shell-args, --shell-command or --shell-env? "
                "`yopp dshell --help` lists its options and arguments",
            ),
        ),
        (
            "run --memory -5 true",
            (
                "invalid value for '--memory'",
                "'-5' is not a size; write 512 (MB), 512M or 2G",
                "`yopp run --help` lists its options and arguments",
            ),
        ),
        (
            "pi 10",
            (
                "missing argument 'NSAMPLES'",
                "`yopp pi` needs it",
                "`yopp pi --help` lists its options and arguments",
            ),
        ),
        (
            "up --memory",
            (
                "option '--memory' requires an argument",
                "nothing follows it",
                "`yopp up --help` lists its options and arguments",
            ),
        ),
        (
            "run -n 0 true",
            (
                "invalid value for '-n' / '--num-containers'",
                "0 is not between 1 and 100000",
                "`yopp run --help` lists its options and arguments",
            ),
        ),
        (
            "run --output out/{task} true",
            (
                "invalid value for '-o' / '--output'",
                "'out/{task}' is not one of 'table', 'wide', 'json', 'jsonl', 'tsv', 'name'",
                "--results NAME writes the output of tasks to files; `yopp run --help` lists its options and arguments",
            ),
        ),
        (
            "run --retries -1 true",
            (
                "invalid value for '--retries'",
                "-1 is below 0",
                "`yopp run --help` lists its options and arguments",
            ),
        ),
        (
            "up now",
            (
                "unexpected argument: now",
                "`yopp up` does not take that",
                "`yopp up --help` lists its options and arguments",
            ),
        ),
    ],
)
def test_a_usage_error_says_what_why_and_what_to_type(
    cli: Cli, words: str, lines: tuple[str, str, str]
) -> None:
    ended = cli(*words.split())
    assert ended.code == 2
    assert ended.err == "error: {}\n  because: {}\n  hint: {}\n".format(*lines)


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("dshell", "-h")])
@pytest.mark.parametrize(
    ("shell", "because"), [(">&-", "it is closed"), (">/dev/full", "no space left on device")]
)
def test_help_that_nobody_can_have_is_an_error(words: tuple[str, ...], shell: str, because: str) -> None:
    ended = yopp(*words, shell=shell)
    assert ended.returncode == 1
    assert ended.stderr.decode().splitlines()[:2] == [
        "error: cannot write to standard output",
        f"  because: {because}",
    ]


def test_version(cli: Cli) -> None:
    from yarnopp_cli import __version__

    assert cli("--version").out == cli("-V").out == f"yopp {__version__}\n"
    assert json.loads(cli("version", "--json").out)["yopp"]["version"] == __version__
    assert cli("version", "-q").out == f"{__version__}\n"


def test_help_needs_no_home_and_no_configuration() -> None:
    ended = yopp("ps", "--help", env={"YOPP_CONF": "/nonexistent/site.toml"})
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_closed_stdout_is_an_error_and_a_broken_pipe_is_quiet() -> None:
    closed = yopp("version", shell=">&-")
    assert closed.returncode == 1
    assert closed.stderr.splitlines()[0] == b"error: cannot write to standard output"
    assert len(closed.stderr.splitlines()) == 3
    full = yopp("version", shell=">/dev/full")
    assert full.returncode == 1
    assert b"no space left" in full.stderr
    assert yopp("version", shell=">&- 2>&-").returncode == 1
    assert yopp("version", shell="<&- 2>&-").returncode == 0
    help_closed = yopp("--help", shell=">&-")
    assert help_closed.returncode == 1
    assert b"Traceback" not in help_closed.stderr + full.stderr


def test_errors_are_coloured_as_asked(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the parser, and those of commands."""
    for words in (("app", "status", "99"), ("app", "status", "--nonsense")):
        assert cli(*words, "--color", "always").err.startswith("\x1b[31merror:\x1b[0m ")
        assert "\x1b" not in cli(*words).err
        monkeypatch.setenv("CLICOLOR_FORCE", "1")
        assert "\x1b" in cli(*words).err
        assert "\x1b" not in cli(*words, "--color=never").err
        assert "\x1b" not in cli(*words, "--color", "never").err
        monkeypatch.delenv("CLICOLOR_FORCE")


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "yarnopp_cli", "version"],
            stdout=write,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=60,
        )
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_bytes_that_are_no_text_are_refused_and_not_a_bug() -> None:
    ended = yopp("node", "status", b"\xff\xfe", env={"YOPP_RUN_DIR": "/nonexistent/run"})
    assert ended.returncode in (2, 66, 69)
    assert b"Traceback" not in ended.stderr
