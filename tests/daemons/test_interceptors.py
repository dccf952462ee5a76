"""The interceptor chain, from what the property names."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnopp_cli.daemons.amrmproxy import load_chain
from yarnopp_cli.errors import InvalidPropertyError
from yarnopp_cli.nodemanager.proxy.distributed_scheduler import DistributedScheduler
from yarnopp_cli.nodemanager.proxy.interceptors import DefaultRequestInterceptor, ThrottleInterceptor

DEFAULT = "DefaultRequestInterceptor"


def test_the_default_is_a_chain_of_one() -> None:
    assert load_chain(DEFAULT, distributed=False) == (DefaultRequestInterceptor,)


def test_the_distributed_scheduler_stands_before_the_last_unless_it_is_named() -> None:
    throttle = f"ThrottleInterceptor, {DEFAULT}"
    assert load_chain(throttle, distributed=True) == (
        ThrottleInterceptor,
        DistributedScheduler,
        DefaultRequestInterceptor,
    )
    named = f"DistributedScheduler,ThrottleInterceptor,{DEFAULT}"
    assert load_chain(named, distributed=True) == (
        DistributedScheduler,
        ThrottleInterceptor,
        DefaultRequestInterceptor,
    )


def test_hadoops_own_names_are_known() -> None:
    name = "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.DefaultRequestInterceptor"
    assert load_chain(name, distributed=False) == (DefaultRequestInterceptor,)


def test_one_of_ones_own_is_an_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours_for_a_test.py").write_text(
        "from yarnopp_cli.nodemanager.proxy.interceptors import RequestInterceptor\n"
        "class Mine(RequestInterceptor):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine, _ = load_chain(f"ours_for_a_test.Mine,{DEFAULT}", distributed=False)
    assert getattr(mine, "__name__", "") == "Mine"


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ("", "is not a chain of interceptors"),
        ("ThrottleInterceptor", "is not a chain of interceptors"),
        (f"{DEFAULT},ThrottleInterceptor", "is not a chain of interceptors"),
        (f"{DEFAULT},{DEFAULT}", "twice"),
        (f"DistributedScheduler,{DEFAULT}", "names DistributedScheduler"),
        (f"no.such.module.Thing,{DEFAULT}", "no.such.module.Thing, which is not an interceptor"),
        (f"json.JSONDecoder,{DEFAULT}", "json.JSONDecoder, which is not an interceptor"),
        (f"json.nothing,{DEFAULT}", "json.nothing, which is not an interceptor"),
        (f"Trottle,{DEFAULT}", "Trottle, which is not an interceptor"),
    ],
)
def test_what_makes_no_chain_is_refused(names: str, part: str) -> None:
    with pytest.raises(InvalidPropertyError, match=part):
        load_chain(names, distributed=False)
