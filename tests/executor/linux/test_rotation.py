"""Output that is rotated: nothing of it is lost where the file system helps, and no link of a container is followed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.linux.cgroups.none import NoCgroups
from executor.linux.watching import rotation
from executor.linux.watching.rotation import rotate
from executor.settings import ExecutorSettings

from .node import a_node, a_spec, until


@pytest.fixture(params=["/var/tmp", "/dev/shm"], ids=["disk", "tmpfs"])
def logs(request: pytest.FixtureRequest) -> Iterator[Path]:
    """On a file system that can cut off the front of a file, as ext4, and on one that cannot."""
    with tempfile.TemporaryDirectory(dir=request.param) as made:
        yield Path(made)


def test_a_large_file_goes_on_in_another_and_older_ones_move_on(logs: Path) -> None:
    file = logs / "stdout"
    with file.open("ab", buffering=0) as writer:
        for turn in range(4):
            writer.write(b"%d" % turn * 10_000 + b"\n")
            rotate(str(logs), 9_000, 2)
            writer.write(b"after %d\n" % turn)
    (logs / "stderr").write_bytes(b"short")
    rotate(str(logs), 9_000, 2)
    assert sorted(path.name for path in logs.iterdir()) == ["stderr", "stdout", "stdout.1", "stdout.2"]
    assert (logs / "stderr").read_bytes() == b"short"
    kept = (logs / "stdout.2").read_bytes() + (logs / "stdout.1").read_bytes() + file.read_bytes()
    everything = b"".join(b"%d" % turn * 10_000 + b"\nafter %d\n" % turn for turn in range(4))
    assert everything.endswith(kept) and len(kept) > 18_000 and kept.endswith(b"after 3\n")
    assert file.stat().st_size < 9_000


def test_with_no_older_files_what_is_old_is_dropped(logs: Path) -> None:
    (logs / "stdout").write_bytes(b"x" * 50_000 + b"end\n")
    rotate(str(logs), 9_000, 0)
    assert [path.name for path in logs.iterdir()] == ["stdout"]
    assert (logs / "stdout").stat().st_size < 9_000


@pytest.mark.parametrize("plant", ["link", "hard link", "directory", "fifo"])
def test_what_is_no_plain_file_of_the_container_alone_is_left(logs: Path, plant: str) -> None:
    with tempfile.TemporaryDirectory(dir=logs.parent) as elsewhere:
        victim = Path(elsewhere) / "victim"
        victim.write_bytes(b"v" * 50_000)
        victim.chmod(0o600)
        file = logs / "stdout"
        if plant == "link":
            file.symlink_to(victim)
        elif plant == "hard link":
            file.hardlink_to(victim)
        elif plant == "directory":
            file.mkdir()
        else:
            os.mkfifo(file)
        rotate(str(logs), 10, 1)
        assert victim.read_bytes() == b"v" * 50_000
        assert [path.name for path in logs.iterdir()] == ["stdout"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's files are made by root only")
def test_another_users_output_stays_that_users_and_links_beside_it_are_not_followed(logs: Path) -> None:
    victim = logs.parent / f"{logs.name}-victim"
    victim.write_bytes(b"ours")
    os.chown(logs, 65534, 65534)
    (logs / "stdout").write_bytes(b"x" * 50_000)
    os.chown(logs / "stdout", 65534, 65534)
    (logs / "stdout.1").symlink_to(victim)
    try:
        rotate(str(logs), 9_000, 1)
        assert victim.read_bytes() == b"ours"
    finally:
        victim.unlink()
    assert not (logs / "stdout.1").is_symlink() and (logs / "stdout.1").stat().st_uid == 65534
    (logs / "stderr").write_bytes(b"root's " * 10_000)
    rotate(str(logs), 9_000, 1)
    assert (logs / "stderr").stat().st_size == 70_000, "a file of another than the directory's user"


def test_a_running_container_loses_no_line(tmp_path: Path) -> None:
    lines = 60_000
    settings = ExecutorSettings(
        cgroups_mount="none", monitor_interval_ms=20, log_monitor_interval_ms=20, log_rotation_bytes=100_000,
        log_rotation_files=100,
    )  # fmt: skip

    async def scenario() -> None:
        async with a_node(tmp_path, NoCgroups(), settings) as node:
            node.executor.start()
            script = f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done"
            assert (await node.run(a_spec("c1", "sh", "-c", script))).exit_code == 0
            everything = b"".join(b"line %d\n" % number for number in range(lines))
            if cuts(tmp_path):
                # the last rotation may be on its way still, by a thread that has copied and not cut yet
                until(lambda: written(tmp_path / "logs" / "c1") == everything, "every line stands there once")
            else:
                found = written(tmp_path / "logs" / "c1")
                assert everything.startswith(found[:1000]) and everything.endswith(found[-1000:])
            assert (tmp_path / "logs" / "c1" / "stdout.1").exists(), "it was rotated while it ran"

    asyncio.run(scenario())


def written(logs: Path) -> bytes:
    """What a container wrote, from its oldest file to the one that it writes."""
    found = sorted(logs.glob("stdout*"), key=lambda path: -int(path.suffix[1:] or 0))
    return b"".join(path.read_bytes() for path in found)


def cuts(directory: Path) -> bool:
    """Whether the file system can cut off the front of a file."""
    file = directory / "probe"
    file.write_bytes(b"x" * 100_000)
    with file.open("r+b") as opened:
        return rotation._cut(opened.fileno(), 65536)
