"""Which files are read, what goes over what, and variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from yarnopp_cli.errors import ConfigurationError, InvalidPropertyError, UnknownPropertyError
from yarnopp_cli.settings import files
from yarnopp_cli.settings.declarations import ApplicationSettings
from yarnopp_cli.settings.loading import Configuration, load
from yarnopp_cli.settings.rules import OPPORTUNISTIC, QUEUE_LENGTH

from .conftest import Load, Problems, Write

MEMORY = "mapreduce.map.memory.mb"
LOGS = "yarn.nodemanager.log-dirs"
LOCAL = "yarn.nodemanager.local-dirs"


@pytest.fixture
def no_system_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    path = str(tmp_path / "etc" / "yarn-site.toml")
    monkeypatch.setattr(files, "SYSTEM_SITE", path)
    return path


def test_the_site_found_is_the_users_then_the_systems_then_the_shipped(
    load_with: Load, write: Write, no_system_site: str
) -> None:
    shipped = load_with(())
    assert shipped.sources == (files.SHIPPED_SITE,)
    assert Path(shipped.sources[0]).name == "yarn-site.toml"
    system = write("etc/yarn-site.toml", f"{MEMORY} = 200")
    assert system == no_system_site
    assert load_with(()).value(MEMORY) == 200
    users = write("home/.config/yopp/yarn-site.toml", f"{MEMORY} = 300")
    configuration = load_with(())
    assert configuration.value(MEMORY) == 300
    assert configuration.origin(MEMORY) == f"{users}:1"
    assert configuration.value(OPPORTUNISTIC) is False  # the found site replaces the shipped one


def test_a_home_is_found_without_the_environment(write: Write) -> None:
    assert files.home_of({}) == files.home_of({"HOME": ""}) != ""
    assert files.home_of({"HOME": "/h"}) == "/h"


def test_layers_in_order(load_with: Load, write: Write) -> None:
    write("home/.config/yopp/yarn-site.toml", f"{MEMORY} = 1\nmapreduce.map.maxattempts = 9")
    named = write("named.toml", f"{MEMORY} = 2")
    first, second = write("first.toml", f"{MEMORY} = 3"), write("second.toml", "mapreduce.map.cpu.vcores = 2")
    assert load_with(()).value(MEMORY) == 1
    from_environment = load_with((), YOPP_CONF=f"{named}:{second}")
    assert from_environment.value(MEMORY) == 2
    assert from_environment.value("mapreduce.map.cpu.vcores") == 2
    assert from_environment.value("mapreduce.map.maxattempts") == 4
    configuration = load_with([first, second], YOPP_CONF=named)
    assert configuration.value(MEMORY) == 3
    assert configuration.sources == (first, second)
    assert load_with([second, first, named]).value(MEMORY) == 2
    both = load_with([first], [f"{MEMORY}=5", f" {MEMORY} = 6 "])
    assert both.value(MEMORY) == 6
    assert both.origin(MEMORY) == "-D"
    assert both.origin("mapreduce.map.cpu.vcores") == "default"
    assert both.settings(ApplicationSettings) == ApplicationSettings(map_memory_mb=6)


def test_a_directory_stands_for_the_files_in_it(load_with: Load, problems_of: Problems, write: Write) -> None:
    xml = f"<configuration><property><name>{MEMORY}</name><value>%d</value></property></configuration>"
    write("conf/mapred-site.xml", xml % 1)
    directory = os.path.dirname(write("conf/core-site.xml", "not read"))
    assert load_with([directory]).value(MEMORY) == 1
    write("conf/yarn-site.xml", xml % 2)
    assert load_with([directory]).value(MEMORY) == 2
    write("conf/yarn-site.toml", f"{MEMORY} = 3")
    assert load_with([directory]).value(MEMORY) == 3
    assert load_with((), YOPP_CONF=directory).value(MEMORY) == 3
    empty = os.path.dirname(write("empty/other.toml", ""))
    (problem,) = problems_of([empty])
    assert problem.message == f"{empty}: no configuration in this directory"
    assert problem.because == "it contains none of mapred-site.xml, yarn-site.xml, yarn-site.toml"


@pytest.mark.parametrize(
    ("text", "message", "because"),
    [
        ("foo", "-D foo: not a property", "it has no '='"),
        ("=1", "-D =1: not a property", "it has no name"),
        (f"{MEMORY}=x", f"-D: {MEMORY} = x", 'expected a whole number of at least 1, found "x"'),
        ("a.b=1", "-D: unknown property a.b", "no property has that name"),
        ("a\x1b[2J=1", "-D: unknown property a\\x1b[2J", "no property has that name"),
    ],
)
def test_a_wrong_define(problems_of: Problems, text: str, message: str, because: str) -> None:
    (problem,) = problems_of(defines=[text])
    assert problem.message == message
    assert problem.because == because


def test_variables(load_with: Load, write: Write) -> None:
    path = write(
        "site.toml",
        f'{LOGS} = "${{yopp.state-dir}}/logs/${{user.name}}"\n'
        f'{LOCAL} = "${{{LOGS}}}/../${{env.WHERE:-local}}-${{mapreduce.map.maxattempts}}${{env.X}}"\n',
    )
    configuration = load_with([path], X="!")
    user = files.user_of({})
    assert configuration.value(LOGS) == f"/var/state/logs/{user}"
    assert configuration.value(LOCAL) == f"/var/state/logs/{user}/../local-4!"
    assert str(load_with([path], X="", WHERE="there").value(LOCAL)).endswith("/there-4")
    assert load_with([path], [f"{LOGS}=${{user.home}}/l"], X="").value(LOGS) == load_with(
        [path], [f"{LOGS}=${{env.HOME}}/l"], X=""
    ).value(LOGS)
    assert load_with(defines=[f"{MEMORY}=${{mapreduce.map.maxattempts}}"]).value(MEMORY) == 4
    assert load_with(defines=[f"{LOGS}=/a$b${{"]).value(LOGS) == "/a$b${"


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ("/${nothing.such}", "there is no variable ${nothing.such}"),
        ("/${env.NOT_SET}", "there is no variable ${env.NOT_SET}"),
        (f"/${{{LOGS}}}", "more than 20 variables to replace; does one refer to itself?"),
        ("/${env.BIG}${env.BIG}", "it grows beyond 65536 characters"),
    ],
)
def test_variables_that_cannot_be(problems_of: Problems, value: str, because: str) -> None:
    (problem,) = problems_of(defines=[f"{LOGS}={value}"], BIG="x" * 40000)
    assert isinstance(problem, InvalidPropertyError)
    assert problem.message == f"-D: {LOGS} = {value}"
    assert problem.because == because


def test_a_configuration_travels_as_json(load_with: Load, write: Write) -> None:
    path = write("site.toml", f"{MEMORY} = 77\n")
    configuration = load_with([path], [f"{QUEUE_LENGTH}=3", f"{OPPORTUNISTIC}=true"])
    copy = Configuration.from_json(configuration.to_json())
    assert copy.to_json() == configuration.to_json()
    assert copy.value(MEMORY) == 77
    assert copy.origin(MEMORY) == f"{path}:1"
    assert copy.origin("mapreduce.map.cpu.vcores") == "default"
    assert copy.value(LOGS) == "/var/state/logs"
    assert copy.settings(ApplicationSettings) == configuration.settings(ApplicationSettings)
    assert (
        copy.non_default()
        == configuration.non_default()
        == {
            MEMORY: "77",
            QUEUE_LENGTH: "3",
            OPPORTUNISTIC: "true",
        }
    )


def test_json_of_another_version_keeps_what_both_know(load_with: Load) -> None:
    text = load_with(defines=[f"{MEMORY}=77"]).to_json()
    text = text.replace('"mapreduce.map.cpu.vcores"', '"mapreduce.map.cpu.gone"')
    copy = Configuration.from_json(text)
    assert copy.value(MEMORY) == 77
    assert copy.value("mapreduce.map.cpu.vcores") == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"stateDir": "/", "sources": [], "properties": []}', "[" * 100_000],
)
def test_json_that_is_damaged(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"site\.json of this cluster is damaged"):
        Configuration.from_json(text)


def test_json_with_a_damaged_value(load_with: Load) -> None:
    text = load_with(defines=[f"{MEMORY}=77"]).to_json().replace("77", '"x"')
    with pytest.raises(ConfigurationError) as raised:
        Configuration.from_json(text)
    assert raised.value.because == 'expected a whole number of at least 1, found "x"'


def test_asking_for_an_unknown_property(load_with: Load) -> None:
    configuration = load_with()
    for ask in (configuration.value, configuration.origin):
        with pytest.raises(UnknownPropertyError) as raised:
            ask("mapreduce.map.memory")
        assert raised.value.hint == "did you mean mapreduce.map.memory.mb?"


def test_every_problem_of_a_load_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load([str(tmp_path / "none")], [], environ={}, state_dir="/s")
    assert raised.value.exit_code == 78


def test_a_job_has_what_its_cluster_was_started_with_below_what_its_command_names(
    load_with: Load, write: Write
) -> None:
    maps, tries, least, reduces = (
        "yopp.pi.opportunistic-maps", "mapreduce.map.maxattempts", "yarn.scheduler.minimum-allocation-mb",
        "mapreduce.reduce.maxattempts",
    )  # fmt: skip
    site = write(
        "site.toml",
        f'"{tries}" = 2\n"{least}" = 7\n"{reduces}" = 3\n"yarn.scheduler.capacity.root.queues" = "a"\n',
    )
    rules = write("rules.toml", f'"{maps}" = "FIRST_OF_HUNDRED"\n"{reduces}" = 9\n')
    running = load_with([rules], [f"{tries}=5"])
    own = load_with([site], [f"{maps}=SPREAD"])
    found = own.beside(running.to_json(), named=False)
    assert [found.value(name) for name in (maps, tries, least, reduces)] == ["SPREAD", 5, 1024, 9]
    assert found.origin(tries) == "the running cluster (-D)" and found.origin(least) == "default"
    assert not found.patterned_properties() and not found.differences(
        load_with([rules], [f"{tries}=5", f"{maps}=SPREAD"])
    )
    named = own.beside(running.to_json(), named=True)
    assert [named.value(name) for name in (maps, tries, least, reduces)] == ["SPREAD", 2, 7, 3]
    assert load_with().beside(running.to_json(), named=False).value(maps) == "FIRST_OF_HUNDRED"
    newer = load_with([write("rules.toml", f'"{reduces}" = 1\n"{least}" = 3\n')])
    assert newer.beside(running.to_json(), named=False).value(reduces) == 1, "the cluster had read this file"
    assert newer.beside(running.to_json(), named=False).value(least) == 1024, "a daemon has not read it again"
    with pytest.raises(ConfigurationError, match="damaged"):
        own.beside('{"properties": {"x": 1}}', named=False)
