"""Live clusters whose REST APIs and pages are on free ports, and a client of ours that shows everything."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.live.conftest import Yopp, a_yopp, empty, place, yopp

__all__ = ["place", "yopp"]


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def exception(self) -> str:
        """The name in a RemoteException's body."""
        return str(self.json["RemoteException"]["exception"])


class Site:
    """One web server, by its address."""

    def __init__(self, address: str, link: str = "") -> None:
        self.address = address
        self.link = link.rstrip("/")
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        raw: bool = False,
    ) -> Answer:
        """One request. ``body`` goes as JSON unless it is ``raw``."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            sent = body if raw or body is None else json.dumps(body).encode()
            given = {"Content-Type": "application/json"} if sent is not None else {}
            connection.request(method, path, sent, {**given, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})


@dataclass
class WebCluster:
    """A cluster, its RM's site and its nodes' sites by node id."""

    yopp: Yopp
    rm: Site
    nodes: dict[str, Site]

    @property
    def nm(self) -> Site:
        return next(iter(self.nodes.values()))


def started(yopp: Yopp, *arguments: str) -> WebCluster:
    """``yopp up`` with the REST APIs on free ports."""
    info = yopp.json("up", "--ports", "auto", *arguments)["clusterInfo"]["yopp"]
    return WebCluster(
        yopp,
        Site(info["rm"]["http"], info["rm"]["link"]),
        {one["node"]: Site(one["http"], one["link"]) for one in info["nms"] if one["http"]},
    )


@pytest.fixture
def web(yopp: Yopp) -> Iterator[WebCluster]:
    """One node of 2 vcores and 1024 MB."""
    yield started(yopp, "--vcores", "2", "--memory", "1024")


@pytest.fixture(scope="module")
def _shared() -> Iterator[WebCluster]:
    with a_yopp(Yopp) as program:
        yield started(program, "--vcores", "2", "--memory", "1024")


@pytest.fixture
def shared(_shared: WebCluster) -> Iterator[WebCluster]:
    """The same for all tests of a module that ask for it: nothing runs there, but applications have ended."""
    yield _shared
    empty(_shared.yopp)
