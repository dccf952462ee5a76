"""The environment that containers get."""

from __future__ import annotations

from executor.linux.environment import DEFAULT_PATH, OWNED, container_environment
from executor.records import ContainerSpec, Resource


def environment(
    spec_environment: dict[str, str],
    inherited: dict[str, str],
    user: str = "",
    own_account: bool = False,
    account: bool = False,
) -> dict[str, str]:
    return container_environment(
        ContainerSpec(
            "c1", ("true",), Resource(), environment=spec_environment, user=user, own_account=own_account
        ),
        node_environment={"NM_HOST": "h", "NM_PORT": "1", "NM_HTTP_PORT": "2"},
        inherited=inherited,
        private_directory="/var/c1",
        working_directory="/elsewhere",
        log_directory="/logs/c1",
        user="daemon",
        home="/home/daemon",
        account=account,
    )


YARNS = {
    "CONTAINER_ID": "c1",
    "NM_HOST": "h",
    "NM_PORT": "1",
    "NM_HTTP_PORT": "2",
    "LOCAL_DIRS": "/var/c1",
    "LOG_DIRS": "/logs/c1",
    "USER": "daemon",
    "LOGNAME": "daemon",
    "HOME": "/home/daemon",
    "PWD": "/elsewhere",
}


def test_yarns_variables_and_nothing_of_the_daemon() -> None:
    assert environment({}, {"SECRET": "x", "LD_PRELOAD": "y"}) == {**YARNS, "PATH": DEFAULT_PATH}


def test_the_whitelist_comes_from_the_daemon_unless_the_container_brings_it() -> None:
    daemon = {"PATH": "/p", "LANG": "C", "TZ": "UTC", "JAVA_HOME": "/j", "HADOOP_HOME": "/h"}
    assert environment({}, daemon) == {**YARNS, **daemon}
    assert environment({"PATH": "/mine", "X": "1"}, daemon) == {**YARNS, **daemon, "PATH": "/mine", "X": "1"}


def test_yarns_variables_cannot_be_forged() -> None:
    assert environment(dict.fromkeys(YARNS, "forged"), {}) == {**YARNS, "PATH": DEFAULT_PATH}


def test_the_user_of_the_container() -> None:
    found = environment({}, {}, user="ann")
    assert (found["USER"], found["LOGNAME"]) == ("ann", "ann")


def test_a_callers_whole_environment_is_all_but_what_the_node_says_of_the_container() -> None:
    forged = dict.fromkeys(YARNS, "mine")
    daemon = {"PATH": "/p", "LANG": "C", "TZ": "UTC", "JAVA_HOME": "/j", "HADOOP_HOME": "/h"}
    nodes = {name: YARNS[name] for name in OWNED}
    assert environment(forged, daemon, own_account=True) == {**forged, **nodes}
    assert environment({}, daemon, own_account=True) == nodes
    # as another user than the caller
    assert environment(forged, daemon, own_account=True, account=True) == {**YARNS, "PATH": DEFAULT_PATH}
    assert environment({}, daemon, own_account=True, account=True) == {**YARNS, "PATH": DEFAULT_PATH}
