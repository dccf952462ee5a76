"""`yopp service`: the unit's text, what is refused, and what is asked of systemd, here a program of the test's."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yarnopp_cli.cluster import service
from yarnopp_cli.cluster.doctor.check import Check, Examined
from yarnopp_cli.cluster.doctor.service import service as examine_service
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.cluster.service import MARK, Host, Service, service_of, unit_text
from yarnopp_cli.errors import YoppError
from yarnopp_cli.settings.loading import load

from ..cli.conftest import Ended, cli, run_dir
from ..live import schema

__all__ = ["cli", "run_dir"]
SMALL = ("--memory", "64", "--vcores", "1")
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$SYSTEMD/calls"
[ "$1" = --user ] && shift
case $1 in
    --version) echo "systemd $(cat "$SYSTEMD/version") (that)"; exit ;;
    show) cat "$SYSTEMD/shown" 2>/dev/null; exit 0 ;;
    enable) [ ! -e "$SYSTEMD/broken" ] || { echo "Job for it failed." >&2; exit 1; } ;;
esac
"""


class Systemd:
    """A host with a systemd: its directories, and a systemctl that writes down what it is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(
            etc=str(root / "etc"),
            shipped=(str(root / "usr"),),
            booted=str(root / "booted"),
            runtime=str(root / "runtime"),
            lingering=str(root / "linger"),
            cgroups=str(root / "cgroups"),
        )
        for name in ("bin", "booted", "usr", "linger"):
            (root / name).mkdir()
        program = root / "bin" / "systemctl"
        program.write_text(SYSTEMCTL)
        program.chmod(0o755)
        (root / "version").write_text("254")

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def shows(self, **properties: str) -> None:
        (self.root / "shown").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    monkeypatch.setattr(service, "HOST", made.host)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SYSTEMD", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 0)  # a unit of the system, whoever runs the tests
    yield made


def of_user(systemd: Systemd, run_dir: Path) -> Service:
    """The service of somebody who is not root, with a service manager that runs."""
    (systemd.root / "runtime" / "1000" / "systemd").mkdir(parents=True)
    (systemd.root / "runtime" / "1000" / "systemd" / "private").touch()
    environ = {"PATH": os.environ["PATH"], "SYSTEMD": str(systemd.root)}
    return service_of(RunDir.of(str(run_dir)), 1000, "ann", str(systemd.root / "home"), environ)


def parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


# -- the unit ------------------------------------------------------------------------------------------


def test_the_default_run_directory_has_the_short_name() -> None:
    for uid, home, path in (
        (0, "/root", "/run/yopp"),
        (1000, "/home/ann", "/home/ann/.local/state/yopp/run"),
    ):
        one = service_of(RunDir.of(path, uid=uid), uid, "ann", home, {})
        assert one.unit == "yopp.service"
        folder = "/home/ann/.config/systemd/user" if uid else "/etc/systemd/system"
        assert one.path == f"{folder}/yopp.service"
    other = RunDir.of("/srv/yopp")
    assert service_of(other, 0, "root", "/root", {}).unit == f"yopp-{other.key}.service"
    config = service_of(other, 1000, "ann", "/home/ann", {"XDG_CONFIG_HOME": "/cfg"})
    assert config.path == f"/cfg/systemd/user/yopp-{other.key}.service"


def test_a_unit_finds_the_package_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "daemon_environment", lambda environ: {"PYTHONPATH": "/a $b/50%"})
    one = service_of(RunDir.of("/srv/run"), 0, "root", "/root", {})
    # no variable is expanded there, so that $$ would be two dollars
    assert parsed(unit_text(one, [], version=254))["Service"]["Environment"] == '"PYTHONPATH=/a $b/50%%"'


def test_a_unit_starts_what_was_asked_for_whatever_the_words() -> None:
    words = ["--nodes=2", "-Dyopp.x=50% of $HOME", '--conf=/a b/"c"\\d.toml']
    one = service_of(RunDir.of("/srv/a run"), 0, "root", "/root", {})
    unit = parsed(unit_text(one, words, version=254))
    line = unit["Service"]["ExecStart"]
    # systemd's own reading: % and $ are doubled, and quotes and backslashes are as in C, which shlex reads here
    command = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
    assert command == [
        sys.executable,
        "-P",
        "-m",
        "yarnopp_cli",
        "up",
        "--foreground",
        "--run-dir",
        "/srv/a run",
        *words,
    ]
    assert "%% of $$HOME" in line
    assert unit["Service"]["Delegate"] == "cpu memory pids"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_what_runs_outlives_a_crash_where_systemd_can_start_beside_it() -> None:
    one = service_of(RunDir.of("/run/yopp", uid=0), 0, "root", "/root", {})
    new, old = (parsed(unit_text(one, [], version=version))["Service"] for version in (254, 253))
    assert (new["Type"], new["KillMode"], new["DelegateSubgroup"]) == (
        "notify-reload",
        "process",
        "yopp-self",
    )
    assert (old["Type"], old["KillMode"]) == ("notify", "mixed")
    assert old["ExecReload"].endswith("kill -HUP $MAINPID")
    assert "DelegateSubgroup" not in old


def test_a_unit_of_a_user_belongs_to_their_service_manager() -> None:
    one = service_of(RunDir.of("/home/ann/run", uid=1000), 1000, "ann", "/home/ann", {})
    unit = parsed(unit_text(one, [], version=254))
    assert unit["Install"]["WantedBy"] == "default.target"
    assert "After" not in unit["Unit"], "a user's service manager has no network.target"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("NOT TESTED: needs systemd-analyze (apt-get install systemd)")
    told = subprocess.run([analyze, "--version"], capture_output=True, text=True, check=True).stdout
    version = int(told.split()[1])
    for uid in (0, 1000):
        one = service_of(RunDir.of("/srv/a run"), uid, "ann", "/home/ann", {})
        path = tmp_path / one.unit
        path.write_text(unit_text(one, ["-Dyopp.x=50% of $HOME"], version=version))
        done = subprocess.run(
            [analyze, "verify", "--man=no", str(path)], text=True, capture_output=True, timeout=60
        )
        assert one.unit not in done.stderr, done.stderr


# -- install -------------------------------------------------------------------------------------------


def test_it_is_written_and_enabled_and_started(
    cli: Callable[..., Ended], systemd: Systemd, run_dir: Path
) -> None:
    systemd.shows(ActiveState="active", UnitFileState="enabled", MainPID="77")
    conf = run_dir / "site.toml"
    conf.write_text('[yarn.scheduler.capacity]\nroot.queues = "default"\n')
    done = cli(
        "service", "install", *SMALL, "--conf", str(conf), "-Dyopp.nodemanager.pooled-groups=3", "--json"
    )
    assert done.code == 0, done.err
    told = json.loads(done.out)["service"]
    assert not schema.mismatch(told, schema.SERVICE)
    assert (told["state"], told["enabled"], told["pid"], told["ours"]) == ("active", "enabled", 77, True)
    path = Path(told["path"])
    assert (path.parent, path.stat().st_mode & 0o777) == (Path(systemd.host.etc), 0o644)
    text = path.read_text()
    assert text.startswith(f"{MARK}\n")
    for word in (
        "--memory=64",
        "--vcores=1",
        f"--conf={conf}",
        "-Dyopp.nodemanager.pooled-groups=3",
        str(run_dir),
    ):
        assert word in text
    changes = [line for line in systemd.calls() if not line.startswith(("show", "--version"))]
    assert changes == ["daemon-reload", f"enable --now {path.name}"]


def test_files_of_the_environment_are_the_services_too(
    cli: Callable[..., Ended], systemd: Systemd, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_dir / "one.toml").write_text("")
    monkeypatch.chdir(run_dir)
    monkeypatch.setenv("YOPP_CONF", "one.toml")
    done = cli("service", "install", *SMALL, "--dry-run", "--json")
    assert f"--conf={run_dir}/one.toml" in json.loads(done.out)["service"]["text"]


def test_a_trial_writes_nothing(cli: Callable[..., Ended], systemd: Systemd) -> None:
    done = cli("service", "install", *SMALL, "--dry-run")
    assert (done.code, done.out.splitlines()[0]) == (0, MARK)
    assert not os.path.exists(systemd.host.etc)
    assert not any(line.startswith(("enable", "daemon-reload")) for line in systemd.calls())


def test_only_at_the_next_boot(cli: Callable[..., Ended], systemd: Systemd) -> None:
    assert cli("service", "install", *SMALL, "--no-start").code == 0
    [enable] = [line for line in systemd.calls() if line.startswith("enable")]
    assert "--now" not in enable


def test_a_second_time_changes_the_unit_and_says_that_it_runs_on(
    cli: Callable[..., Ended], systemd: Systemd
) -> None:
    assert cli("service", "install", *SMALL).code == 0
    systemd.shows(ActiveState="active", UnitFileState="enabled", MainPID="77")
    done = cli("service", "install", "--memory", "96", "--vcores", "1")
    assert done.code == 0
    assert "restart yopp-" in done.err
    [path] = Path(systemd.host.etc).iterdir()
    assert "--memory=96" in path.read_text()


@pytest.mark.parametrize(
    ("active", "enabled", "undone"),
    [
        ("", "", ["disable --now"]),
        ("active", "enabled", []),
        ("inactive", "enabled", ["stop"]),
        ("failed", "disabled", ["disable --now"]),
        ("active", "disabled", ["disable"]),
    ],
)
def test_where_the_cluster_does_not_start_all_is_as_before(
    cli: Callable[..., Ended], systemd: Systemd, active: str, enabled: str, undone: list[str]
) -> None:
    """What did not run does not, and what was not to be started at boot is not: there may be no unit, too."""
    before = {}
    if active:
        cli("service", "install", *SMALL)
        systemd.shows(ActiveState=active, UnitFileState=enabled, MainPID="77")
        before = {path: path.read_text() for path in Path(systemd.host.etc).iterdir()}
    (systemd.root / "broken").touch()
    done = cli("service", "install", "--memory", "96", "--vcores", "1")
    assert done.code == 1
    assert [line.split(":")[0].strip() for line in done.err.splitlines()][1:] == ["because", "hint"]
    assert "Job for it failed." in done.err and "journalctl" in done.err
    assert {path: path.read_text() for path in Path(systemd.host.etc).iterdir()} == before
    ended = [line for line in systemd.calls() if line.startswith(("disable", "stop"))]
    assert [line.rpartition(" ")[0] for line in ended] == undone


def test_a_unit_of_others_is_never_overwritten(
    cli: Callable[..., Ended], systemd: Systemd, run_dir: Path
) -> None:
    name = f"yopp-{RunDir.of(str(run_dir)).key}.service"
    path = Path(systemd.host.etc, name)
    path.parent.mkdir()
    for make in (
        lambda: path.write_text("[Service]\nExecStart=/bin/true\n"),
        lambda: path.symlink_to("/dev/null"),  # masked
        lambda: Path(systemd.host.shipped[0], name).write_text(MARK),
    ):
        make()
        done = cli("service", "install", *SMALL)
        assert (done.code, f"another {name}" in done.err) == (1, True), done.err
        if os.path.lexists(path):
            assert cli("service", "remove", "-y").code == 1
            assert os.path.lexists(path)
            path.unlink()
    assert not any(line.startswith(("enable", "disable", "daemon-reload")) for line in systemd.calls())


@pytest.mark.parametrize(
    "bad", [["--memory", "99999999"], ["-Dyopp.nope=1"], ["--ports", "9"], ["--conf", "/none"]]
)
def test_bad_input_is_refused_before_anything_is_written(
    cli: Callable[..., Ended], systemd: Systemd, bad: list[str]
) -> None:
    assert cli("service", "install", *bad).code != 0
    assert not os.path.exists(systemd.host.etc)
    assert not any(line.startswith("enable") for line in systemd.calls())


def test_without_systemd_nothing_is_written(cli: Callable[..., Ended], systemd: Systemd) -> None:
    os.rmdir(systemd.host.booted)
    done = cli("service", "install", *SMALL)
    assert done.code == 69
    assert [line.split(":")[0].strip() for line in done.err.splitlines()][1:] == ["because", "hint"]
    assert not os.path.exists(systemd.host.etc)
    status = cli("service", "status", "--json")
    assert (status.code, json.loads(status.out)["service"]["installed"]) == (3, False)
    assert systemd.calls() == []
    trial = cli("service", "install", *SMALL, "--dry-run")
    assert (trial.code, trial.out.splitlines()[0]) == (0, MARK)
    assert trial.err.startswith("warning: there is no systemd here (") and len(trial.err.splitlines()) == 1
    assert not os.path.exists(systemd.host.etc)


def test_a_user_without_a_service_manager_is_refused(systemd: Systemd, run_dir: Path) -> None:
    one = of_user(systemd, run_dir)
    os.unlink(os.path.join(one.runtime, "systemd", "private"))
    with pytest.raises(YoppError, match="no service manager of ann") as refused:
        service.check_systemd(one)
    assert "enable-linger" in refused.value.hint


def test_a_service_of_a_user_is_asked_of_their_manager(systemd: Systemd, run_dir: Path) -> None:
    one = of_user(systemd, run_dir)
    service.check_install(one, start=True)
    service.install(one, unit_text(one, [], version=254), service.State(None), start=True)
    assert Path(one.path).is_relative_to(systemd.root / "home" / ".config" / "systemd" / "user")
    assert {line.split()[0] for line in systemd.calls()} == {"--user"}
    service.remove(one)
    assert not os.path.exists(one.path)
    assert systemd.calls()[-1] == "--user daemon-reload"


# -- remove and status ---------------------------------------------------------------------------------


def test_it_is_removed_and_a_second_time_nothing_is_there(
    cli: Callable[..., Ended], systemd: Systemd, run_dir: Path
) -> None:
    cli("service", "install", *SMALL)
    run_dir.mkdir(mode=0o700, exist_ok=True)
    (run_dir / "nodes.json").write_text("{}")  # SIGTERM keeps the cluster for its next start
    [path] = Path(systemd.host.etc).iterdir()
    assert cli("service", "remove", "--dry-run").code == 0
    assert path.exists()
    systemd.shows(ActiveState="active", UnitFileState="enabled", MainPID="77")
    assert cli("service", "status").code == 0
    told = json.loads(cli("service", "remove", "--dry-run", "--json").out)["service"]
    assert not schema.mismatch(told, schema.SERVICE)
    done = cli("service", "remove", "-y")
    assert (done.code, done.out) == (0, f"{path.name} removed\n")
    assert not path.exists()
    assert f"disable --now {path.name}" in systemd.calls()
    assert not (run_dir / "nodes.json").exists()
    assert cli("service", "remove").code == 0


# -- the doctor ----------------------------------------------------------------------------------------


def findings(one: Service, monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    monkeypatch.setattr("yarnopp_cli.cluster.doctor.service.service_here", lambda _: one)
    configuration = load([], [], environ={"HOME": "/none"}, state_dir="/none")
    return list(examine_service(Examined(one.run_dir, None, configuration, False)))  # type: ignore[arg-type]


def test_the_doctor_explains_lingering_and_delegation(
    systemd: Systemd, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = of_user(systemd, run_dir)
    [none] = findings(one, monkeypatch)
    assert (none.status, "yopp service install" in none.found) == ("ok", True)
    service.install(one, unit_text(one, [], version=254), service.State(None), start=True)
    systemd.shows(ActiveState="active", UnitFileState="enabled", MainPID="77")
    group = Path(systemd.host.cgroups, "user.slice/user-1000.slice/user@1000.service")
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("memory pids\n")
    linger, delegation = findings(one, monkeypatch)
    assert (linger.status, linger.fix) == ("warn", "loginctl enable-linger")
    assert (delegation.status, "cpu" in delegation.found, "Delegate=cpu" in delegation.fix) == (
        "warn",
        True,
        True,
    )
    Path(systemd.host.lingering, "ann").touch()
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    [fine] = findings(one, monkeypatch)
    assert (fine.status, fine.found) == ("ok", f"{one.unit} (active, enabled)")
    systemd.shows(ActiveState="failed", UnitFileState="enabled", MainPID="0")
    assert "journalctl --user" in findings(one, monkeypatch)[0].fix
    systemd.shows(ActiveState="inactive", UnitFileState="disabled", MainPID="0")
    assert findings(one, monkeypatch)[0].fix == f"systemctl --user enable {one.unit}"
