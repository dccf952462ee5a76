"""Properties of queues: names with queues in them, from TOML, XML and -D, and what can be wrong with them."""

from __future__ import annotations

import json

import pytest

from yarnopp_cli.cli.app import run
from yarnopp_cli.errors import InvalidPropertyError, UnknownPropertyError
from yarnopp_cli.settings.loading import Configuration
from yarnopp_cli.settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, mappings_of, weights_of

from .conftest import Load, Problems, Write

ROOT = "yarn.scheduler.capacity.root"
TWO = f"""
[{ROOT}]
queues = "prod, dev"
[{ROOT}.prod]
capacity = 70
maximum-capacity = 80
acl_submit_applications = "ada,bob"
[{ROOT}.dev]
capacity = 30.0
queues = "a,b"
a.capacity = 40
b.capacity = 60
b.ordering-policy = "fair"
b.user-limit-factor = 2
state = "STOPPED"
"""


def test_without_any_there_is_one_queue(load_with: Load) -> None:
    configuration = load_with()
    assert configuration.queues() is DEFAULT_QUEUES
    assert [queue.path for queue in configuration.queues()] == ["root", "root.default"]
    assert configuration.patterned_properties() == ()


def test_a_tree_from_toml(load_with: Load, write: Write) -> None:
    path = write("q.toml", TWO)
    configuration = load_with([path])
    root = configuration.queues()
    queues = {queue.path: queue for queue in root}
    assert list(queues) == ["root", "root.prod", "root.dev", "root.dev.a", "root.dev.b"]
    prod, b = queues["root.prod"], queues["root.dev.b"]
    assert (prod.capacity, prod.maximum_capacity, prod.state) == (70.0, 80.0, "RUNNING")
    assert prod.submitters == {"ada", "bob"} and root.submitters is None and b.submitters == frozenset()
    assert (b.capacity, b.maximum_capacity, b.user_limit_factor, b.ordering_policy) == (
        60.0,
        100.0,
        2.0,
        "fair",
    )
    assert b.state == "STOPPED"
    assert configuration.origin(f"{ROOT}.prod.capacity") == f"{path}:5"
    assert configuration.value(f"{ROOT}.prod.user-limit-factor") == 1.0
    assert configuration.origin(f"{ROOT}.prod.user-limit-factor") == "default"
    assert configuration.non_default()[f"{ROOT}.dev.capacity"] == "30.0"


def test_the_daemons_read_the_same(load_with: Load, write: Write) -> None:
    configuration = load_with([write("q.toml", TWO)])
    again = Configuration.from_json(configuration.to_json())
    assert again.queues() == configuration.queues()
    assert again.origin(f"{ROOT}.prod.capacity") == configuration.origin(f"{ROOT}.prod.capacity")


def test_hadoops_capacity_scheduler_xml_and_the_command_line(load_with: Load, write: Write) -> None:
    given = {
        "yarn.scheduler.capacity.maximum-applications": "10000",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.1",
        "yarn.scheduler.capacity.resource-calculator": "org.apache…DefaultResourceCalculator",
        f"{ROOT}.queues": "default,prod",
        f"{ROOT}.default.capacity": "40",
        f"{ROOT}.prod.capacity": "60",
        f"{ROOT}.prod.user-limit-factor": "1",
        f"{ROOT}.default.acl_submit_applications": "*",
        f"{ROOT}.default.acl_application_max_priority": "*",
        "yarn.scheduler.capacity.node-locality-delay": "40",
    }
    body = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in given.items()
    )
    path = write("capacity-scheduler.xml", f"<configuration>\n{body}</configuration>\n")
    configuration = load_with([path], [f"{ROOT}.prod.capacity=50", f"{ROOT}.default.capacity=50"])
    assert [queue.capacity for queue in configuration.queues()] == [100.0, 50.0, 50.0]
    assert configuration.settings(CapacitySchedulerSettings).maximum_am_resource_percent == 0.1
    [ignored] = configuration.warnings
    assert "ignored 2 properties" in ignored


