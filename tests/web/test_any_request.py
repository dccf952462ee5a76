"""Requests that hypothesis makes up for every route of the web servers: none is answered with an error of the server's
own, and none leaves a traceback in a log.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yarnopp_cli.web import instruments, mapreduce, nodemanager, resourcemanager
from yarnopp_cli.web.pages import cluster as cluster_pages
from yarnopp_cli.web.pages import node as node_pages

from .conftest import Site, WebCluster

pytestmark = pytest.mark.live

EXAMPLES = int(os.environ.get("YOPP_REQUESTS", "200"))
PARAMETERS = sorted(
    {
        name
        for module in (instruments, mapreduce, nodemanager, resourcemanager, resourcemanager.queries)
        for name in re.findall(r'(?:query[.\w]*[(\[]|request, )"(\w+)"', inspect.getsource(module))
    }
)
"""The names of all query parameters."""


def routes(*modules: object) -> list[tuple[str, str]]:
    """The methods and paths that the classes of these modules declare."""
    kinds = [kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)]
    found = {one for kind in kinds for member in vars(kind).values() for one in getattr(member, "routes", ())}
    return sorted(found)


OF_RM = routes(resourcemanager, cluster_pages, instruments, mapreduce)
OF_RM += [("GET", resourcemanager.APP + path) for path in resourcemanager.TOLD]
OF_NM = routes(nodemanager, node_pages, instruments)

WORDS = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.sampled_from(
        ["RUNNING", "FINISHED", "KILLED", "default", "root", "capability", "all", "", "-1", "1e9", "true"]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
KEYS = [
    "state", "queue", "priority", "timeout", "type", "expiryTime", "diagnostics", "application-id", "application-name",
    "application-type", "am-container-spec", "unmanaged-AM", "max-app-attempts", "resource", "memory", "vCores",
    "resourceOption", "overCommitTimeout", "keep-containers-across-application-attempts", "application-tags", "yopp",
]  # fmt: skip
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.dictionaries(st.sampled_from(KEYS), VALUES | WORDS, max_size=4).map(
        lambda one: json.dumps(one).encode()
    ),
    st.sampled_from(KEYS).flatmap(lambda key: WORDS.map(lambda word: json.dumps({key: word}).encode())),
)


@pytest.mark.parametrize("daemon", ["rm", "nm"])
def test_no_request_is_an_error_of_the_server(web: WebCluster, daemon: str) -> None:
    site: Site = web.rm if daemon == "rm" else web.nm
    jobs = [web.yopp("run", "-q", "-d", "true").stdout.strip() for _ in range(2)]
    web.yopp("wait", *jobs)
    waiting = web.yopp("run", "-q", "-d", "--begin", "+10h", "true").stdout.strip()
    containers = web.yopp("ps", "-a", "-q").stdout.split()
    node = next(iter(web.nodes))
    known = st.sampled_from(
        [*jobs, waiting, *containers, node, jobs[0].replace("application", "job"), "stdout", "root"]
    )

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize="YOPP_REQUESTS" not in os.environ,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        method, path = data.draw(st.sampled_from(OF_RM if daemon == "rm" else OF_NM))
        while match := re.search(r"\{\w+(:[^{}]*)?\}", path):
            word = data.draw(known | WORDS.filter(bool))
            path = (
                path[: match.start()] + quote(word.encode("utf-8", "replace"), safe="") + path[match.end() :]
            )
        if asked := data.draw(st.dictionaries(st.sampled_from(PARAMETERS), WORDS, max_size=3)):
            path += "?" + urlencode({name: word.encode("utf-8", "replace") for name, word in asked.items()})
        body = None if method == "GET" else data.draw(BODIES)
        headers = {
            "Accept": data.draw(st.sampled_from(["application/json", "application/xml", "*/*", "text/html"]))
        }
        answer = site(method, path, body, headers, raw=True)
        assert answer.status < 500, (method, path, body, answer.body[:500])
        if answer.headers.get("content-type", "").startswith("application/json") and answer.body:
            assert isinstance(answer.json, dict)

    ask()
    assert web.yopp("status").returncode == 0
    for log in web.yopp.run_dir.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name


@pytest.mark.parametrize("daemon", ["rm", "nm"])
def test_a_slash_at_the_end_of_an_address_leads_to_the_same(web: WebCluster, daemon: str) -> None:
    site, known = (web.rm, OF_RM) if daemon == "rm" else (web.nm, OF_NM)
    pages = [path for method, path in known if method == "GET" and "{" not in path and len(path) > 1]
    assert len(pages) > 8
    for path in pages:
        answer = site("GET", f"{path.rstrip('/')}/?limit=7&x=1")
        there = answer.headers.get("location", "").partition("?")
        if answer.status == 307:
            assert there == (path.rstrip("/"), "?", "limit=7&x=1")
            answer = site("GET", path.rstrip("/"))
        assert answer.status in (200, 302, 400), (path, answer)
    for path in ("//elsewhere.example/", "/%2F/", "///", "/nothing/here/"):
        answer = site("GET", path)
        assert answer.status == 404 or answer.headers["location"].startswith(("/n", "/e", "/%", "/c")), answer
