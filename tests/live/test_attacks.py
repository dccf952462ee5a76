"""A cluster whose containers do what they can to stay: `yopp down` without --force ends in time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.linux.node import running
from tests.executor.linux.test_attacks import ATTACKS, PRELUDE

from .conftest import Yopp, wait_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="a container writes groups as root only"),
]

DOWN_SECONDS = 10.0

OWN_GROUPS = """
groups = []
for line in open("/proc/self/cgroup"):
    names, path = line.rstrip().split(":")[1:]
    for name in names.split(","):
        base = f"/sys/fs/cgroup/{name}"
        own = (base if os.path.exists(base + "/cgroup.procs") else "/sys/fs/cgroup") + path
        if "/hadoop-yarn/" in path:
            groups.append(own)
"""


def down_in_time(yopp: Yopp, code: int = 0) -> subprocess.CompletedProcess[str]:
    said = yopp("down", "-y", timeout=DOWN_SECONDS, code=code)
    assert "ended rm, nm-45454" in said.stdout
    return said


def runs(yopp: Yopp, *command: str) -> None:
    job = yopp("run", "-q", "-d", "--memory", "64", "--", *command).stdout.split()[-1]
    yopp("wait", job, "--for", "RUNNING")


def test_down_ends_what_freezes_stops_forks_and_ignores(yopp: Yopp) -> None:
    yopp("up", "--memory", "2048", "--vcores", "16", "-Dyopp.nodemanager.confined-containers=false")
    here = yopp.home / "attacks"
    for number, (attack, script) in enumerate(ATTACKS.items()):
        if "threaded" in attack:
            continue  # of bare v2 mounts, which a node that has a freezer does not use
        (here / str(number)).mkdir(parents=True)
        program = here / str(number) / "attack.py"
        begin = f"import os\nos.chdir({os.fspath(program.parent)!r})\nos.environ['PWD'] = os.getcwd()\n"
        program.write_text(begin + PRELUDE + OWN_GROUPS + script)
        runs(yopp, "python3", "-S", "-E", os.fspath(program))
        wait_until(lambda at=program: (at.parent / "pids").exists(), what=attack)
    pids = [int(pid) for one in here.glob("*/pids") for pid in one.read_text().split()]
    down_in_time(yopp)
    assert not any(running(pid) for pid in pids)


@pytest.fixture
def frozen_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that can be frozen: who writes to it then takes no signal at all."""
    image, point = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    point.mkdir()
    made = [
        subprocess.run(command, capture_output=True, check=False).returncode
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, point])
    ]
    if any(made):
        pytest.skip("no file system can be mounted here")
    try:
        yield point
    finally:
        subprocess.run(["fsfreeze", "-u", point], capture_output=True, check=False)
        wait_until(lambda: subprocess.run(["umount", point], capture_output=True).returncode == 0)


def test_down_ends_beside_what_no_kernel_can_end_and_says_so(yopp: Yopp, frozen_disk: Path) -> None:
    yopp("up")
    subprocess.run(["fsfreeze", "-f", frozen_disk], check=True)
    runs(yopp, "sh", "-c", f"echo $$ > {yopp.home}/pid; echo x > {frozen_disk}/file")
    pid = int(wait_until(lambda: (yopp.home / "pid").exists() and (yopp.home / "pid").read_text()))
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "D", what="it hangs")
    said = down_in_time(yopp, code=1)
    assert "do not end" in said.stdout + said.stderr and str(pid) in said.stdout + said.stderr
    subprocess.run(["fsfreeze", "-u", frozen_disk], check=True)
    wait_until(lambda: not running(pid), what="it dies once it can")
    yopp("up")
    down_in_time(yopp)