@pytest.mark.parametrize(
    ("define", "message", "hint"),
    [
        (f"{ROOT}.prod.capacitty=1", "unknown property", f"did you mean {ROOT}.prod.capacity?"),
        (
            f"{ROOT}.prod.priority=1",
            "unknown property",
            "`yopp config show -a | grep yarn.scheduler.capacity.`",
        ),
        ("yarn.scheduler.capacity.node-locality-delay=1", "unknown property", "`yopp config"),
        (f"{ROOT}.pr od.capacity=1", "unknown property", ""),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest(
    problems_of: Problems, define: str, message: str, hint: str
) -> None:
    [problem] = problems_of(defines=[define])
    assert isinstance(problem, UnknownPropertyError)
    assert message in problem.message and problem.hint.startswith(hint)
    assert problem.because


def test_what_means_nothing_here_says_why(problems_of: Problems) -> None:
    [problem] = problems_of(defines=[f"{ROOT}.default.accessible-node-labels=x"])
    assert problem.because == (
        "YARN's property has no effect here: node labels do not divide capacity between queues"
    )


@pytest.mark.parametrize(
    ("defines", "says", "because"),
    [
        (
            ["queues=a,b", "a.capacity=60", "b.capacity=30"],
            "below root sum to 90 instead of 100",
            "60 (a) + 30 (b)",
        ),
        (["queues=a,b", "a.capacity=60"], "the queue root.b has no capacity", "each of several"),
        (["queues=a", "a.capacity=60"], "sum to 60", "60 (a)"),
        (["queues=a,a"], "it names a twice", "occurs once"),
        (["queues=a b"], '"a b" cannot be a queue\'s name', "letters"),
        (["prod.capacity=10"], "there is no queue root.prod", f"{ROOT}.queues does not name it"),
        (
            ["default.maximum-capacity=50"],
            "the maximum-capacity of root.default is less",
            "50 is less than 100",
        ),
        (["default.capacity=101"], "default.capacity = 101", "expected a number from 0 to 100, found 101"),
        (["default.capacity=[memory=1]"], "default.capacity = ", 'expected a number from 0 to 100, found "'),
        (["default.state=DRAINING"], "default.state = DRAINING", "expected one of RUNNING, STOPPED"),
        (["default.acl_submit_applications=ada x"], "names groups: x", "only users are supported"),
        (
            ["default.acl_application_max_priority=[group=a max_priority=1]"],
            "cannot be read",
            "not of the form user=",
        ),
        (
            ["default.acl_application_max_priority=[user=a max_priority=-1]"],
            "cannot be read",
            "not of the form user=",
        ),
        (["default.acl_application_max_priority=[user=a] most"], "cannot be read", "most is not of the form"),
    ],
)
def test_what_can_be_wrong_with_queues(
    problems_of: Problems, defines: list[str], says: str, because: str
) -> None:
    problem = problems_of(defines=["yarn.acl.enable=true", *(f"{ROOT}.{define}" for define in defines)])[0]
    assert isinstance(problem, InvalidPropertyError)
    assert says in problem.message and because in problem.because
    assert problem.message.startswith("-D: ")


def test_an_unknown_queue_is_told_with_the_nearest(problems_of: Problems) -> None:
    [problem] = problems_of(defines=[f"{ROOT}.defualt.state=RUNNING"])
    assert problem.hint == "did you mean root.default?"


LEFTOVERS = {
    f"{ROOT}.queues": "default,prod", f"{ROOT}.default.capacity": "40", f"{ROOT}.prod.capacity": "60",
    f"{ROOT}.unfunded.capacity": "50", f"{ROOT}.old.x.capacity": "[memory=1024,vcores=1]",
    f"{ROOT}.old.queues": "x", f"{ROOT}.ordering-policy": "priority-utilization",
    f"{ROOT}.default.accessible-node-labels.gpu.capacity": "100",
}  # fmt: skip


def test_leftovers_of_a_distribution_are_ignored_in_xml_with_a_warning_and_refused_elsewhere(
    load_with: Load, problems_of: Problems, write: Write
) -> None:
    """``root.unfunded`` is in most distributions' files, and 50 percent would be too much; YARN looks at none of it."""
    body = "".join(f"<property><name>{n}</name><value>{v}</value></property>\n" for n, v in LEFTOVERS.items())
    path = write("capacity-scheduler.xml", f"<configuration>\n{body}</configuration>\n")
    configuration = load_with([path])
    assert [queue.path for queue in configuration.queues()] == ["root", "root.default", "root.prod"]
    names = (
        f"{ROOT}.unfunded.capacity",
        f"{ROOT}.old.x.capacity",
        f"{ROOT}.old.queues",
        f"{ROOT}.ordering-policy",
        f"{ROOT}.default.accessible-node-labels.gpu.capacity",
    )
    assert len(configuration.warnings) == 5
    for warning, (place, name) in zip(
        configuration.warnings, zip((5, 6, 7, 8, 9), names, strict=True), strict=True
    ):
        assert warning.startswith(f"{path}:{place}: {name} is ignored: ")
    assert f"{ROOT}.queues does not name that queue" in configuration.warnings[0]
    assert "node labels do not divide capacity" in configuration.warnings[-1]
    toml = write("q.toml", "".join(f'"{name}" = "{value}"\n' for name, value in list(LEFTOVERS.items())[:4]))
    [problem] = problems_of([toml])
    assert "there is no queue root.unfunded" in problem.message
    [warning] = load_with(defines=[f"{ROOT}.default.acl_submit_applications=ada staff"]).warnings
    assert "yarn.acl.enable is false" in warning


def test_an_acl_that_is_not_enforced_is_told(load_with: Load) -> None:
    define = f"{ROOT}.default.acl_submit_applications=ada"
    [warning] = load_with(defines=[define]).warnings
    assert "yarn.acl.enable is false" in warning
    assert load_with(defines=[define, "yarn.acl.enable=true"]).warnings == ()


@pytest.mark.parametrize("text", ["g:staff:a", "ada:a", "u:ada", "u::a"])
def test_mappings_that_cannot_be_read(problems_of: Problems, text: str) -> None:
    [problem] = problems_of(defines=[f"yarn.scheduler.capacity.queue-mappings={text}"])
    assert "queue-mappings" in problem.message
    assert mappings_of("u:ada:a, u:%user:b") == ([("ada", "a"), ("%user", "b")], "")


@pytest.mark.parametrize("text", ["ada", "ada=0", "ada=-1", "=2", "ada=1e9"])
def test_weights_that_cannot_be_read(problems_of: Problems, text: str) -> None:
    [problem] = problems_of(defines=[f"yopp.resourcemanager.opportunistic-share.user-weights={text}"])
    assert "user-weights" in problem.message
    assert weights_of("ada=2,bob=0.5") == ({"ada": 2.0, "bob": 0.5}, "")


def test_config_show_has_them(capfd: pytest.CaptureFixture[str], write: Write) -> None:
    path = write("q.toml", TWO)
    assert run(["config", "show", "--json", "--conf", path, f"{ROOT}.prod"]) == 0
    shown = json.loads(capfd.readouterr().out)["properties"]
    assert shown[0] == {
        "name": f"{ROOT}.prod.capacity", "value": 70.0, "default": 100.0, "origin": f"{path}:5", "type": "float",
    }  # fmt: skip
    assert run(["config", "get", "--conf", path, f"{ROOT}.prod.state"]) == 0
    assert capfd.readouterr().out == "RUNNING\n"
    assert run(["config", "check", path]) == 0
