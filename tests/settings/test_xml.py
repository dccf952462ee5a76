"""Hadoop's own site files."""

from __future__ import annotations

import os

import pytest

from yarnopp_cli.cli.app import run
from yarnopp_cli.settings.loading import misspelt
from yarnopp_cli.settings.rules import OPPORTUNISTIC, QUEUE_LENGTH

from .conftest import Load, Problems, Write

REAL = """<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- a real cluster's file -->
<configuration>
  <property>
    <name>yarn.resourcemanager.hostname</name>
    <value>master1.example.com</value>
  </property>
  <property>
    <name>yarn.resourcemanager.address</name>
    <value>${yarn.resourcemanager.hostname}:8032</value>
  </property>
  <property>
    <name>yarn.resourcemanager.scheduler.address</name>
    <value>${yarn.resourcemanager.hostname}:8030</value>
  </property>
  <property>
    <name>yarn.nodemanager.aux-services</name>
    <value>mapreduce_shuffle</value>
  </property>
  <property><name>yarn.acl.enable</name><value>false</value></property>
  <property><name>yarn.log-aggregation-enable</name><value>true</value></property>
  <property>
    <name>yarn.nodemanager.resource.memory-mb</name>
    <value> 8192 </value>
    <description>a &lt;good&gt; deal</description>
  </property>
  <property>
    <name>hadoop.tmp.dir</name>
    <value>/data/${user.name}</value>
  </property>
  <property>
    <name>yarn.nodemanager.local-dirs</name>
    <value>file://${hadoop.tmp.dir}/nm-local-dir,/data2/nm-local-dir</value>
  </property>
  <property>
    <name>yarn.resourcemanager.opportunistic-container-allocation.enabled</name>
    <value>true</value>
    <final>true</final>
  </property>
  <property>
    <name>yarn.nodemanager.opportunistic-containers-max-queue-length</name>
    <value>10</value>
  </property>
</configuration>
"""


def site(*properties: str) -> str:
    """A site file; each property stands on a line of its own from line 2."""
    body = "\n".join(f"<property>{text}</property>" for text in properties)
    return f"<configuration>\n{body}\n</configuration>\n"


def test_a_real_site_file(load_with: Load, write: Write) -> None:
    path = write("yarn-site.xml", REAL)
    configuration = load_with([path])
    assert configuration.value("yarn.nodemanager.resource.memory-mb") == 8192
    assert configuration.origin("yarn.nodemanager.resource.memory-mb") == f"{path}:23"
    assert configuration.value(OPPORTUNISTIC) is True
    assert configuration.value(QUEUE_LENGTH) == 10
    local = configuration.value("yarn.nodemanager.local-dirs")
    assert isinstance(local, str) and local.startswith("/data/") and local.endswith("/nm-local-dir")
    assert configuration.value("yarn.resourcemanager.address") == ""
    assert configuration.warnings == (
        f"{path}:9: yarn.resourcemanager.address is ignored: it names another cluster's ResourceManager",
        f"{path}:13: yarn.resourcemanager.scheduler.address is ignored: "
        "it names another cluster's ResourceManager",
        f"{path}: ignored 4 properties that mean nothing to yopp "
        "(yarn.resourcemanager.hostname, yarn.nodemanager.aux-services, yarn.log-aggregation-enable, …)",
        f"{path}:32: yarn.nodemanager.local-dirs lists several directories; only the first is used",
    )


@pytest.mark.parametrize(
    ("address", "proxy", "kept"),
    [
        ("localhost:8049", None, True),
        ("127.0.0.1:8049", None, True),
        ("localhost:8030", None, False),
        ("master1.example.com:8049", None, False),
        ("localhost:8048", "0.0.0.0:8048", True),
        ("localhost:8049", "0.0.0.0:8048", False),
    ],
)
def test_the_documents_client_is_sent_to_the_amrmproxy(
    load_with: Load, write: Write, address: str, proxy: str | None, kept: bool
) -> None:
    """The scheduler's address is YARN's way to send a client's master to the AMRMProxy of this host; with any other
    port or host it is another cluster's."""
    name = "yarn.resourcemanager.scheduler.address"
    more = [f"<name>yarn.nodemanager.amrmproxy.address</name><value>{proxy}</value>"] if proxy else []
    found = load_with([write("a.xml", site(f"<name>{name}</name><value>{address}</value>", *more))])
    assert found.value(name) == (address if kept else "")
    assert bool(found.warnings) is not kept


