"""TOML: spellings of one name, and every mistake with its file and line."""

from __future__ import annotations

import os
import textwrap

import pytest

from yarnopp_cli.errors import ConfigurationError, InvalidPropertyError, UnknownPropertyError
from yarnopp_cli.settings.toml import lines_of_keys

from .conftest import Load, Problems, Write

NAME = "yarn.scheduler.maximum-allocation-mb"


@pytest.mark.parametrize(
    "text",
    [
        f"{NAME} = 4096",
        f'"{NAME}" = 4096',
        f"'{NAME}' = 4096",
        f'{NAME} = "4096"',
        f'{NAME} = " 0x1000 "',
        f"{NAME} = 4_096",
        "[yarn]\nscheduler.maximum-allocation-mb = 4096",
        "[yarn.scheduler]\nmaximum-allocation-mb = 4096",
        '[yarn]\n"scheduler.maximum-allocation-mb" = 4096',
        '["yarn.scheduler"]\nmaximum-allocation-mb = 4096',
        "yarn = { scheduler = { maximum-allocation-mb = 4096 } }",
        "yarn.scheduler = { maximum-allocation-mb = 4096 }",
        f"\ufeff{NAME} = 4096\r\n",
    ],
)
def test_spellings_of_one_property(load_with: Load, write: Write, text: str) -> None:
    path = write("site.toml", text)
    configuration = load_with([path])
    assert configuration.value(NAME) == 4096
    assert configuration.origin(NAME) == f"{path}:{text.strip().count(chr(10)) + 1}"


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("yarn.nodemanager.recovery.enabled", "false", False),
        ("yarn.nodemanager.recovery.enabled", '"FALSE"', False),
        ("yarn.nodemanager.recovery.enabled", '" true "', True),
        ("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", "2", 2.0),
        ("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", "1.5", 1.5),
        ("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", '"1.5f"', 1.5),
        ("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", '".5"', 0.5),
        ("yarn.nodemanager.resource.memory-mb", '"-1"', -1),
        ("yopp.nodemanager.cgroups.mode", '"v2"', "v2"),
        ("yarn.nodemanager.log-dirs", '"/var/log/yopp"', "/var/log/yopp"),
    ],
)
def test_values_are_read_as_yarn_reads_them(
    load_with: Load, write: Write, name: str, written: str, value: object
) -> None:
    found = load_with([write("site.toml", f"{name} = {written}\n")]).value(name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "written", "because"),
    [
        (NAME, '"a lot"', 'expected a whole number of at least 1, found "a lot"'),
        (NAME, "1.5", "expected a whole number of at least 1, found a number"),
        (NAME, "true", "expected a whole number of at least 1, found a boolean"),
        (NAME, "[1]", "expected a whole number of at least 1, found a list"),
        (NAME, "2026-01-01", "expected a whole number of at least 1, found a date or time"),
        (NAME, "0", "expected a whole number of at least 1, found 0"),
        (NAME, "-5", "expected a whole number of at least 1, found -5"),
        (NAME, '""', 'expected a whole number of at least 1, found ""'),
        (NAME, "2147483648", "expected a whole number of at least 1, found a number beyond 2147483647"),
        (NAME, "1" + "0" * 3000, "expected a whole number of at least 1, found a number beyond 2147483647"),
        (NAME, '"1_000"', 'expected a whole number of at least 1, found "1_000"'),
        (NAME, '"4096 MB"', 'expected a whole number of at least 1, found "4096 MB"'),
        (NAME, '"\\u0664"', 'expected a whole number of at least 1, found "\u0664"'),
        ("yarn.nodemanager.recovery.enabled", '"yes"', 'expected true or false, found "yes"'),
        ("yarn.nodemanager.recovery.enabled", "1", "expected true or false, found a whole number"),
        (
            "mapreduce.job.num-opportunistic-maps-percent",
            "101",
            "expected a whole number from 0 to 100, found 101",
        ),
        (
            "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
            "nan",
            "expected a number of at least 0, found nan",
        ),
        (
            "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
            "inf",
            "expected a number of at least 0, found inf",
        ),
        (
            "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
            '"NaN"',
            'expected a number of at least 0, found "NaN"',
        ),
        (
            "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
            '"1e999"',
            "expected a number of at least 0, found inf",
        ),
        (
            "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
            "1" + "0" * 400,
            "expected a number of at least 0, found a number beyond 2147483647",
        ),
        (
            "yopp.nodemanager.cgroups.mode",
            '"v3"',
            'expected one of auto, v1, v2, none, found "v3"',
        ),
        (
            "yarn.nodemanager.log-dirs",
            '"logs"',
            'expected the absolute path of one directory, found "logs"',
        ),
        (
            "yarn.nodemanager.log-dirs",
            '"/a,/b"',
            'expected the absolute path of one directory, found a list: "/a,/b"',
        ),
        (
            "yarn.nodemanager.log-dirs",
            '"/a\\u0000b"',
            "expected the absolute path of one directory, found one with control characters",
        ),
        (
            "yarn.nodemanager.log-dirs",
            "5",
            "expected the absolute path of one directory, found a whole number",
        ),
        ("yarn.nodemanager.amrmproxy.address", '"8049"', 'expected host:port, found "8049"'),
        ("yarn.nodemanager.amrmproxy.address", '"h:99999"', 'expected host:port, found "h:99999"'),
        ("yarn.nodemanager.amrmproxy.address", '""', 'expected host:port, found ""'),
        (
            "yarn.nodemanager.linux-container-executor.cgroups.hierarchy",
            '"/a/../.."',
            'expected the path of a cgroup such as "/hadoop-yarn", found "/a/../.."',
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(
    problems_of: Problems, write: Write, name: str, written: str, because: str
) -> None:
    path = write("site.toml", f"# a comment\n\n{name} = {written}\n")
    (problem,) = problems_of([path])
    assert isinstance(problem, InvalidPropertyError)
    assert problem.message.startswith(f"{path}:3: {name}")
    assert problem.because == because
    assert problem.exit_code == 78


@pytest.mark.parametrize(
    ("unknown", "suggested"),
    [
        (
            "yarn.resourcemanager.opportunistic-container-alocation.enabled",
            "yarn.resourcemanager.opportunistic-container-allocation.enabled",
        ),
        ("yarn.scheduler.maximum-allocation-gb", "yarn.scheduler.maximum-allocation-mb"),
        ("yarn.resourcemanger.scheduler.address", "yarn.resourcemanager.scheduler.address"),
        ("YARN.Scheduler.Maximum-Allocation-MB", "yarn.scheduler.maximum-allocation-mb"),
        ("nodemanager.resource.memory-mb", "yarn.nodemanager.resource.memory-mb"),
        (f"{NAME}.x", NAME),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    problems_of: Problems, write: Write, unknown: str, suggested: str
) -> None:
    head, _, rest = unknown.partition(".")
    path = write("site.toml", f"\n['{head}']\n{rest} = 1\n")
    (problem,) = problems_of([path])
    assert isinstance(problem, UnknownPropertyError)
    assert problem.message == f"{path}:3: unknown property {unknown}"
    assert problem.hint == f"did you mean {suggested}?"


def test_a_name_like_none_gets_no_wild_guess(problems_of: Problems, write: Write) -> None:
    (problem,) = problems_of([write("site.toml", "colour = 'red'")])
    assert problem.hint == "`yopp config show --all` lists every property"


def test_the_state_directory_is_no_property(problems_of: Problems) -> None:
    (problem,) = problems_of(defines=["yopp.state-dir=/x"])
    assert "--run-dir" in problem.hint


def test_two_spellings_of_one_name_in_one_file(problems_of: Problems, write: Write) -> None:
    path = write("site.toml", f'"{NAME}" = 1024\n\n[yarn.scheduler]\nmaximum-allocation-mb = 2048\n')
    (problem,) = problems_of([path])
    assert problem.message == f"{path}:4: {NAME} is given twice"
    assert problem.because.endswith(f"the first is at {path}:1")


@pytest.mark.parametrize(
    ("text", "where", "because"),
    [
        ("a = 1\nb = \n", ":2:5", "Invalid value"),
        ("a 1", ":1:3", "Expected '=' after a key in a key/value pair"),
        ("[yarn\n", ":1:6", "Expected ']' at the end of a table declaration"),
        ("x = 'a", ":1:7", 'Expected "\'"'),
        ("a = 1\na = 2\n", ":", "Cannot overwrite a value"),
        ("a = " + "9" * 5000, "", "it contains a number that is too large"),
        ("a = " + "[" * 100_000, "", "it is nested too deeply"),
    ],
)
def test_syntax_errors_have_line_and_column(
    problems_of: Problems, write: Write, text: str, where: str, because: str
) -> None:
    path = write("site.toml", text)
    (problem,) = problems_of([path])
    assert problem.message.startswith(f"{path}{where}")
    assert problem.message.endswith(": not a TOML document")
    assert problem.because == because


def test_not_utf8(problems_of: Problems, write: Write) -> None:
    path = write("site.toml", b"# caf\xc3\xa9\nx = '\xff'\n")
    (problem,) = problems_of([path])
    assert problem.message == f"{path}:2:6: not UTF-8"
    assert problem.because == "byte 0xff is not valid there"


def test_a_missing_file(problems_of: Problems) -> None:
    (problem,) = problems_of(["/nonexistent/site.toml"])
    assert problem.message == "/nonexistent/site.toml: cannot read this file"
    assert problem.because == "no such file or directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(problems_of: Problems, write: Write) -> None:
    path = write("site.toml", "")
    os.chmod(path, 0)
    (problem,) = problems_of([path])
    assert problem.because == "permission denied"


def test_a_file_that_fails_in_reading(problems_of: Problems) -> None:
    (problem,) = problems_of(["/proc/self/mem"])  # its first page is never mapped: EIO
    assert problem.message == "/proc/self/mem: cannot read this file"
    assert problem.because == "input/output error"


def test_a_device_and_an_endless_file(problems_of: Problems, write: Write) -> None:
    (problem,) = problems_of(["/dev/zero"])
    assert problem.because == "it is a device"
    (problem,) = problems_of([write("site.toml", b"#" * (4 * 1024 * 1024 + 1))])
    assert problem.because == "it has more than 4194304 bytes"


def test_a_name_with_a_nul_or_an_escape(problems_of: Problems) -> None:
    (problem,) = problems_of(["/tmp/a\0b"])
    assert problem.message == "/tmp/a\\x00b: cannot read this file"
    (problem,) = problems_of(["/tmp/\x1b[31m.toml"])
    assert problem.message == "/tmp/\\x1b[31m.toml: cannot read this file"


def test_every_problem_is_found_not_only_the_first(
    problems_of: Problems, load_with: Load, write: Write
) -> None:
    path = write("site.toml", f"{NAME} = 0\nyarn.nothing = 1\nyarn.nodemanager.recovery.enabled = 7\n")
    problems = problems_of([path], ["foo"])
    assert sorted(
        problem.message.rpartition(path)[2][:3] for problem in problems if path in problem.message
    ) == [
        ":1:",
        ":2:",
        ":3:",
    ]
    assert len(problems) == 4
    with pytest.raises(ConfigurationError, match=r"yarn\.nothing") as raised:
        load_with([path], ["foo"])
    assert raised.value.hint.endswith("3 more problems: `yopp config check` lists all")


def test_lines_of_keys_past_all_that_looks_like_keys() -> None:
    text = textwrap.dedent(
        '''\
        top = """
        [not.a.section]
        nor = "a key" """
        second = [  # a list [of
          "x = 1", 'y = 2',
          { inner = 3 },
        ]
        third = \'\'\'
        [no]
        \'\'\'
        # [comment]
        fourth = "a # \\" no comment [" # [x
          [ "sec tion" . b ]  # note
        "k\\u0041" . 'c.d' = 1
        [[many]]
        a = 1
        [[many]]
        a = 2
        '''
    )
    assert lines_of_keys(text) == {
        "top": [1],
        "second": [4],
        "third": [8],
        "fourth": [12],
        "sec tion.b": [13],
        "sec tion.b.kA.c.d": [14],
        "many": [15, 17],
        "many.a": [16, 18],
    }


def test_a_key_inside_an_inline_table_has_the_line_of_the_table(load_with: Load, write: Write) -> None:
    path = write("site.toml", "\n\nyarn = { scheduler = { maximum-allocation-mb = 9000 } }")
    assert load_with([path]).origin(NAME) == f"{path}:3"


def test_the_namespace_alone_is_no_likeness(problems_of: Problems) -> None:
    (problem,) = problems_of(defines=["yarn.nodemanager.nosuch=1"])
    assert problem.hint == "`yopp config show -a | grep yarn.nodemanager.` lists the existing ones"
