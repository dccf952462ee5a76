"""A node whose file system fails while containers run and are to start: ext4 that finds an error and becomes
read-only, and ext4 that is shut down, as after an error of its device, and answers all with EIO. Both are real, on loop
devices.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.core.commands import LaunchContainer, StoreContainer
from executor.core.events import ContainerExited, ContainerLaunchFailed
from executor.linux.cgroups import CgroupDriver
from executor.linux.watching import health
from executor.records import CgroupLimits, ContainerRecord, ContainerState
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, soon
from .test_health import DISKS, SLOTS, health_of

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN."""
NO_LOG_FLUSH = 2


class Disk:
    """An ext4 of 16 MB on a loop device.

    It is mounted below a shared mount, as all file systems are under systemd: the mount namespaces of other
    containers on the host, which have copies of it, then lose it when it is unmounted here.
    """

    def __init__(self, place: Path, image: Path) -> None:
        self.place = place
        self._shared = place.parent
        self._shared.mkdir()
        subprocess.run(["mount", "--bind", str(self._shared), str(self._shared)], check=True)
        subprocess.run(["mount", "--make-shared", str(self._shared)], check=True)
        place.mkdir()
        with open(image, "wb") as made:
            made.truncate(16 << 20)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image)], check=True)
        found = subprocess.run(
            ["losetup", "-f", "--show", str(image)], check=True, capture_output=True, text=True
        )
        self.device = found.stdout.strip()
        self.mount()

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "errors=remount-ro", self.device, str(self.place)], check=True)

    def becomes_read_only(self) -> None:
        """It finds an error in itself."""
        name = os.path.basename(self.device)
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("1")

    def fails(self) -> None:
        """From now on every call ends in EIO."""
        root = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(root, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(root)

    def repair(self) -> None:
        """Mount it again. Fails while somebody has files of it open."""
        subprocess.run(["umount", str(self.place)], check=True)
        self.mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=False)
        subprocess.run(["losetup", "-d", self.device], check=True)
        subprocess.run(["umount", "-l", str(self._shared)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path / "shared" / "disk", tmp_path / "image")
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["umount", "-l", str(tmp_path / "shared")], check=False)
        pytest.skip(f"no ext4 on a loop device here: {error}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def neighbour(disk: Disk) -> Iterator[None]:
    """A container of another cluster on this host, in its own mount namespace."""
    command = "unshare", "--mount", "--propagation", "slave", "sh", "-c", "echo; read line"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"\n"
        yield
        running.communicate(b"\n")


@pytest.fixture
def cgroups(slots: int) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(pooled_groups=slots)) as driver:
        yield driver


async def meanwhile(node: Node, fail: Callable[[], None], place: Path) -> ContainerLaunchFailed:
    """One container runs and ends while the disk has failed, and one is to start: what became of the latter."""
    go, begun = place / "go", place / "begun"
    os.mkfifo(go)
    await node.launch(a_spec("c1", "sh", "-c", f": > {begun}; read line < {go}; exit 4"))
    await soon(begun.exists, "it has begun")
    fail()
    with open(go, "w") as writing:
        writing.write("\n")
    assert (await node.told(ContainerExited, "c1")).exit_code == 4
    (report,) = await soon(lambda: health_of(node), "the failure of a container is a reason to look")
    spec = a_spec("c2", "sh", "-c", "exit 5")
    node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
    node.executor.perform(LaunchContainer(spec, CgroupLimits()))
    failed = await node.told(ContainerLaunchFailed, "c2")
    assert failed.node_status == DISKS
    assert health_of(node) == [report]
    return failed


@pytest.mark.usefixtures("neighbour")
@SLOTS
@pytest.mark.parametrize("why", ["Read-only file system", "Input/output error"])
def test_a_disk_that_fails_is_the_nodes_fault_and_its_next_life_goes_on(
    disk: Disk, cgroups: CgroupDriver, slots: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a file system comes back for nobody who has files of it open: the node is ended, and started again."""
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.05)
    fail = disk.becomes_read_only if why.startswith("Read-only") else disk.fails

    async def scenario() -> None:
        async with a_node(disk.place, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            assert why.lower() in (await meanwhile(node, fail, tmp_path)).reason.lower()
        disk.repair()
        async with a_node(disk.place, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 5"))).exit_code == 5
            assert health_of(node) == []

    asyncio.run(scenario())
