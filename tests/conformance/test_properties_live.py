"""Properties whose effect is seen on real daemons alone: directories, sizes of jobs, and where the proxy listens."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from tests.live.conftest import Yopp
from tests.ports import free_port

pytestmark = pytest.mark.live

LONG_AGO = time.time() - 10 * 86400


def old_output(logs: Path, application: str) -> Path:
    directory = logs / application / "container_1_0001_01_000002"
    directory.mkdir(parents=True)
    (directory / "stdout").write_text("x")
    for path in (directory / "stdout", directory, directory.parent):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return directory.parent


def test_sizes_and_directories_are_what_the_properties_say(yopp: Yopp, tmp_path: Path) -> None:
    logs, local = tmp_path / "logs", tmp_path / "local"
    old = old_output(logs, "application_1_0001")
    node = "yarn.nodemanager"
    yopp(
        "up", "--vcores", "4", "--memory", "2048", f"-D{node}.log-dirs={logs}", f"-D{node}.local-dirs={local}",
        f"-D{node}.log.retain-seconds=86400",
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while old.exists():
        assert time.monotonic() < deadline, "output of ten days ago goes after one day"
        time.sleep(0.02)
    assert local.is_dir()
    sizes = {
        "mapreduce.map.memory.mb": 70, "mapreduce.map.cpu.vcores": 2, "mapreduce.reduce.memory.mb": 80,
        "mapreduce.reduce.cpu.vcores": 3, "yarn.app.mapreduce.am.resource.mb": 90,
        "yarn.app.mapreduce.am.resource.cpu-vcores": 1,
    }  # fmt: skip
    job = yopp("pi", "--detach", *(f"-D{name}={value}" for name, value in sizes.items()), "2", "10").stdout
    yopp("wait", job.split()[-1])
    found = yopp.containers("-a")
    assert sorted((c["totalMemoryNeededMB"], c["totalVCoresNeeded"]) for c in found) == [
        (70, 2), (70, 2), (80, 3), (90, 1),
    ]  # fmt: skip
    assert all(Path(c["yopp"]["logDirectory"]).is_relative_to(logs) for c in found)


NO_PAGES = "-Dyarn.nodemanager.webapp.address="


@pytest.mark.parametrize(("loopback", "address"), [("true", "127.0.0.1"), ("false", "0.0.0.0")])
def test_the_proxy_is_there_where_it_is_enabled_and_listens_where_it_is_told(
    yopp: Yopp, loopback: str, address: str
) -> None:
    port = free_port()
    proxy = "yarn.nodemanager.amrmproxy"
    yopp(
        "up", "--vcores", "1", "--memory", "256", f"-D{proxy}.enabled=true", f"-D{proxy}.address=0.0.0.0:{port}",
        f"-Dyopp.nodemanager.amrmproxy.loopback-only={loopback}", NO_PAGES,
    )  # fmt: skip
    assert (yopp.run_dir / "am-45454.sock").is_socket()
    pid = int((yopp.run_dir / "nm-45454.pid").read_text().split()[0])
    listening = [
        c.laddr for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN
    ]
    others = (
        [("::1", port)] if Path("/proc/net/if_inet6").exists() else []
    )  # no other user has the other loopback
    assert sorted((where.ip, where.port) for where in listening) == sorted([*others, (address, port)])


def test_without_it_there_is_no_proxy(yopp: Yopp) -> None:
    yopp("up", "--vcores", "1", "--memory", "256", NO_PAGES)
    assert not (yopp.run_dir / "am-45454.sock").exists()
    pid = int((yopp.run_dir / "nm-45454.pid").read_text().split()[0])
    assert not [c for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
