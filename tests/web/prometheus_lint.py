"""Prometheus' own rules for an exposition (``promtool check metrics``), as far as text shows them."""

from __future__ import annotations

import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|\Z)')
OTHER_UNITS = re.compile(
    r"_(kilo|mega|giga|milli|micro|nano)?(bits|minutes|hours|days|ms|mb|kb|percent|watts)(_|\Z)"
)
PREFIXED = re.compile(r"_(kilo|mega|giga|milli|micro|nano)(bytes|seconds|grams)(_|\Z)")
SUFFIXES = ("_sum", "_count", "_bucket")


def lint(text: str) -> list[str]:
    """What is wrong, a line each."""
    wrong = [] if text.endswith("\n") else ["the last line has no end"]
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    closed: set[str] = set()
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    current = ""
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, *rest = line.split(" ", 3)
            if name in closed or (word == "TYPE" and name in kinds) or (word == "HELP" and name in helped):
                wrong.append(f"{word} of {name} a second time")
            if current and current != name:
                closed.add(current)
            current = name
            if word == "HELP":
                helped.add(name)
                if not rest or not rest[0].strip():
                    wrong.append(f"{name} has no help")
            else:
                kinds[name] = rest[0]
                wrong += _name(name, rest[0])
            continue
        found = SAMPLE.match(line)
        if found is None:
            wrong.append(f"no sample: {line}")
            continue
        name, inside, value = found.groups()
        labels = LABEL.findall(inside or "")
        if inside and "".join(f'{key}="{text}",' for key, text in labels).rstrip(",") != inside.rstrip(","):
            wrong.append(f"labels of {line}")
        family = current if name in {current + suffix for suffix in SUFFIXES} else name
        if family != current or family not in kinds or family not in helped:
            wrong.append(f"{name} is not under its own heading")
        if "quantile" in dict(labels) and kinds.get(family) != "summary":
            wrong.append(f"{name} is no summary, and has quantiles")
        if (name, tuple(sorted(labels))) in seen:
            wrong.append(f"twice: {line}")
        seen.add((name, tuple(sorted(labels))))
        float(value)
    return wrong


def _name(name: str, kind: str) -> list[str]:
    wrong = []
    if not NAME.match(name):
        wrong.append(f"{name} is no name")
    if kind not in ("counter", "gauge", "summary", "histogram"):
        wrong.append(f"{name} is of type {kind}")
    if (kind == "counter") != name.endswith("_total"):
        wrong.append(f"{name} is a {kind}: counters alone end in _total")
    if OTHER_UNITS.search(name) or PREFIXED.search(name):
        wrong.append(f"{name} is in no base unit")
    if re.search(r"_(gauge|counter|summary|histogram)(_|\Z)", name) or name != name.lower():
        wrong.append(f"{name} names its type, or is not in lower case")
    return wrong
