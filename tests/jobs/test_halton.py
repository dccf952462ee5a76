"""What a `pi` container really runs:

Hadoop's figures (conformance L4), and files that are whole or not there.
"""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from yarnopp_cli.jobs import halton

H = [("1/2", "1/3"), ("1/4", "2/3"), ("3/4", "1/9"), ("1/8", "4/9"), ("5/8", "7/9"), ("3/8", "2/9"), ("7/8", "5/9"),
     ("1/16", "8/9")]  # fmt: skip


def test_the_first_points_are_haltons() -> None:
    for (x, y), (want_x, want_y) in zip(halton.points(0, 8), H, strict=True):
        assert x == float(Fraction(want_x))
        assert y == pytest.approx(float(Fraction(want_y)), abs=1e-15)


@pytest.mark.parametrize("offset", [1, 7, 8, 100, 6561, 2**20 - 1])
def test_a_map_takes_up_where_the_one_before_ended(offset: int) -> None:
    whole = halton.points(0, offset + 3)[offset:] if offset < 10_000 else halton.points(offset - 2, 5)[2:]
    for (x, y), (want_x, want_y) in zip(halton.points(offset, 3), whole, strict=True):
        assert x == pytest.approx(want_x, abs=1e-12)
        assert y == pytest.approx(want_y, abs=1e-12)


@pytest.mark.parametrize(
    ("maps", "samples", "inside"),
    [(1, 1, 1), (4, 10, 34), (10, 10, 80), (2, 100, 156), (10, 100, 787), (50, 100, 3927), (16, 1000, 12570)],
)
def test_hadoops_counts(maps: int, samples: int, inside: int) -> None:
    assert sum(halton.count_inside(index * samples, samples) for index in range(maps)) == inside
    assert halton.count_inside(0, maps * samples) == inside


def test_status_is_told_every_thousand_samples() -> None:
    told: list[str] = []
    halton.count_inside(0, 2500, told.append)
    assert told == ["Generated 1000 samples.\n", "Generated 2000 samples.\n"]


def test_maps_and_reduce_as_processes(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-S", halton.__file__]
    for index in range(3):
        (tmp_path / f"part{index}").write_text(f"{index * 100} 100\n")
        subprocess.run(
            [*program, "map", f"{tmp_path}/part{index}", f"{tmp_path}/part-m-{index:05d}"], check=True
        )
    subprocess.run([*program, "reduce", str(tmp_path), "3"], check=True)
    inside, outside = halton.read_pair(str(tmp_path / "reduce-out"))
    assert (inside, outside) == (halton.count_inside(0, 300), 300 - inside)
    assert not list(tmp_path.glob("*.tmp"))


def test_a_missing_or_garbled_input_fails(tmp_path: Path) -> None:
    (tmp_path / "part0").write_text("many\n")
    for name in ("part0", "part1"):
        ended = subprocess.run(
            [sys.executable, "-I", "-S", halton.__file__, "map", f"{tmp_path}/{name}", f"{tmp_path}/out"],
            capture_output=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 1
    assert not (tmp_path / "out").exists()


def test_it_imports_nothing_of_ours_and_little_else() -> None:
    code = (
        "import sys, runpy; before = set(sys.modules); sys.argv = ['x', 'map', '/nonexistent', '/nonexistent'];\n"
        f"try: runpy.run_path({halton.__file__!r}, run_name='__main__')\n"
        "except FileNotFoundError: pass\n"
        "print([name for name in set(sys.modules) - before if name.split('.')[0] in ('yarnopp_cli', 'executor')])"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
