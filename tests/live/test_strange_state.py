"""Whatever has taken the names of the files of the state, the next daemons start, and read and wait for none of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnopp_cli.cluster.processes import wait_for_end
from yarnopp_cli.cluster.rundir import RunDir

from ..executor.test_regular import STRANGE
from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live
MORE = (
    "state/rm.mark",
    "state/nm-45454/amrmproxy.json",
    "state/rm/events.log.1",
    "state/nm-45454/containers/c.exit1",
)
SMALL = ("--vcores", "1", "--memory", "512")


def files(yopp: Yopp) -> list[Path]:
    """The files of the run directory and of the daemons' states."""
    places = (
        yopp.run_dir,
        *(yopp.run_dir / "state" / name for name in ("rm", "nm-45454", "nm-45454/containers")),
    )
    found = [path for place in places for path in place.iterdir() if path.is_file()]
    return [*found, *(yopp.run_dir / name for name in MORE)]


@pytest.mark.parametrize("kind", STRANGE)
def test_the_next_daemons_start(yopp: Yopp, kind: str) -> None:
    yopp("up", *SMALL)
    job = yopp("run", "-q", "--detach", "sleep", "1234").stdout.strip()
    wait_until(lambda: "RUNNING" in yopp.look("container", "list"))
    daemons = [one.process for one in RunDir.of(str(yopp.run_dir)).daemons()]
    for process in daemons:
        process.send(signal.SIGKILL)
    assert not wait_for_end(daemons, 20)
    make: Callable[[Path], object] = STRANGE[kind]
    for path in files(yopp):
        path.unlink(missing_ok=True)
        make(path)
    yopp("status", code=None)
    told = yopp("up", *SMALL).stderr
    assert (f"{yopp.run_dir}/rm.log is set aside as" in told) == (kind != "huge"), told
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"
    assert job not in yopp.look("app", "list")
    peak = Path(f"/proc/{(yopp.run_dir / 'rm.pid').read_text().strip()}/status").read_text()
    assert int(peak.partition("VmHWM:")[2].split()[0]) < 300_000
    assert list((yopp.run_dir / "state" / "rm").glob("events.log.aside-*"))
