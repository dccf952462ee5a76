"""Plain configuration files are read without a TOML library as with it; all others are left to that."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnopp_cli.settings.entries import Reading
from yarnopp_cli.settings.plain_toml import read_plain
from yarnopp_cli.settings.toml import read_toml

pytestmark = pytest.mark.pure
CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def facts(reading: Reading) -> list[tuple[object, ...]]:
    assert not reading.problems and not reading.warnings
    return [(one.name, one.value, type(one.value), one.origin) for one in reading.entries]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_the_files_that_come_with_yopp(path: Path) -> None:
    text = path.read_text()
    plain = read_plain(text, str(path))
    if plain is not None:
        assert facts(plain) == facts(read_toml(text, str(path)))
    assert plain is not None or path.name != "yarn-site.toml", "the one that is read most is plain"


_KEYS = st.lists(st.sampled_from(["a", "b", "c", "a-b", "1"]), min_size=1, max_size=3).map(".".join)
_BLANK = st.sampled_from(["", "", " ", "\t"])
_VALUES = st.sampled_from(
    [
        "1",
        "-2",
        "0",
        "00",
        "+1",
        "1_0",
        "1.5",
        "true",
        "false",
        "True",
        '"x"',
        "'x'",
        '""',
        "''",
        '"""x"""',
        "'''x'''",
        '"a\\nb"',
        "'a\\nb'",
        "[1]",
        "{}",
        "",
        "inf",
        "2020-01-01",
        "99999999999999999999",
        '"#"',
        "'",
        '"',
        "x",
        '"ä"',
        '"a" b',
        "١",
    ]
)
_COMMENT = st.sampled_from(["", "", " # a = 1", "#", " # ä", " #\x00", " x", "\r", "\u2028"])
_LINES = (
    st.tuples(_BLANK, _KEYS, _BLANK, st.just("="), _BLANK, _VALUES, _COMMENT)
    | st.tuples(_BLANK, st.just("["), _KEYS, st.just("]"), _BLANK, _COMMENT)
    | st.tuples(
        _BLANK,
        st.sampled_from(["[[a]]", "[ a ]", '["a"]', "a", "=", "a.=1", '"a"=1', "a . b = 1", "[]", "["]),
    )
    | st.tuples(_BLANK, _COMMENT)
).map("".join)


@settings(max_examples=600, deadline=None, database=None)
@given(st.lists(_LINES, max_size=6), st.sampled_from(["", "\ufeff"]))
def test_what_is_read_is_what_the_library_reads(lines: list[str], mark: str) -> None:
    text = mark + "\n".join(lines)
    plain = read_plain(text, "/site.toml")
    if plain is not None:
        assert facts(plain) == facts(read_toml(text, "/site.toml"))


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.lists(
        st.tuples(_BLANK, _KEYS, st.just(" = "), st.sampled_from(["1", "true", '"x"'])).map("".join),
        max_size=2,
    )
)
def test_one_plain_key_is_always_read(lines: list[str]) -> None:
    if len(lines) == 1:
        assert read_plain(lines[0], "/site.toml") is not None


LEFT = [
    "a = 1\na = 2",
    "[a]\n[a]",
    "[a]\nb.c = 1\n[a.b]\nd = 1",
    "[a.b]\n[a]\nb.c = 1",
    "a = 1\n[a]",
    "a = 1\na.b = 1",
    "a",
    "a = [1]",
    "a = 1.5",
    'a = "\\n"',
    "a = 1 b",
    "[[a]]",
    "a = '''x'''",
    "a = 010",
    "a = \x00",
]


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left_to_the_library(text: str) -> None:
    assert read_plain(text, "/site.toml") is None
