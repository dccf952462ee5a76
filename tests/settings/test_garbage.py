"""Whatever a file or a ``-D`` holds, what comes of it is a configuration or ConfigurationErrors."""

from __future__ import annotations

import string
from typing import Any

import tomli
from hypothesis import example, given, settings
from hypothesis import strategies as st

from yarnopp_cli.errors import ConfigurationError
from yarnopp_cli.settings.declarations import PROPERTIES
from yarnopp_cli.settings.loading import Configuration, examine
from yarnopp_cli.settings.plain_toml import read_plain
from yarnopp_cli.settings.suggest import printable
from yarnopp_cli.settings.toml import lines_of_keys, read_toml
from yarnopp_cli.settings.values import Refused, from_text, from_toml, to_text
from yarnopp_cli.settings.xml import read_xml

NAMES = sorted(PROPERTIES)
EXAMPLES = settings(max_examples=150, deadline=None)

TOML_PIECES = [
    "yarn",
    "mapreduce",
    "scheduler.minimum-allocation-mb",
    "x",
    ".",
    "=",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    '"""',
    "'''",
    "#",
    ",",
    "\\",
    "1",
    "1e9",
    "true",
    "nan",
    "2026-01-01",
    "${a}",
    "é",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\x00",
]
XML_PIECES = [
    "<configuration>",
    "</configuration>",
    "<property>",
    "</property>",
    "<name>",
    "</name>",
    "<value>",
    "</value>",
    "<final>",
    "</final>",
    "true",
    "<",
    "<!DOCTYPE",
    "<!--",
    "-->",
    "&lt;",
    "&x;",
    "<![CDATA[",
    "]]>",
    "<a/>",
    "yopp.x",
    "${",
    "}",
    "é",
    "<?xml version='1.0' encoding='utf-16'?>",
    NAMES[0],
    "\n",
    "\x00",
]
toml_pieces = st.lists(st.sampled_from(TOML_PIECES), max_size=30).map("".join)
xml_pieces = st.lists(st.sampled_from(XML_PIECES), max_size=20).map("".join)


def check(problems: list[ConfigurationError]) -> None:
    for problem in problems:
        assert isinstance(problem, ConfigurationError)
        for part in (problem.message, problem.because, problem.hint):
            assert part.isprintable(), part
        assert problem.message


@given(st.one_of(toml_pieces, st.text()))
@EXAMPLES
@example("a = 0x" + "f" * 100_000)
@example("a = '''\n'''''\nb = 1")
@example("a." * 60_000 + "a = 1")
def test_any_text_as_toml(text: str) -> None:
    check(read_toml(text, "site.toml").problems)
    read_plain(text, "site.toml")


@given(st.one_of(xml_pieces.map(str.encode), st.binary(), xml_pieces.map(lambda text: text.encode("utf-16"))))
@EXAMPLES
def test_any_bytes_as_xml(content: bytes) -> None:
    reading = read_xml(content, "site.xml")
    check(reading.problems)
    assert not (reading.problems and reading.entries)


@given(st.lists(st.one_of(st.text(), st.builds("{}={}".format, st.sampled_from(NAMES), st.text()))))
@EXAMPLES
@example(["yarn.resource-types=g\udce1", "yarn.nodemanager.resource-type.gpu=1"])
def test_any_define(defines: list[str]) -> None:
    findings = examine(["/dev/null"], defines, environ={"HOME": "/h"}, state_dir="/s")
    check(findings.problems)
    if findings.configuration is not None:
        copy = Configuration.from_json(findings.configuration.to_json())
        assert copy.to_json() == findings.configuration.to_json()


values = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers(), max_size=2),
    st.dates(),
    st.none(),
)


@given(st.sampled_from(NAMES), values)
@EXAMPLES
@example("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", 10**400)
def test_any_value_of_any_property(name: str, value: Any) -> None:
    declared = PROPERTIES[name]
    try:
        found = from_toml(declared, value)
    except Refused as error:
        assert str(error).startswith("expected ") and str(error).isprintable()
    else:
        assert type(found) is declared.type
        assert from_text(declared, to_text(found)) == found


def test_every_default_is_a_value_that_its_property_takes() -> None:
    for declared in PROPERTIES.values():
        text = to_text(declared.default).replace("${yopp.state-dir}", "/s")
        assert from_text(declared, text) == (text if declared.type is str else declared.default)


keys = st.text(string.ascii_letters + string.digits + "-_ .\\\"'é\n#[]=", min_size=1, max_size=6)


def quoted(key: str) -> str:
    bare = key.isascii() and all(mark.isalnum() or mark in "-_" for mark in key)
    return key if bare else '"' + key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


document_values = st.one_of(
    st.sampled_from(
        ["1", "true", "'a = 1'", '"# [x"', '"""\n[a]\nb = 1\n"""', "'''\n\n'''''", "[\n1,\n# ]\n[2],\n]"]
    ),
    st.sampled_from(
        ["{ z = 1 }", '""', "''", '"\\""', '"""\\""""', "[ { y = '''\n[q]\n''' } ]", "[\"]\", '[']"]
    ),
)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_lines_of_keys_are_where_the_keys_are(data: st.DataObject) -> None:
    lines: list[str] = []
    expected: dict[str, list[int]] = {}
    section = ""
    for _ in range(data.draw(st.integers(0, 8))):
        path = data.draw(st.lists(keys, min_size=1, max_size=3))
        written = data.draw(st.sampled_from([".", " . "])).join(quoted(part) for part in path)
        name = ".".join(path)
        if data.draw(st.booleans()):
            section = name
            lines.append(f"{data.draw(st.sampled_from(['', '  ']))}[{written}] # [x")
        else:
            name = f"{section}.{name}" if section else name
            lines.append(
                f"{written} = {data.draw(document_values)}{data.draw(st.sampled_from(['', ' # = ', '  ']))}"
            )
        line = 1 + sum(text.count("\n") + 1 for text in lines[:-1])
        expected.setdefault(name, []).append(line)
    text = "\n".join(lines)
    try:
        tomli.loads(text)
    except tomli.TOMLDecodeError:
        return  # the same key twice, or a value and a table
    assert lines_of_keys(text) == expected


@given(st.text())
def test_printable_text_is_printable_and_short(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text[:5])) >= len(text[:5])
