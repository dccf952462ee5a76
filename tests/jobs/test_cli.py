"""The command lines of run, dshell and pi, as far as they need no cluster."""

from __future__ import annotations

from unittest import mock

import pytest

from executor.records import Resource
from tests.cli.test_argv import YARNS_FLAGS, YARNS_VALUES
from yarnopp_cli import started
from yarnopp_cli.cli.frame.command import REGISTERED
from yarnopp_cli.cli.frame.options import BadValueError
from yarnopp_cli.cli.frame.typed import made
from yarnopp_cli.cli.jobs import dshell, pi, run, variables  # noqa: F401  (pi, run: registered)
from yarnopp_cli.errors import UsageError, YoppError


def options_of(name: str) -> set[str]:
    """Every spelling of every option of a command."""
    return {option for parameter in made(REGISTERED[name]).params for option in parameter.opts}


def test_dshell_has_every_option_of_yarns() -> None:
    ours = options_of("dshell")
    hadoops = {"--" + name.replace("_", "-") for name in {*YARNS_VALUES, *YARNS_FLAGS} - {"help"}}
    assert hadoops <= ours, hadoops - ours


def test_every_option_that_does_nothing_says_why() -> None:
    assert all(why for name, why in dshell.WITHOUT_MEANING.items() if name != "jar")


@pytest.mark.parametrize("name", ["run", "dshell", "pi"])
def test_help_ends_with_two_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        made(REGISTERED[name]).main([name, "--help"][1:], prog_name=f"yopp {name}")
    assert ended.value.code == 0
    examples = capsys.readouterr().out.split("Examples:")[1].strip().splitlines()
    assert len(examples) == 2 and all(line.strip().startswith(f"yopp {name}") for line in examples)


def test_what_follows_the_command_belongs_to_it() -> None:
    parsed = (
        made(REGISTERED["run"]).make_context("run", ["-n", "3", "-O", "sleep", "-n", "5", "--help"]).params
    )
    assert (parsed["count"], list(parsed["command"])) == (3, ["sleep", "-n", "5", "--help"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("memory-mb=512,vcores=2", Resource(512, 2)), ("memory=2G", Resource(2048, -1)),
     ("memory-mb=64Mi", Resource(64, -1)), ("vcores=3", Resource(-1, 3)), ("", Resource(-1, -1))],
)  # fmt: skip
def test_resources_in_yarns_form(text: str, expected: Resource) -> None:
    assert dshell.resources(text) == expected


@pytest.mark.parametrize(
    "text", ["memory", "memory-mb=x", "gpu=x", "fpga!=1", "vcores=2G", "vcores=-1", "memory=9999999999p"]
)
def test_resources_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        dshell.resources(text)
    assert caught.value.because and caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"), [("600000", 600_000), ("-1", -1), ("90s", 90_000), ("2m", 120_000)]
)
def test_timeouts_are_milliseconds_unless_they_say_otherwise(text: str, expected: int) -> None:
    assert dshell.milliseconds(text) == expected


@pytest.mark.parametrize("text", ["9" * 16, "-" + "9" * 5000, "1x"])
def test_what_is_no_timeout_is_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        dshell.milliseconds(text)


def test_variables() -> None:
    assert variables.assignments(["A=1", "B", "C=x=y"]) == {"A": "1", "B": "", "C": "x=y"}
    with pytest.raises(UsageError):
        variables.assignments(["=1"])
    with mock.patch.object(started, "environment", lambda: {"B": "x=y", "A": "2"}):
        words = variables.with_values(["A=1", "B", "C", "D=", "=1"])
    assert words == ["A=1", "B=x=y", "D=", "=1"]
    variables.refuse_owned(["HOME", "USER", "PATH", "LD_PRELOAD"])
    for name in ("PWD", "CONTAINER_ID", "NM_HOST", "LOG_DIRS", "YOPP_TASK", "YOPP_TASKS"):
        with pytest.raises(UsageError) as caught:
            variables.refuse_owned([name])
        assert name in caught.value.message and caught.value.because and caught.value.hint


def test_hadoops_exit_codes_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def usage() -> int:
        raise UsageError("x")

    def broken() -> int:
        raise YoppError("x", exit_code=69)

    monkeypatch.delenv("YOPP_HADOOP_EXIT", raising=False)
    assert dshell.in_hadoops_codes(lambda: 7) == 7
    monkeypatch.setenv("YOPP_HADOOP_EXIT", "1")
    assert [dshell.in_hadoops_codes(lambda: 7), dshell.in_hadoops_codes(lambda: 0)] == [2, 0]
    for function, code in ((usage, 255), (broken, 1)):
        with pytest.raises(YoppError) as caught:
            dshell.in_hadoops_codes(function)
        assert caught.value.exit_code == code
