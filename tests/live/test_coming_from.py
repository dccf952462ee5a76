"""The commands of docs/coming-from.md are typed as they stand there, with those of GNU parallel beside them."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Yopp, a_yopp, wait_until
from .test_examples import on_the_path

pytestmark = pytest.mark.live

PAGE = ROOT / "docs" / "coming-from.md"
NOT_RUN = {
    "yopp top": "it wants a terminal: test_top.py",
    "yopp service install": "it needs a systemd: tests/lifecycle/test_service.py",
    "yopp run --gpus 1 ./job.sh": "it needs devices: test_gpus.py",
    "yopp run --resource lock=1 echo a": "it needs a resource type: test_gpus.py",
    "yopp run --resource matlab=1 ./job.sh": "it needs a resource type: test_gpus.py",
}
ON_LIVING_JOBS = ("pause", "resume", " kill", "priority last", "explain", "logs -f")
"""These need a job that runs; all others find one that has ended."""
ENDLESS = "logs -f"
FAIL = {"false": 1, "--container-timeout": 124}
"""What fails by intention, and how."""
OTHERWISE = ("--results", "--dry-run", "--eta", "--load", "--ungroup", "tail -f", "sem ")
"""Where parallel prints something else by design, or does not end."""


def rows(section: str) -> list[tuple[list[str], list[str]]]:
    """The commands of a table's rows: what is quoted on the left, and on the right."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(
            ("| parallel |", "| pueue |", "| Slurm |", "| yarn |")
        ):
            left, right = re.split(r"(?<!\\)\|", line)[1:3]
            spans = [re.findall(r"`([^`]+)`", one.replace("\\|", "|")) for one in (left, right)]
            found.append((spans[0], [one for one in spans[1] if re.search(r"\byopp ", one)]))
    return found


class Desk:
    """A shell in a directory with the files that the page speaks of, beside a cluster."""

    def __init__(self, yopp: Yopp) -> None:
        self.yopp = yopp
        self.environment = {
            **on_the_path(yopp),
            "PARALLEL_SHELL": shutil.which("bash") or "/bin/bash",
            "TMPDIR": str(yopp.home),  # GNU parallel leaves files there if it is ended by a signal
        }

    def laid_out(self, name: str) -> Path:
        """A directory of that name with these files."""
        place = self.yopp.home / name
        (place / "sub").mkdir(parents=True)
        (place / "sub" / "inside").touch()
        files = {
            "commands.txt": "echo one\necho 'two  words' | wc -c\n",
            "a.txt": "red\ngreen\n",
            "b.txt": "S\nM\n",
            "table.tsv": "foo\tbar\nbaz\tquux\n",
            "big.txt": "".join(f"{number * 7919 % 10_000}\n" for number in range(5_000)),
            "job.sh": "#!/bin/sh\nexit 0\n",
        }
        for file, text in files.items():
            (place / file).write_text(text)
        (place / "job.sh").chmod(0o755)
        for file in ("x.gz", "y z.gz"):
            (place / file).write_bytes(gzip.compress(b"packed\n", mtime=0))
        return place

    def type(self, line: str, place: Path) -> subprocess.CompletedProcess[str]:
        """Into bash, whose functions GNU parallel takes as well."""
        return subprocess.run(
            [*(["timeout", "1"] if ENDLESS in line else []), "bash", "-c", line], env=self.environment, cwd=place,
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def prepare(self, line: str) -> None:
        """Have the job that the line is about."""
        yopp = self.yopp
        living = any(word in line for word in ON_LIVING_JOBS)
        yopp("app", "kill", "all", "-y", code=None)
        app = yopp("run", "-q", *(["-d", "sleep", "600"] if living else ["-n", "2", "true"])).stdout.strip()
        if living:
            wait_until(lambda: yopp.containers("--app", app, "--state", "RUNNING"), what="it runs")
        if "resume" in line:
            yopp("container", "pause", "last.1")


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with a_yopp(Yopp) as program:
        program("up", "--vcores", "2", "--memory", "1024")
        yield Desk(program)


def shown(printed: str, line: str) -> list[str]:
    """The lines of an output without the numbers of tasks, in the order that they have to have."""
    found = [re.sub(r"^\[\d+\] ", "", one) for one in printed.splitlines()]
    return found if " -k " in line else sorted(found)


def wrong_end(line: str, ended: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with how it ended, "" for nothing."""
    codes = {code for word, code in FAIL.items() if word in line} or {0}
    if ended.returncode in codes | ({124} if ENDLESS in line else set()) and "Traceback" not in ended.stderr:
        return ""
    return f"{line}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"


@pytest.mark.timeout(300)
def test_what_parallel_prints_is_what_yopp_prints(desk: Desk) -> None:
    ours, theirs = desk.laid_out("ours"), desk.laid_out("theirs")
    here = shutil.which("parallel") is not None
    problems, compared = [], 0
    table = rows("GNU parallel")
    for left, right in table:
        for at, line in enumerate(one for one in right if one not in NOT_RUN):
            ended = desk.type(line, ours)
            problems.append(wrong_end(line, ended))
            if at == 0 and here and not any(word in left[0] for word in OTHERWISE):
                compared += 1
                other = desk.type(left[0], theirs)
                if shown(ended.stdout, line) != shown(other.stdout, left[0].replace("parallel -k", " -k ")):
                    problems.append(f"{line}\n{ended.stdout}\n{left[0]}\n{other.stdout}\n{other.stderr}")
    assert not any(problems), "\n".join(filter(None, problems))
    assert (ours / "x").read_text() == (ours / "y z").read_text() == "packed\n"
    assert (ours / "out" / "2" / "stdout").read_text() == "b\n" == (ours / "out" / "b.txt").read_text()
    assert len(table) > 35 and (not here or compared > 25)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("section", ["pueue", "Slurm's arrays"])
def test_the_commands_of_a_section_work(desk: Desk, section: str) -> None:
    place = desk.laid_out(section.split("'")[0])
    problems, typed = [], 0
    for _, right in rows(section):
        for line in (one for one in right if one not in NOT_RUN):
            typed += 1
            desk.prepare(line)
            problems.append(wrong_end(line, desk.type(line, place)))
    assert not any(problems), "\n".join(filter(None, problems))
    assert typed > 20


def test_hardly_anything_of_the_page_is_not_run() -> None:
    every = {
        one
        for section in ("GNU parallel", "pueue", "Slurm's arrays")
        for _, right in rows(section)
        for one in right
    }
    assert every >= NOT_RUN.keys() and len(every) > 75