@pytest.mark.parametrize(
    ("name", "host", "address", "value", "why"),
    [
        ("resourcemanager.webapp", "", "localhost:9088", "localhost:9088", ""),
        (
            "resourcemanager.webapp",
            "localhost",
            "${yarn.resourcemanager.hostname}:9088",
            "localhost:9088",
            "",
        ),
        ("resourcemanager.webapp", "", "${yarn.resourcemanager.hostname}:9088", "0.0.0.0:9088", ""),
        (
            "resourcemanager.webapp",
            "m1.example.com",
            "${yarn.resourcemanager.hostname}:80",
            None,
            "another cluster's",
        ),
        ("nodemanager.webapp", "", "${yarn.nodemanager.hostname}:9042", "0.0.0.0:9042", ""),
        ("nodemanager.webapp", "", "[::1]:9042", "[::1]:9042", ""),
        ("nodemanager.webapp", "", "n7.example.com:8042", None, "on the network"),
        ("resourcemanager", "", "127.0.0.1:8032", "127.0.0.1:8032", ""),
        ("resourcemanager", "", "${yarn.resourcemanager.hostname}:8032", None, "on loopback only"),
        ("resourcemanager", "", "m1:8032", None, "another cluster's"),
        ("resourcemanager", "", f"{os.uname().nodename.upper()}:8032", None, "on loopback only"),
        ("resourcemanager.webapp", "", f"{os.uname().nodename}.example.com:8088", None, "on loopback only"),
        ("resourcemanager.webapp", "", "LocalHost.:9088", "localhost:9088", ""),
        ("resourcemanager", "ip6-localhost", "${yarn.resourcemanager.hostname}:8032", "localhost:8032", ""),
        (
            "resourcemanager.scheduler",
            "",
            "${yarn.resourcemanager.hostname}:8030",
            None,
            "at the ResourceManager",
        ),
    ],
)
def test_an_address_counts_if_it_is_on_this_host(
    load_with: Load, write: Write, capfd: pytest.CaptureFixture[str],
    name: str, host: str, address: str, value: str | None, why: str,
) -> None:  # fmt: skip
    name = f"yarn.{name}.address"
    more = [f"<name>yarn.resourcemanager.hostname</name><value>{host}</value>"] if host else []
    path = write("a.xml", site(f"<name>{name}</name><value>{address}</value>", *more))
    found = load_with([path])
    assert (found.value(name), found.origin(name)) == (
        (value, f"{path}:2") if value else (found.value(name), "default")
    )
    assert [warning for warning in found.warnings if name in warning and why in warning] == list(
        found.warnings[:1] if why else []
    )
    assert run(["config", "check", path]) == 0
    assert capfd.readouterr().out == f"{path}: " + (
        f"no errors, {len(found.warnings)} warning{'s' * (len(found.warnings) > 1)}\n"
        if found.warnings
        else "ok\n"
    )


def test_xml_is_known_by_its_beginning_too(load_with: Load, write: Write) -> None:
    path = write("site", "\n " + site(f"<name>{QUEUE_LENGTH}</name><value>3</value>"))
    assert load_with([path]).value(QUEUE_LENGTH) == 3


def test_attributes_as_hadoop_has_them(load_with: Load, write: Write) -> None:
    path = write(
        "a.xml", f'<configuration><property name="{QUEUE_LENGTH}" value="4" final="true"/></configuration>'
    )
    assert load_with([path]).value(QUEUE_LENGTH) == 4


def test_a_misspelt_name_is_a_warning_with_the_nearest(load_with: Load, write: Write) -> None:
    path = write("a.xml", site("<name>yarn.nodemanager.recovery.enable</name><value>false</value>"))
    assert load_with([path]).warnings == (
        f"{path}:2: unknown property yarn.nodemanager.recovery.enable is ignored; "
        "did you mean yarn.nodemanager.recovery.enabled?",
    )


def test_our_own_names_are_checked_in_xml_too(problems_of: Problems, write: Write) -> None:
    path = write("a.xml", site("<name>yopp.run.memory</name><value>1</value>"))
    (problem,) = problems_of([path])
    assert problem.message == f"{path}:2: unknown property yopp.run.memory"
    assert problem.hint == "did you mean yopp.run.memory-mb?"


