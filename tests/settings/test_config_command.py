"""``yopp config``: what it prints and how it ends."""

from __future__ import annotations

import json

import pytest

from yarnopp_cli.cli.app import run
from yarnopp_cli.settings.declarations import PROPERTIES

from .conftest import Write

NAME = "yarn.scheduler.maximum-allocation-mb"


pytestmark = pytest.mark.usefixtures("surroundings")


def test_get(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("a.toml", f"{NAME} = 2048")
    assert run(["config", "get", NAME, "--conf", path]) == 0
    assert capfd.readouterr() == ("2048\n", "")


def test_get_of_an_unknown_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "get", NAME[:-1]]) == 78
    out, err = capfd.readouterr()
    assert out == ""
    because = "no property has that name"
    assert err == f"error: unknown property {NAME[:-1]}\n  because: {because}\n  hint: did you mean {NAME}?\n"


def test_show_what_is_set_with_origins(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("a.toml", f"\n{NAME} = 2048")
    assert run(["config", "show", "--origin", "--conf", path, "-Dmapreduce.map.maxattempts=7"]) == 0
    out, err = capfd.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["PROPERTY", "VALUE", "ORIGIN"],
        [NAME, "2048", f"{path}:2"],
        ["mapreduce.map.maxattempts", "7", "-D"],
    ]
    assert err == ""


def test_show_what_has_a_word_in_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "-q", "overtakes"]) == 0
    assert capfd.readouterr().out == "yopp.nodemanager.opportunistic-queue.max-overtakes\n"
    assert run(["config", "show", "-q", "opportunistc"]) == 78


def test_show_as_json(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("a.toml", f"\n{NAME} = 2048")
    assert run(["config", "show", "--json", "--conf", path, NAME]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "properties": [
            {"name": NAME, "value": 2048, "default": 8192, "origin": f"{path}:2", "type": "int"},
        ]
    }
    assert run(["config", "show", "--all", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)["properties"]
    assert [item["name"] for item in shown] == list(PROPERTIES)


def test_show_by_the_beginning_of_a_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "-q", "yarn.scheduler", "mapreduce.map.*", NAME]) == 0
    out = capfd.readouterr().out.split()
    assert NAME in out
    assert all(name.startswith(("yarn.scheduler.", "mapreduce.map.")) for name in out)
    assert len(out) == len(set(out)) == 11
    assert run(["config", "show", "yarn.schedular"]) == 78


def test_show_warns(capfd: pytest.CaptureFixture[str]) -> None:
    option = "-Dyarn.nodemanager.opportunistic-containers-max-queue-length=4"
    assert run(["config", "show", "--conf", "/dev/null", option]) == 0
    assert "warning: " in capfd.readouterr().err


def test_check_lists_everything(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    good, bad = write("good.toml", f"{NAME} = 2048"), write("bad.toml", f"{NAME} = 0\nyarn.x = 1\n")
    assert run(["config", "check", good]) == 0
    assert capfd.readouterr() == (f"{good}: ok\n", "")
    assert run(["config", "check", good, bad]) == 78
    out, err = capfd.readouterr()
    assert out == f"{good}: ok\n"
    assert err.count("error: ") == 2
    assert f"error: {bad}:1: {NAME} = 0\n  because: expected a whole number of at least 1, found 0\n" in err
    assert f"error: {bad}:2: unknown property yarn.x\n" in err


def test_check_as_json(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    bad = write("bad.toml", f"{NAME} = 0\nyarn.x = 1\n")
    assert run(["config", "check", "--json", bad]) == 78
    out, err = capfd.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document["exit"] == 78
    assert [problem["error"] for problem in document["check"][0]["problems"]] == [
        f"{bad}:2: unknown property yarn.x",
        f"{bad}:1: {NAME} = 0",
    ]


def test_check_of_what_would_be_read(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    site = write("home/.config/yopp/yarn-site.toml", "yarn.x = 1\n")
    assert run(["config", "check"]) == 78
    assert f"{site}:1: unknown property yarn.x" in capfd.readouterr().err
    assert run(["config", "check", "--conf", "/dev/null"]) == 0


def test_path(capfd: pytest.CaptureFixture[str], write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write("home/.config/yopp/yarn-site.toml", "")
    assert run(["config", "path"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{site}\n"
    assert site in err and "/etc/yopp/yarn-site.toml" in err
    other = write("b.toml", "")
    monkeypatch.setenv("YOPP_CONF", f"{site}:{other}")
    assert run(["config", "path", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["path"]["read"] == [site, other]
    monkeypatch.setenv("YOPP_CONF", f"{site}:/nosuch")
    assert run(["config", "path"]) == 78


def test_nothing_is_made_by_looking(tmp_path: object, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    capfd.readouterr()
    import os

    assert os.listdir(str(tmp_path)) == []
