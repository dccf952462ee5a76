"""The environment that containers get."""

from __future__ import annotations

from executor.linux.environment import ACCOUNT, DEFAULT_PATH, OWNED, container_environment
from executor.records import ContainerSpec, Resource


def environment(
    spec_environment: dict[str, str], inherited: dict[str, str], user: str = "", own_account: bool = False
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


def test_a_callers_whole_environment_says_whose_home_it_is() -> None:
    forged = dict.fromkeys(YARNS, "mine")
    kept = dict.fromkeys(ACCOUNT, "mine")
    assert environment(forged, {}, own_account=True) == {**YARNS, **kept, "PATH": DEFAULT_PATH}
    assert environment({}, {}, own_account=True) == environment({}, {})
    assert set(YARNS) == {*ACCOUNT, *OWNED}
