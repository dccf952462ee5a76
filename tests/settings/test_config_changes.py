"""``yopp config set|import``: what is written, and that nothing is where something is wrong."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnopp_cli.cli.app import run
from yarnopp_cli.cli.lifecycle import config_changes
from yarnopp_cli.settings.declarations import PROPERTIES
from yarnopp_cli.settings.editing import with_values
from yarnopp_cli.settings.files import SHIPPED_SITE
from yarnopp_cli.settings.toml import read_toml

from .conftest import Write

LENGTH = "yarn.nodemanager.opportunistic-containers-max-queue-length"
MAPS = "mapreduce.map.memory.mb"
MEMORY = "yarn.scheduler.maximum-allocation-mb"


pytestmark = pytest.mark.usefixtures("surroundings")


def site_of(tmp_path: Path) -> Path:
    return tmp_path / "home/.config/yopp/yarn-site.toml"


# ---- the text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f'[yarn.nodemanager]\n{LENGTH[17:]} = 7\n'),
        (f"# mine\n{LENGTH}=  1   # few\n", f"# mine\n{LENGTH}=  7   # few\n"),
        (f"[yarn.nodemanager]\n# a\n{LENGTH[17:]} = 1", f"[yarn.nodemanager]\n# a\n{LENGTH[17:]} = 7"),
        (
            "[yarn.nodemanager]\nlog.retain-seconds = 9  # week\n\n# the rest\n[yopp.run]\nmemory-mb = 3\n",
            "[yarn.nodemanager]\nlog.retain-seconds = 9  # week\n"
            f"{LENGTH[17:]} = 7\n\n# the rest\n[yopp.run]\nmemory-mb = 3\n",
        ),
        # A section of that name cannot be opened again: the name stands whole, and before the first section.
        (
            "yarn.nodemanager.log.retain-seconds = 9\n[yopp.run]\nmemory-mb = 3\n",
            f'yarn.nodemanager.log.retain-seconds = 9\n"{LENGTH}" = 7\n[yopp.run]\nmemory-mb = 3\n',
        ),
        ("[yarn]\nnodemanager = {x = 1}\n", f'"{LENGTH}" = 7\n[yarn]\nnodemanager = {{x = 1}}\n'),
    ],
)  # fmt: skip
def test_one_property_is_set_and_the_rest_stays(before: str, after: str) -> None:
    assert with_values(before, {LENGTH: 7}) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"# mine\n{LENGTH}=  1   # few\n[yopp.run]\nmemory-mb = 3\n", "# mine\n[yopp.run]\nmemory-mb = 3\n"),
        (f"[yarn.nodemanager]\n# a\n{LENGTH[17:]} = 1", "[yarn.nodemanager]\n# a\n"),
        (f'"{LENGTH}" = """\n1\n"""  # few\nyopp.run.memory-mb = 3\n', "yopp.run.memory-mb = 3\n"),
        (f"[yarn]\nnodemanager = {{{LENGTH[17:]} = 1}}\n", None),
    ],
)
def test_one_property_is_removed_and_the_rest_stays(before: str, after: str | None) -> None:
    assert with_values(before, {LENGTH: None}) == after


def test_every_property_of_the_shipped_site_can_be_removed() -> None:
    text = Path(SHIPPED_SITE).read_text()
    for entry in read_toml(text, "x").entries:
        changed = with_values(text, {entry.name: None})
        assert changed is not None and len(changed.splitlines()) < len(text.splitlines())


def test_unset(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("mine.toml", f"# mine\n{LENGTH} = 7\nyopp.run.memory-mb = 300\n")
    assert run(["config", "unset", LENGTH, "--dry-run", "--conf", path]) == 0
    assert capfd.readouterr().out == f"{LENGTH} would be removed from {path}: it is 0 (default)\n"
    assert "= 7" in Path(path).read_text()
    assert run(["config", "unset", LENGTH, "--conf", path, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["name"] == LENGTH
    assert Path(path).read_text() == "# mine\nyopp.run.memory-mb = 300\n"
    assert run(["config", "unset", LENGTH, "--conf", path]) == 66
    assert f"{LENGTH} is not set in {path}" in capfd.readouterr().err


def test_what_is_unset_may_be_unknown(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("mine.toml", "yopp.run.memory-mbb = 300\n")
    assert run(["config", "unset", "yopp.run.memory-mbb", "--conf", path]) == 0
    assert (capfd.readouterr().out, Path(path).read_text()) == (
        f"yopp.run.memory-mbb is removed from {path}\n",
        "",
    )


def test_an_empty_value_is_shown_as_one(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("mine.toml", "")
    assert run(["config", "set", "yopp.nodemanager.opportunistic.window", "", "--conf", path]) == 0
    assert capfd.readouterr().out == f'yopp.nodemanager.opportunistic.window = ""  (in {path})\n'


def test_what_only_a_person_can_change_is_left(tmp_path: Path) -> None:
    inline = f"[yarn]\nnodemanager = {{{LENGTH[17:]} = 1}}\n"
    assert with_values(inline, {LENGTH: 7}) is None


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([LENGTH, MEMORY, "yopp.run.memory-mb", "mapreduce.map.memory.mb", "yarn.acl.enable"]),
        st.integers(1, 99),
        max_size=5,
    ),
    st.sampled_from([LENGTH, MEMORY, "yopp.run.memory-mb", "yopp.nodemanager.racks"]),
)
def test_whatever_stands_there_reads_back(given_: dict[str, int], name: str) -> None:
    text = with_values("# begin\n", given_)
    assert text is not None
    text = with_values(text, {name: 5})
    assert text is not None
    assert text.startswith("# begin\n") or name not in given_
    assert {one.name: one.value for one in read_toml(text, "x").entries} == {**given_, name: 5}


def test_every_property_can_be_set_in_the_shipped_site() -> None:
    text = Path(SHIPPED_SITE).read_text()
    for name, known in PROPERTIES.items():
        changed = with_values(text, {name: known.default})
        assert changed is not None, name
        assert {one.name: one.value for one in read_toml(changed, "x").entries}[name] == known.default


# ---- set


def test_the_first_set_copies_the_site_in_effect_and_changes_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "set", LENGTH, "20"]) == 0
    out, err = capfd.readouterr()
    site = site_of(tmp_path)
    assert out == f"{LENGTH} = 20  (in {site})\n"
    assert err == f"{site} starts as a copy of {SHIPPED_SITE}\n"
    shipped, mine = Path(SHIPPED_SITE).read_text().splitlines(), site.read_text().splitlines()
    assert [(a, b) for a, b in zip(shipped, mine, strict=True) if a != b] == [
        (f"{LENGTH[17:]} = 10", f"{LENGTH[17:]} = 20")
    ]
    assert run(["config", "set", "--json", "yarn.nodemanager.resource.memory-mb", "-1"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["value"], told["origin"].rpartition(":")[0]) == (-1, str(site))
    assert os.listdir(site.parent) == [site.name]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([LENGTH, "many"], 78, "expected a whole number of at least 0"),
        ([LENGTH, "-5"], 78, "expected a whole number of at least 0, found -5"),
        ([LENGTH[:-1], "5"], 78, f"did you mean {LENGTH}?"),
        (["yarn.scheduler.minimum-allocation-mb", "2000000"], 78, "nothing was written"),
        (["yarn.nodemanager.log-dirs", "${nobody.knows}/x"], 78, "nothing was written"),
        ([LENGTH], 2, "VALUE"),
        ([LENGTH, "5", "--conf", "/etc/yarn-site.xml"], 2, "TOML only"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert run(["config", "set", *words]) == code
    assert said in capfd.readouterr().err
    assert not site_of(tmp_path).exists()


def test_set_in_a_named_file_keeps_its_mode_and_follows_its_link(tmp_path: Path, write: Write) -> None:
    path = write("real.toml", f"{MAPS} = 5  # five\n")
    os.chmod(path, 0o600)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    assert run(["config", "set", MAPS, "6", "--conf", str(link), "-q"]) == 0
    assert link.is_symlink()
    assert Path(path).read_text() == f"{MAPS} = 6  # five\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert run(["config", "set", MAPS, "7", "--conf", str(link), "--dry-run"]) == 0
    assert "= 6" in Path(path).read_text()


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device", "socket"])
@pytest.mark.parametrize("words", [["set", MAPS, "6"], ["set", "--dry-run", MAPS, "6"], ["import", "SITE"]])
def test_what_is_no_regular_file_is_never_replaced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], write: Write, kind: str, words: list[str]
) -> None:
    place = tmp_path / "place.toml"
    if kind == "device":
        try:
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null, which was replaced once
        except PermissionError:
            pytest.skip("only root makes devices")
    elif kind == "socket":
        os.mknod(place, 0o600 | stat.S_IFSOCK)
    else:
        os.mkfifo(place)
    before = os.stat(place)
    named = place
    if kind.startswith("link"):
        named = tmp_path / "link.toml"
        named.symlink_to(place)
    given_ = [write("yarn-site.xml", SITE) if word == "SITE" else word for word in words]
    assert run(["config", *given_, "--conf", str(named)]) == 1
    said = f"error: cannot write {place}\n  because: it is not a regular file\n"
    assert said in capfd.readouterr().err
    after = os.stat(place)
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)


def test_dev_null_is_refused_before_anything_is_opened_for_writing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("it would have been written")

    monkeypatch.setattr(config_changes, "_write", forbidden)
    assert run(["config", "set", MAPS, "6", "--conf", os.devnull]) == 1
    assert "it is not a regular file" in capfd.readouterr().err


def test_a_file_that_may_not_be_written_to_is_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    path = write("mine.toml", f"{MAPS} = 5\n")
    may = os.access
    monkeypatch.setattr(os, "access", lambda one, mode: one != path and may(one, mode))  # root may everything
    assert run(["config", "set", MAPS, "6", "--conf", path]) == 1
    assert f"cannot write {path}" in capfd.readouterr().err
    assert Path(path).read_text() == f"{MAPS} = 5\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_leaves_a_users_file_to_the_user(write: Write) -> None:
    path = write("theirs.toml", f"{MAPS} = 5\n")
    os.chown(path, 65534, 65533)
    assert run(["config", "set", MAPS, "6", "--conf", path]) == 0
    assert (os.stat(path).st_uid, os.stat(path).st_gid) == (65534, 65533)
    assert Path(path).read_text() == f"{MAPS} = 6\n"


def test_a_value_that_is_no_text_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["config", "set", "yarn.resourcemanager.webapp.address", "\udcff:8088"]) == 78
    assert "not UTF-8" in capfd.readouterr().err
    assert not site_of(tmp_path).exists()


# ---- import

SITE = f"""<configuration>
<property><name>{LENGTH}</name><value>30</value><final>true</final></property>
<property><name>yarn.resourcemanager.address</name><value>rm1:8032</value></property>
<property><name>yarn.nodemanager.aux-services</name><value>shuffle</value></property>
<property><name>yarn.nodemanager.local-dirs</name><value>file:///data/1,/data/2</value></property>
<property><name>{MEMORY}</name><value>1</value></property>
<property><name>{MEMORY}</name><value>4096</value></property>
<property><name>{LENGTH[:-2]}ht</name><value>1</value></property>
<property><name>yarn.acl.enable</name></property>
</configuration>
"""


def test_import_tells_of_every_property_what_became_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], write: Write
) -> None:
    path = write("yarn-site.xml", SITE)
    assert run(["config", "import", path, "--json"]) == 0
    out, err = capfd.readouterr()
    assert "yarn.acl.enable has no <value> and is ignored" in err
    found = [(one["name"], one["taken"], one["why"]) for one in json.loads(out)["import"]["properties"]]
    assert found == [
        (LENGTH, True, "not as final: nothing overrides your file"),
        ("yarn.resourcemanager.address", False, "it names another cluster's ResourceManager"),
        ("yarn.nodemanager.aux-services", False, "yopp does not use it"),
        ("yarn.nodemanager.local-dirs", True, "as /data/1"),
        (MEMORY, False, f"{path}:7 takes precedence"),
        (MEMORY, True, ""),
        (f"{LENGTH[:-2]}ht", False, f"unknown; did you mean {LENGTH}?"),
    ]
    text = site_of(tmp_path).read_text()
    assert f"{LENGTH[17:]} = 30" in text
    assert 'local-dirs = "/data/1"' in text
    assert "maximum-allocation-mb = 4096 " in text
    assert run(["config", "check"]) == 0


@pytest.mark.parametrize("wrong", [SITE.replace(">30<", ">x30<"), SITE[:-20], "no xml"])
def test_import_of_what_is_wrong_writes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], write: Write, wrong: str
) -> None:
    assert run(["config", "import", write("yarn-site.xml", wrong)]) == 78
    assert len(capfd.readouterr().err.splitlines()) >= 2
    assert not site_of(tmp_path).exists()
