"""The values of a sweep, from files and the command line; what is refused, and by which line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from yarnopp_cli.cli.jobs.run import halt_of
from yarnopp_cli.cli.jobs.sweep import numbers_of, varied, without_a_shell
from yarnopp_cli.errors import UsageError, YoppError
from yarnopp_cli.jobs import tasklines
from yarnopp_cli.masters.commands import Tasks
from yarnopp_cli.masters.sweeps import launch_of, shells_mark
from yarnopp_cli.records.jobs import Halt, Sweep

pytestmark = pytest.mark.pure


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def sweep_of(
    words: Sequence[str],
    file: Path | None = None,
    array: str | None = None,
    *,
    shell: bool = False,
    count: int = 1,
    here: bool = True,
    null: bool = False,
    colsep: str | None = None,
) -> Tasks:
    tasks = Tasks(tuple(words), (range(1, count + 1),))
    return varied(
        tasks,
        str(file) if file else None,
        array,
        shell=shell,
        environment={"PATH": "/usr/bin:/bin"},
        directory="/" if here else None,
        null=null,
        colsep=colsep,
    )


def refused(*words: str, file: Path | None = None, **more: object) -> YoppError:
    with pytest.raises(YoppError) as caught:
        sweep_of(words, file, **more)  # type: ignore[arg-type]
    assert caught.value.because and caught.value.hint
    return caught.value


def test_lines_are_commands_or_values(lines: Path) -> None:
    lines.write_text("true a\n\n# none\n  sleep 'b c'\n")
    alone = sweep_of([], lines)
    assert alone.sweep is not None and alone.sweep.sources == (("true a", "sleep 'b c'"),)
    assert (alone.name, alone.numbers) == ("lines", (range(1, 3),))
    filled = sweep_of(["echo", "x{}"], lines)
    assert filled.sweep is not None and len(filled.sweep.sources[0]) == 4, "every line is a value"
    assert filled.name == ""
    both = sweep_of(["echo", ":::", "1", "2", "::::", str(lines)])
    assert both.sweep is not None and both.sweep.size == 8


def test_bad_lines_are_refused_by_their_number(lines: Path) -> None:
    lines.write_text("true\n\nno-such-program x\n")
    error = refused(file=lines)
    assert (
        error.message == f"line 3 of {lines}: command not found: no-such-program" and error.exit_code == 127
    )
    assert sweep_of([], lines, shell=True).sweep is not None, "the shell looks for programs itself"
    for text, why in (
        (b"true\necho 'a\n", "no closing quotation"),
        (b"true\n\xff\n", "not UTF-8"),
        (b"true\na\0b\n", "NUL"),
        (b"true\n" + b"x" * 131_062 + b"\n", "131,061"),
    ):
        lines.write_bytes(text)
        error = refused(file=lines)
        assert error.message == f"line 2 of {lines} cannot be run" and why in error.because
    lines.write_bytes(b"x" * 131_061)
    assert sweep_of(["true"], lines).sweep is not None


@pytest.mark.parametrize(
    ("words", "shell", "where"),
    [
        ((":::", ""), False, "value 1 after :::"),
        ((":::", "true", " "), True, "value 2 after :::"),
        ((":::", "''"), False, "value 1 after :::"),
        ((":::", "true", "", ":::", "", "x"), False, "value 2 after ::: with value 1 after :::"),
        ((":::", "true", "", ":::+", "x", ""), False, "value 2 after ::: with value 2 after :::+"),
        (("{}", ":::", "true", ""), False, "value 2 after :::"),
    ],
)
def test_a_value_that_names_no_program_is_refused_by_its_place(
    words: tuple[str, ...], shell: bool, where: str
) -> None:
    error = refused(*words, shell=shell)
    assert error.message == f"{where} cannot be run" and "no program" in error.because


def test_empty_values_of_a_command_and_those_of_other_tasks_are_fine() -> None:
    assert sweep_of(["echo", ":::", ""]).sweep is not None
    assert sweep_of([":::", "", "true"], array="2").numbers == (range(2, 3),)


def test_a_file_of_commands_is_read_alike_after_from_and_after_the_mark(lines: Path) -> None:
    lines.write_text("true a\n\n# none\nfalse\n")
    assert sweep_of(["::::", str(lines)]) == sweep_of([], lines)
    lines.write_text("true\n\nno-such-program\n")
    assert f"line 3 of {lines}" in refused("::::", str(lines)).message


def test_values_that_fit_alone_and_not_together_are_refused(lines: Path) -> None:
    lines.write_text("a\n" + "x" * 131_000 + "\n")
    for words, why in (
        (("echo", "::::", str(lines), ":::", "y" * 100), "YOPP_ARGS would have 131,111 bytes"),
        (("echo", "{1}{1}", "::::", str(lines)), "a word of the command would have 262,000 bytes"),
        (("echo", *["{}"] * 60, "::::", str(lines)), "its words would have"),
    ):
        error = refused(*words)
        assert error.message.startswith(f"line 2 of {lines}") and why in error.because
    quoted = refused("echo {}", ":::", "'" * 30_000, shell=True)
    assert "a word of the command would have 150,007 bytes" in quoted.because


def test_no_more_tasks_than_a_job_has(lines: Path) -> None:
    lines.write_text("true\n" * (tasklines.MOST_TASKS + 1))
    error = refused(file=lines)
    assert "line 100001 of" in error.message
    many = [":::", *["x"] * 400]
    assert "160,000 tasks" in refused("echo", *many, *many).message


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("echo", "{3}", ":::", "a", ":::", "b"), {}),
        (("echo", ":::", "a", "b", ":::+", "1"), {}),
        (("echo", ":::+", "1"), {}),
        (("echo", "::::"), {}),
        (("echo", ":::", "a", "::::+"), {}),
        (("echo",), {"array": ""}),
        (("echo", ":::", "a"), {"count": 3}),
        (("echo", ":::", "a"), {"here": False}),
        (("echo", ":::", "a"), {"array": "1-2"}),
        (("echo", ":::", "a"), {"array": "0"}),
        (("echo",), {"array": "1-2", "count": 2}),
        (("no-such-program", ":::", "a"), {}),
        ((), {"array": "1-3"}),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], more: dict[str, object]) -> None:
    refused(*words, **more)


def test_arrays() -> None:
    assert numbers_of("5-50:5", "") == (range(5, 51, 5),)
    assert [list(one) for one in numbers_of("1,3,7-9", "")] == [[1], [3], [7, 8, 9]]
    assert sweep_of(["true"], array="0-3").numbers == (range(4),)
    assert sweep_of(["echo", ":::", "a", "b"], array="2").numbers == (range(2, 3),)
    for text in ("", "x", "3-1", "1-", "1-5:0", "1,1", "1-3,2", "1-200000", "-1"):
        with pytest.raises(UsageError) as caught:
            numbers_of(text, "hint")
        assert caught.value.because


def test_the_bound_of_an_array() -> None:
    tasks = sweep_of(["true"], array="5-50:5%4")
    assert (tasks.numbers, tasks.max_running) == ((range(5, 51, 5),), 4)
    for text in ("1-5%", "1-5%0", "1-5%x"):
        refused("true", array=text)


def test_halts() -> None:
    assert halt_of("soon,fail=1", 5) == Halt(1)
    assert halt_of("now,fail=10%", 300) == Halt(30, True)
    assert halt_of("now,fail=10%", 11) == Halt(2, True)
    for text in (
        "",
        "now",
        "later,fail=1",
        "now,fail=0",
        "soon,fail=-1",
        "now,fail=x%",
        "soon,success=1",
        "now,fail=101%",
    ):
        with pytest.raises(UsageError) as caught:
            halt_of(text, 10)
        assert caught.value.because and caught.value.hint


def test_a_line_for_the_shell_is_one_word_for_it() -> None:
    tasks = sweep_of(["echo a | cat"], shell=True)
    assert (tasks.command, tasks.sweep, tasks.name) == (("/bin/sh", "-c", "echo a | cat"), None, "echo")
    assert not any(sweep_of(["echo", ":::"]).numbers), "no values, no tasks"
    assert not any(sweep_of(["echo", ":::"], array="1-2").numbers)


def test_values_that_end_with_a_nul_byte_may_have_ends_of_lines(lines: Path) -> None:
    lines.write_bytes(b"a\nb\0\0c")
    found = sweep_of(["echo"], lines, null=True)
    assert found.sweep is not None and found.sweep.sources == (("a\nb", "", "c"),)
    big = b"x" * tasklines.LONGEST
    lines.write_bytes(b"\0".join([big] * 3))
    found = sweep_of(["echo", "::::", str(lines)], null=True)
    assert found.sweep is not None and found.sweep.sources == ((big.decode(),) * 3,)
    lines.write_bytes(b"fine\0" + b"x" * 1_000_000)
    assert "line 2 of" in refused("echo", file=lines, null=True).message
    assert "-0 needs a COMMAND" in refused(file=lines, null=True).message


def test_columns_are_values_that_go_along_with_each_other(lines: Path) -> None:
    lines.write_text("foo\tbar\nbaz \t quux\n")
    found = sweep_of(["echo", "{2}", "{1}", ":::", "x", "y"], lines, colsep=r"\t")
    assert found.sweep == Sweep((("foo", "baz"), ("bar", "quux"), ("x", "y")), linked=(1,))
    assert found.numbers == (range(1, 5),)
    along = sweep_of(["echo", ":::", "1", "2", ":::+", "a", "c"], colsep="(,)|;").sweep
    assert along == Sweep((("1", "2"), ("a", "c")), linked=(1,))
    both = sweep_of(["echo", ":::", "1,3", "2;4", ":::+", "a,b", "c,d"], colsep="(,)|;").sweep
    assert both == Sweep((("1", "2"), ("3", "4"), ("a", "c"), ("b", "d")), linked=(1, 2, 3))
    assert sweep_of(["echo", ":::", "ab"], colsep="x*").sweep == Sweep((("ab",),))
    shorter = refused("echo", ":::", "a", "b", ":::+", "c")
    assert shorter.message == "1 value cannot go along with 2", (
        "neither repeated nor left out, as in parallel"
    )
    lines.write_text("1,2\n1,2,3\n")
    uneven = refused("echo", file=lines, colsep=",")
    assert uneven.message == f"line 2 of {lines} has 3 columns" and "has 2" in uneven.because
    lines.write_text("1,2\n1\n")
    assert refused("echo", file=lines, colsep=",").message == f"line 2 of {lines} has 1 column"
    assert "is not a regular expression" in refused("echo", ":::", "a", colsep="(").message
    assert "--colsep needs a COMMAND" in refused("echo", colsep=",").message
    assert "no value {3}" in refused("echo", "{3}", ":::", "1,2", colsep=",").message


MARKS = {
    "\u00a0": "U+00A0 (no-break space)",
    "\u200b": "U+200B (zero width space)",
    "\ufeff": "U+FEFF (zero width no-break space)",
    "\u2028": "U+2028 (line separator)",
    "\u3000": "U+3000 (ideographic space)",
    "\u00ad": "U+00AD (soft hyphen)",
    "\x1b": "U+001B (unnamed)",
    "\u3164": "U+3164 (hangul filler)",
    "\ufe0f": "U+FE0F (variation selector-16)",
    "\u2800": "U+2800 (braille pattern blank)",
    "\U000e0100": "U+E0100 (variation selector-17)",
}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("line", ["true{}x", "{}true", "true{}"])
def test_a_character_that_nobody_sees_is_named(lines: Path, mark: str, line: str) -> None:
    lines.write_text(f"true\n{line.format(mark)} a\n", encoding="utf-8")
    for more in ({}, {"shell": True}, {"here": False}):
        problem = refused(file=lines, **more)
        assert problem.message.startswith(f"line 2 of {lines}"), problem
        assert MARKS[mark] in problem.because and "anew" in problem.hint
    assert MARKS[mark] in refused(line.format(mark), ":::", "a").because


@pytest.mark.parametrize("mark", MARKS)
def test_it_reaches_a_task_as_an_argument(lines: Path, mark: str) -> None:
    lines.write_text(f"true a{mark}b {mark}\n", encoding="utf-8")
    found = sweep_of([], lines).sweep
    assert found is not None and launch_of((), found, 1)[0] == ("true", f"a{mark}b", mark)
    assert sweep_of(["true"], lines).sweep == Sweep(((f"true a{mark}b {mark}",),))


def test_a_byte_order_mark_is_none_of_the_text(lines: Path) -> None:
    lines.write_bytes(b"\xef\xbb\xbftrue a\r\n\xef\xbb\xbftrue\r\n")
    assert "U+FEFF" in refused(file=lines).because, "in another line it is one of its characters"
    lines.write_bytes(b"\xef\xbb\xbf# none\r\n\r\ntrue a\r\n")
    assert sweep_of([], lines).sweep == Sweep((("true a",),))
    lines.write_bytes(b"\xef\xbb\xbf1;x\n2;y\n")
    assert sweep_of(["true"], lines).sweep == Sweep((("1;x", "2;y"),))
    assert sweep_of(["true", "::::", str(lines)], colsep=";").sweep == Sweep(
        (("1", "2"), ("x", "y")), linked=(1,)
    )
    lines.write_bytes(b"\xef\xbb\xbfa\0b\0")
    assert sweep_of(["true"], lines, null=True).sweep == Sweep((("\ufeffa", "b"),)), "a name that find prints"
    for encoding in ("utf-16-le", "utf-16-be"):
        lines.write_bytes("\ufefftrue\n".encode(encoding))
        assert "UTF-16" in refused(file=lines).because


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("echo a > o1.txt", ">"),
        ("sort <in", "<"),
        ("a | b", "|"),
        ("cd /x; ls", ";"),
        ("a && b", "&&"),
        ("sleep 1 &", "&"),
        ("echo $HOME", "$HOME"),
        ("echo `date`", "`"),
        ('echo "$HOME"', "$HOME"),
        ('echo "a > b; c"', ""),
        ("awk '{print $1}' f", ""),
        (r"echo \$HOME \> x", ""),
        ("curl http://x/?a=1&b=2", ""),
        ("grep foo$ f", ""),
        ("find . -exec ls {} ;", ""),
        ("find . -exec ls {} ; > x", ">"),
        ("echo 'a' \"b\" c", ""),
        ("echo \"it's\" '$X'", ""),
        ("make 2>&1", ">"),
        ('echo "\\$X"', ""),
        ("a || b", "|"),
        ("echo $(date)", "$("),
        ('echo "`date`"', "`"),
        ("echo ${X}", "${"),
        ("true", ""),
        ('echo "x', ""),
        ("cost 5$", ""),
        ("p $1", "$1"),
        ('echo "a\\"$X"', "$X"),
    ],
)
def test_what_a_shell_would_act_on_is_found_outside_of_the_quotes_that_protect_it(
    line: str, mark: str
) -> None:
    assert shells_mark(line) == mark


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("ls *.c", "*.c"), ("ls -l ?.c b", "?.c"), ("ls [ab].c", "[ab].c"), ("ls ~", "~"), ("ls ~/x y", "~/x"),
        ("rm -f *.o", ""), ("ls '*.c'", ""), ('ls "*.c"', ""), (r"ls \*.c", ""), ("ls x~", ""), ("ls 'a'*.c", ""),
        ("curl http://x/?a=1", ""),
    ],
)  # fmt: skip
def test_what_a_shell_would_replace_by_names_is_told(
    line: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.c").touch()
    monkeypatch.chdir(tmp_path)
    told = without_a_shell(Tasks((), (range(1, 2),), Sweep(((line,),))))
    assert told.startswith(f"`{mark}` in `{line}` is passed") if mark else told == ""