def test_final_binds_later_files_and_not_the_command_line(load_with: Load, write: Write) -> None:
    first = write(
        "a.xml",
        site(
            f"<name>{QUEUE_LENGTH}</name><value>1</value><final>true</final>",
            f"<name>{QUEUE_LENGTH}</name><value>2</value><final> TRUE </final>",
        ),
    )
    second = write("b.toml", f"{QUEUE_LENGTH} = 9\n")
    configuration = load_with([first, second], [f"{OPPORTUNISTIC}=true"])
    assert configuration.value(QUEUE_LENGTH) == 2
    assert configuration.origin(QUEUE_LENGTH) == f"{first}:3"
    assert configuration.warnings == (
        f"{first}:3: {QUEUE_LENGTH} replaces the value at {first}:2",
        f"{second}:1: {QUEUE_LENGTH} is ignored: it is final in {first}:3",
    )
    assert load_with([first, second], [f"{QUEUE_LENGTH}=7"]).value(QUEUE_LENGTH) == 7


@pytest.mark.parametrize(
    ("text", "where", "because"),
    [
        (
            '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<configuration/>',
            ":2: not a site file",
            "it has a DOCTYPE, which is not supported",
        ),
        ("<configuration>\n<property>\n</configuration>", ":3:3: not an XML document", "mismatched tag"),
        ("", ":1:1: not an XML document", "no element found"),
        (
            "<configuration>&x;</configuration>",
            ":1:16: not an XML document",
            "undefined entity",
        ),
        ("<html>\n</html>", ":1: not a site file", "its root is <html>, not <configuration>"),
        (
            '<configuration>\n<xi:include href="/etc/passwd"/></configuration>',
            ":2: not a site file",
            "<xi:include> is not followed",
        ),
        (site("<value>1</value>"), ":2: not a site file", "a <property> has no <name>"),
        (
            '<?xml version="1.0" encoding="klingon"?>\n<configuration/>',
            ": not an XML document",
            "unknown encoding: klingon",
        ),
    ],
)
def test_what_is_no_site_file(
    problems_of: Problems, write: Write, text: str, where: str, because: str
) -> None:
    path = write("yarn-site.xml", text)
    (problem,) = problems_of([path])
    assert problem.message.startswith(path)
    assert problem.because == because
    assert problem.message == path + where or where == ": not an XML document"


def test_a_wrong_value_has_the_line_of_its_property(problems_of: Problems, write: Write) -> None:
    path = write("a.xml", site("<name>x</name><value/>", f"<name>{QUEUE_LENGTH}</name>\n<value>ten</value>"))
    (problem,) = problems_of([path])
    assert problem.message == f"{path}:3: {QUEUE_LENGTH} = ten"
    assert problem.because == 'expected a whole number of at least 0, found "ten"'


def test_a_property_without_a_value_is_passed_over(load_with: Load, write: Write) -> None:
    path = write("a.xml", site(f"<name>{QUEUE_LENGTH}</name>"))
    configuration = load_with([path])
    assert configuration.value(QUEUE_LENGTH) == 0
    assert configuration.warnings == (f"{path}:2: {QUEUE_LENGTH} has no <value> and is ignored",)


def test_another_encoding_that_the_file_declares(load_with: Load, write: Write) -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?>\n' + site(
        "<name>yarn.nodemanager.log-dirs</name><value>/café</value>"
    )
    path = write("a.xml", text.encode("latin-1"))
    assert load_with([path]).value("yarn.nodemanager.log-dirs") == "/café"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("yarn.resourcemanager.adress", "yarn.resourcemanager.address"),
        ("yarn.nodemanager.recovery.enable", "yarn.nodemanager.recovery.enabled"),
        ("yarn.nodemanager.resource.memory-gb", "yarn.nodemanager.resource.memory-mb"),
        ("yarn.nodemanager.log-dir", "yarn.nodemanager.log-dirs"),
        ("yarn.resourcemanager.hostname", ""),
        ("yarn.nodemanager.aux-services", ""),
        ("yarn.log-aggregation-enable", ""),
        ("dfs.replication", ""),
    ],
)
def test_a_name_that_is_nearly_ours_is_told_and_hadoops_others_are_not(
    load_with: Load, write: Write, name: str, meant: str
) -> None:
    path = write("yarn-site.xml", site(f"<name>{name}</name><value>1</value>"))
    told = misspelt(load_with([path]).warnings)
    assert [line.partition(": ")[2] for line in told] == (
        [f"unknown property {name} is ignored; did you mean {meant}?"] if meant else []
    )
