"""Old output goes when a node starts; nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

from executor.linux.store import StateStore
from executor.records import ContainerRecord, ContainerSpec, ContainerState, Resource
from yarnopp_cli.daemons.retention import applications_with_records, remove_old_logs

OLD, NEW = 1_000_000, 2_000_000


def output(logs: Path, application: str, written: int) -> Path:
    directory = logs / application / "container_1_0001_01_000002"
    directory.mkdir(parents=True)
    (directory / "stdout").write_text("x")
    for path in (directory / "stdout", directory, logs / application):
        os.utime(path, (written, written))
    return logs / application


def test_only_old_output_of_applications_without_containers_goes(tmp_path: Path) -> None:
    old = output(tmp_path, "application_1_0001", OLD)
    new = output(tmp_path, "application_1_0002", NEW)
    kept = output(tmp_path, "application_1_0003", OLD)
    recent = output(tmp_path, "application_1_0004", OLD)
    os.utime(recent / "container_1_0001_01_000002" / "stdout", (NEW, NEW))
    stranger = output(tmp_path, "precious", OLD)
    (tmp_path / "application_1_0005").write_text("a file")
    target = tmp_path / "elsewhere"
    output(target, "application_9_0001", OLD)
    (tmp_path / "application_1_0006").symlink_to(target / "application_9_0001")
    removed = remove_old_logs(str(tmp_path), 1_500_000, {"application_1_0003"})
    assert removed == ["application_1_0001"]
    assert not old.exists()
    assert all(path.exists() for path in (new, kept, recent, stranger, tmp_path / "application_1_0005"))
    assert (target / "application_9_0001").exists()


def test_no_log_directory_is_no_problem(tmp_path: Path) -> None:
    assert remove_old_logs(str(tmp_path / "none"), NEW, set()) == []


def test_every_nodes_records_name_applications(tmp_path: Path) -> None:
    spec = ContainerSpec("container_5_0001_01_000002", ("true",), Resource(1, 1))
    store = StateStore(tmp_path / "nm-1" / "containers")
    store.store(ContainerRecord(spec, ContainerState.DONE))
    store.close()
    (tmp_path / "nm-2" / "containers").mkdir(parents=True)
    (tmp_path / "nm-2" / "containers" / "container_5_0002_01_000002.exit1").touch()
    (tmp_path / "nm-2" / "containers" / "garbage").touch()
    (tmp_path / "nm-3").mkdir()
    (tmp_path / "logs").mkdir()
    assert applications_with_records(str(tmp_path)) == {"application_5_0001", "application_5_0002"}
    assert applications_with_records(str(tmp_path / "none")) == set()
