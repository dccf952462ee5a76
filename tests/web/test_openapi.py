"""schemathesis reads the description that each daemon serves, and makes requests up from it, also changes: every answer
is one that the description knows, and none is an error of the server.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import checks, openapi
from schemathesis.specs.openapi import checks as openapi_checks

from yarnopp_cli.web import logs, mapreduce, nodemanager, queries, resourcemanager

from .conftest import WebCluster

CHECKED = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]
EXAMPLES = 3


@pytest.mark.live
@pytest.mark.parametrize("daemon", ["rm", "nm"])
def test_answers_are_those_of_the_description(web: WebCluster, daemon: str) -> None:
    site = web.rm if daemon == "rm" else web.nm
    job = web.yopp("run", "-q", "-d", "sleep", "300").stdout.strip()
    web.yopp("wait", job, "--for", "running")
    pi = web.yopp("pi", "2", "1000", "-q", "-d").stdout.strip()
    known = {
        "app": job, "attempt": "1", "node": next(iter(web.nodes)), "file": "stdout",
        "job": pi.replace("application", "job"), "container": web.yopp("ps", "-a", "-q").stdout.split()[0],
    }  # fmt: skip
    seen: set[tuple[str, int]] = set()
    described = openapi.from_url(f"{site.url}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    for operation in sorted(operations, key=lambda one: one.method != "get"):  # what ends the job comes last

        @seed(1)
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            mine = {**known, "app": pi} if case.path.startswith("/proxy") else known
            words = case.path_parameters
            if len("".join(map(str, words.values()))) % 3 < 2:  # else the words that were made up
                words.update({name: mine[name] for name in words if name in mine})
            if isinstance(case.body, dict) and "am-container-spec" in case.body:  # else it is refused
                case.body = {
                    "application-id": site("POST", f"{case.path}/new-application").json["application-id"],
                    "am-container-spec": {"commands": {"command": "true"}}, "resource": {"memory": 64, "vCores": 1},
                }  # fmt: skip
            answer = case.call(timeout=20)
            seen.add((case.method, answer.status_code))
            case.validate_response(answer, checks=CHECKED)

        ask()
    assert {("GET", 200), ("GET", 400), ("PUT", 400)} <= seen
    assert daemon == "nm" or {("PUT", 200), ("POST", 200), ("POST", 202), ("GET", 404)} <= seen
    assert web.yopp("status").returncode == 0
    for log in web.yopp.run_dir.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name


@pytest.mark.pure
def test_each_parameter_that_is_read_is_declared() -> None:
    """The names in the source of the handlers and those that they declare."""
    kinds = [resourcemanager.ClusterApi, nodemanager.NodeApi, mapreduce.MapReduceApi]
    members = [member for kind in kinds for member in vars(kind).values()]
    told = {name for one in members if (has := getattr(one, "declared", None)) for name in has.parameters}
    told |= set(logs.PARAMETERS)
    for module in (resourcemanager, nodemanager, mapreduce, logs, queries):
        read = re.findall(
            r'(?:query[.\w]*[(\[]|(?:number|numbers|names)\(request, )"(\w+)"', inspect.getsource(module)
        )
        assert set(read) - {"type"} <= told, module.__name__
