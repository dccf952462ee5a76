"""Which engine is meant: options, variables, the configuration, and nothing read that need not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.client.choice import Choice, addresses, choose
from yarnopp_cli.errors import ConfigurationError, UsageError

SITE = '[yopp.engine]\nname = "yarn"\nrm-addresses = "rm1,https://rm2"\n'


def chosen(home: Path, engine: str | None = None, rm: list[str] | None = None, **more: Any) -> Choice:
    environ = {"HOME": str(home), **more.pop("environ", {})}
    return choose(engine, rm, conf=more.pop("conf", None), define=more.pop("define", None), environ=environ)


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    site = tmp_path / ".config/yopp/yarn-site.toml"
    site.parent.mkdir(parents=True)
    site.write_text(SITE)
    return tmp_path


def test_this_host_by_itself(tmp_path: Path) -> None:
    assert chosen(tmp_path) == Choice("local", "default")


def test_the_configuration_says_where_it_stands(configured: Path) -> None:
    site = f"{configured}/.config/yopp/yarn-site.toml"
    both = ("http://rm1:8088", "https://rm2:8090")
    assert chosen(configured) == Choice("yarn", f"{site}:2", both, f"{site}:3")


def test_what_goes_before_what(configured: Path) -> None:
    variables = {"YOPP_ENGINE": "local", "YOPP_RM": "rm3"}
    assert chosen(configured, environ=variables) == Choice("local", "YOPP_ENGINE")
    assert chosen(configured, environ={"YOPP_RM": "rm3"}) == Choice(
        "yarn", "YOPP_RM", ("http://rm3:8088",), "YOPP_RM"
    )
    assert chosen(configured, "yarn", environ=variables) == Choice(
        "yarn", "--engine", ("http://rm3:8088",), "YOPP_RM"
    )
    assert chosen(configured, None, ["rm4,rm5", "rm6"], environ=variables) == Choice(
        "yarn", "--rm", ("http://rm4:8088", "http://rm5:8088", "http://rm6:8088"), "--rm"
    )
    assert chosen(configured, "local") == Choice("local", "--engine")
    assert chosen(configured, define=["yopp.engine.name=local"]) == Choice("local", "-D")


def test_what_makes_no_sense(tmp_path: Path) -> None:
    for given in (("local", ["rm"]), ("mesos", None)):
        with pytest.raises(UsageError):
            chosen(tmp_path, *given)
    with pytest.raises(UsageError, match="YOPP_ENGINE: there is no engine"):
        chosen(tmp_path, environ={"YOPP_ENGINE": "k8s"})
    with pytest.raises(ConfigurationError):
        chosen(tmp_path, define=["yopp.engine.name=k8s"])


def test_a_site_with_mistakes_stops_only_who_asks_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("no toml at all [")
    assert chosen(tmp_path, conf=[str(broken)]).name == "local"
    assert chosen(tmp_path, conf=["/nonexistent"]).name == "local"
    broken.write_text("yopp.engine.name = 7\n")
    with pytest.raises(ConfigurationError):
        chosen(tmp_path, conf=[str(broken)])


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("rm", "http://rm:8088"),
        ("rm:80", "http://rm:80"),
        ("https://rm", "https://rm:8090"),
        ("http://rm:8088/", "http://rm:8088"),
        ("http://rm:8088/cluster/", "http://rm:8088"),
        ("http://rm:8088/ws/v1/cluster", "http://rm:8088"),
        ("https://gate/yarn", "https://gate:8090/yarn"),
        ("[::1]:8088", "http://[::1]:8088"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert addresses([text, f" {text} ", ""]) == (url,)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://rm",
        "http://",
        "http://rm:x",
        "http://rm:99999",
        "http://u:p@rm",
        "http://rm?x",
        "http://a b",
        "file:///etc",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not the address"):
        addresses([text])
