"""Targets: what people and Hadoop's tools write as configuration."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from executor import windows
from tests.fuzzing.target import Target, lines, text_of
from yarnopp_cli.errors import ConfigurationError, RemoteError
from yarnopp_cli.settings.editing import with_values
from yarnopp_cli.settings.entries import Reading
from yarnopp_cli.settings.loading import Configuration, examine, read_queues
from yarnopp_cli.settings.plain_toml import read_plain
from yarnopp_cli.settings.queues import QUEUE_PREFIX, CapacitySchedulerSettings
from yarnopp_cli.settings.toml import read_toml
from yarnopp_cli.settings.xml import read_xml

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
MEMORY = "yarn.nodemanager.resource.memory-mb"


def facts(reading: Reading) -> list[tuple[object, ...]]:
    return [(one.name, one.value, type(one.value), one.origin) for one in reading.entries]


def told(problems: list[ConfigurationError]) -> None:
    for problem in problems:
        assert problem.message
        assert (problem.message + problem.because + problem.hint).isprintable()


def toml(data: bytes) -> None:
    """What the reader of plain files accepts, tomli accepts, and reads as the same."""
    text = data.decode("utf-8", "replace")
    reading, plain = read_toml(text, "site.toml"), read_plain(text, "site.toml")
    told(reading.problems)
    if plain is not None:
        assert not reading.problems and facts(plain) == facts(reading)


def edited(data: bytes) -> None:
    """A changed file has the changed value, and all others as before."""
    text = data.decode("utf-8", "replace")
    changed = with_values(text, {MEMORY: 4096, "yopp.a": None})
    if changed is not None:
        before, after = (
            {one.name: one.value for one in read_toml(each, "").entries} for each in (text, changed)
        )
        before.pop("yopp.a", None)
        assert after == {**before, MEMORY: 4096}


def xml(data: bytes) -> None:
    reading = read_xml(data, "site.xml")
    told(reading.problems)
    assert not (reading.problems and reading.entries)


def defines(data: bytes) -> None:
    """One ``-D`` on each line."""
    given = text_of(data).split("\n")
    findings = examine(["/dev/null"], given, environ={"HOME": "/h"}, state_dir="/s")
    told(findings.problems)
    if findings.configuration is not None:
        text = findings.configuration.to_json()
        assert Configuration.from_json(text).to_json() == text


def queues(data: bytes) -> None:
    """The properties of queues that a client sends, one on each line."""
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").split("\n"))
    try:
        root, _, _ = read_queues(
            {QUEUE_PREFIX + name: value for name, _, value in pairs}, CapacitySchedulerSettings()
        )
    except RemoteError as error:
        assert error.message
        return
    waiting = [root]
    while waiting:
        queue = waiting.pop()
        below = queue.children
        assert not below or abs(sum(one.capacity for one in below) - 100) < 1
        waiting += below


def window(data: bytes) -> None:
    """Windows, and all their changes of a week."""
    try:
        found = windows.parse(text_of(data))
    except ValueError:
        return
    moments = [datetime(2026, 11, 26, 20, 0)]
    while moments[-1] < moments[0] + timedelta(days=7) and len(moments) < 50:
        was, change = windows.next_change(found, moments[-1])
        if change is None:
            break
        assert windows.next_change(found, change)[0] is not was
        moments.append(change)
    assert all(one < other for one, other in pairwise(moments))


SITE = f"""<?xml version="1.0"?>
<configuration>
  <!-- a --> <property><name>{MEMORY}</name><value>4096</value><final>true</final></property>
  <property name="yopp.a" value="b"/><property><name>x</name></property>
</configuration>
"""

TARGETS = {
    "toml": Target(
        toml,
        (
            *(path.read_bytes()[:1500] for path in sorted(CONFIGS.glob("*.toml"))),
            *lines(
                f"{MEMORY} = 4096 # a\n[yopp]\na = 'b'\n\"c\" = true\r\n[yopp.d]\ne.f = -1\n",
                "a = [1, { b = 2026-01-01 }]\nc = '''\n'''\nd = \"\\u00e9\"\n[[e]]\n",
                '[a.b]\nc = 1\n[a]\nd = 2\n[a.e]\nf.g = 3\nf.h = ""\n',
            ),
        ),
        ("[", "]\n", " = ", '"""', "'''", "\r\n", "\ufeff", "a.b", "[a]\n", "false", "\n#"),
    ),
    "edited": Target(
        edited,
        lines(
            f"{MEMORY} = 4096\n[yopp]\na = 1\n",
            "[yarn.nodemanager]\nx = 1\n",
            'a = { b = 1 }\n[yarn]\n"nodemanager.resource.memory-mb" = "3" # c\n',
        ),
        ("[yarn", "yopp.a", '"', "'''", "[[", " = ", "\n"),
    ),
    "xml": Target(
        xml,
        (SITE.encode(), SITE.encode("utf-16"), b"<configuration/>", b"<!DOCTYPE a><configuration/>"),
        (
            "<property>",
            "</property>",
            "<name>",
            "</name>",
            "<value>",
            "<![CDATA[",
            "]]>",
            "&#0;",
            "<xi:include/>",
        ),
    ),
    "defines": Target(
        defines,
        lines(
            f"{MEMORY}=4096\nyarn.resource-types=gpu,yarn.io/gpu\nyarn.nodemanager.resource-type.gpu=45454=2,1",
            "yarn.scheduler.capacity.root.queues=a,b\nyarn.scheduler.capacity.root.a.capacity=50\n"
            "yarn.scheduler.capacity.root.b.capacity=50",
            "yarn.scheduler.capacity.queue-mappings=u:a:b,u:%user:%user\n"
            "yopp.resourcemanager.opportunistic-share.user-weights=a=2,b=0.5",
            "yarn.resourcemanager.webapp.address=[::1]:8088\nyopp.a=${yopp.b}",
        ),
        ("0x", "1e3d", "${", "=", ",", "yopp.", "yarn.nodemanager.", "true"),
    ),
    "queues": Target(
        queues,
        lines(
            "root.queues=a,b\nroot.a.capacity=50\nroot.b.capacity=50\nroot.a.acl_submit_applications=u g",
            "root.queues=a\nroot.a.queues=b\nroot.a.b.maximum-capacity=-1\nmaximum-applications=3",
        ),
        (
            "root.",
            ".queues=",
            ".capacity=",
            ".state=STOPPED",
            ".default-application-lifetime=",
            "queue-mappings=",
        ),
    ),
    "window": Target(
        window,
        lines("19:00-07:00, Sat-Sun 00:00-24:00", "Mon 1:00-2:00", "fri-tue 23:59-23:58", ""),
        ("mon", "-", ":", ",", "24:00", "٣"),
    ),
}
