"""The shape of REST documents: which fields there are, of which JSON type. For a real YARN cluster and for ours."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

CLUSTER, NODE = "/ws/v1/cluster", "/ws/v1/node"
DOCUMENTS = {
    "info": f"{CLUSTER}/info",
    "metrics": f"{CLUSTER}/metrics",
    "scheduler": f"{CLUSTER}/scheduler",
    "apps": f"{CLUSTER}/apps",
    "live app": f"{CLUSTER}/apps/{{live}}",
    "ended app": f"{CLUSTER}/apps/{{ended}}",
    "appattempts": f"{CLUSTER}/apps/{{live}}/appattempts",
    "appattempt": f"{CLUSTER}/apps/{{live}}/appattempts/{{attempt}}",
    "containers": f"{CLUSTER}/apps/{{live}}/appattempts/{{attempt}}/containers",
    "state": f"{CLUSTER}/apps/{{live}}/state",
    "priority": f"{CLUSTER}/apps/{{live}}/priority",
    "queue": f"{CLUSTER}/apps/{{live}}/queue",
    "timeouts": f"{CLUSTER}/apps/{{live}}/timeouts",
    "timeout": f"{CLUSTER}/apps/{{live}}/timeouts/LIFETIME",
    "appstatistics": f"{CLUSTER}/appstatistics",
    "nodes": f"{CLUSTER}/nodes",
    "node": f"{CLUSTER}/nodes/{{node}}",
    "no apps": f"{CLUSTER}/apps?user=nobody-at-all",
    "NM info": f"{NODE}/info",
    "NM apps": f"{NODE}/apps",
    "NM app": f"{NODE}/apps/{{live}}",
    "NM containers": f"{NODE}/containers",
    "NM container": f"{NODE}/containers/{{container}}",
    "NM logs": f"{NODE}/containers/{{container}}/logs",
}
"""Asked of the ResourceManager, or of the node of ``{container}``."""
REFUSALS: dict[str, tuple[str, str, Any]] = {
    "app unknown": ("GET", f"{CLUSTER}/apps/application_1_0001", None),
    "app id bad": ("GET", f"{CLUSTER}/apps/nonsense", None),
    "app state unknown": ("GET", f"{CLUSTER}/apps/application_1_0001/state", None),
    "appattempts unknown": ("GET", f"{CLUSTER}/apps/application_1_0001/appattempts", None),
    "appattempt unknown": ("GET", f"{CLUSTER}/apps/{{live}}/appattempts/appattempt_1_0001_000001", None),
    "appattempt id bad": ("GET", f"{CLUSTER}/apps/{{live}}/appattempts/nonsense", None),
    "apps state bad": ("GET", f"{CLUSTER}/apps?states=NONSENSE", None),
    "apps limit bad": ("GET", f"{CLUSTER}/apps?limit=-1", None),
    "apps limit word": ("GET", f"{CLUSTER}/apps?limit=x", None),
    "apps time bad": ("GET", f"{CLUSTER}/apps?startedTimeBegin=x", None),
    "node unknown": ("GET", f"{CLUSTER}/nodes/nowhere:1", None),
    "node id bad": ("GET", f"{CLUSTER}/nodes/nonsense", None),
    "nodes state bad": ("GET", f"{CLUSTER}/nodes?states=NONSENSE", None),
    "path unknown": ("GET", f"{CLUSTER}/nonsense", None),
    "method wrong": ("DELETE", f"{CLUSTER}/info", None),
    "JSON bad": ("PUT", f"{CLUSTER}/apps/{{live}}/state", b"{nonsense"),
    "state bad": ("PUT", f"{CLUSTER}/apps/{{live}}/state", {"state": "NONSENSE"}),
    "state not KILLED": ("PUT", f"{CLUSTER}/apps/{{live}}/state", {"state": "RUNNING"}),
    "kill unknown": ("PUT", f"{CLUSTER}/apps/application_1_0001/state", {"state": "KILLED"}),
    "queue unknown": ("PUT", f"{CLUSTER}/apps/{{live}}/queue", {"queue": "nonsense"}),
    "move ended": ("PUT", f"{CLUSTER}/apps/{{ended}}/queue", {"queue": "default"}),
    "priority ended": ("PUT", f"{CLUSTER}/apps/{{ended}}/priority", {"priority": 1}),
    "submit empty": ("POST", f"{CLUSTER}/apps", {}),
    "submit id bad": ("POST", f"{CLUSTER}/apps", {"application-id": "nonsense"}),
    "signal unknown": ("POST", f"{CLUSTER}/containers/container_1_0001_01_000001/signal/KILL", None),
    "signal bad": ("POST", f"{CLUSTER}/containers/{{container}}/signal/NONSENSE", None),
    "NM app unknown": ("GET", f"{NODE}/apps/application_1_0001", None),
    "NM app id bad": ("GET", f"{NODE}/apps/nonsense", None),
    "NM apps state bad": ("GET", f"{NODE}/apps?state=NONSENSE", None),
    "NM container unknown": ("GET", f"{NODE}/containers/container_1_0001_01_000001", None),
    "NM container id bad": ("GET", f"{NODE}/containers/nonsense", None),
    "NM auxiliaryservices off": ("GET", f"{NODE}/auxiliaryservices", None),
    "NM log unknown": ("GET", f"{NODE}/containers/{{container}}/logs/nonsense", None),
}


def shape(value: Any, at: str = "") -> dict[str, str]:
    """Each field's path (``apps.app[].id``) and JSON types ("number", "string|null")."""
    found: dict[str, set[str]] = {}

    def walk(one: Any, path: str) -> None:
        if isinstance(one, dict):
            found.setdefault(path, set()).add("object")
            for key, inner in one.items():
                walk(inner, f"{path}.{key}" if path else key)
        elif isinstance(one, list):
            found.setdefault(path, set()).add("array")
            for inner in one:
                walk(inner, f"{path}[]")
        else:
            found.setdefault(path, set()).add(_NAMES[type(one)])

    walk(value, at)
    found.pop("", None)
    return {path: "|".join(sorted(types)) for path, types in sorted(found.items())}


_NAMES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def request(
    base: str, method: str, path: str, body: Any = None, accept: str = "application/json"
) -> tuple[int, dict[str, str], bytes]:
    """One call: status, headers in lower case, body."""
    address = urllib.parse.urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": accept} | ({"Content-Type": "application/json"} if sent is not None else {})
        mark = "&" if "?" in path else "?"
        connection.request(method, path if not sent else f"{path}{mark}user.name={USER}", sent, headers)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


USER = "root"


def documents(rm: str, nm: str, places: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The shape of each document, of a cluster where these applications and containers are."""
    found = {}
    for name, path in DOCUMENTS.items():
        status, _, body = request(nm if name.startswith("NM") else rm, "GET", path.format(**places))
        assert status == 200, (name, status, body[:300])
        found[name] = shape(json.loads(body))
    return found


def refusals(rm: str, nm: str, places: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What is said to calls that make no sense: the status, its type, the exception's two names."""
    found = {}
    for name, (method, path, sent) in REFUSALS.items():
        base = nm if name.startswith("NM") else rm
        status, headers, body = request(base, method, path.format(**places), sent)
        kind = headers.get("content-type", "").replace(" ", "").lower()
        facts: dict[str, Any] = {"status": status, "type": kind.partition(";")[0]}
        if kind.startswith("application/json"):
            try:
                document = json.loads(body)
            except ValueError:
                document = {}
                facts["text"] = body.decode()
            if "RemoteException" in document:
                facts |= {key: document["RemoteException"].get(key) for key in ("exception", "javaClassName")}
                facts["message"] = document["RemoteException"].get("message")
        found[name] = facts
    return found


def beans(base: str) -> dict[str, dict[str, str]]:
    """The names of ``/jmx`` of YARN's own beans, and the counters of each."""
    document = json.loads(request(base, "GET", "/jmx?qry=Hadoop:*")[2])
    return {one["name"]: dict(sorted(shape(one).items())) for one in document["beans"]}


def titles(rm: str) -> list[str]:
    """The columns' titles of ``/cluster/nodes``."""
    page = request(rm, "GET", "/cluster/nodes", accept="text/html")[2].decode()
    table = page[page.index('id="nodes"') if 'id="nodes"' in page else page.index("<table") :]
    heads = re.findall(
        r"<th\b[^>]*>(.*?)(?=<th\b|</t[hr]>|</thead>)", table.partition("<tbody")[0], re.DOTALL
    )
    return [" ".join(re.sub(r"<[^>]*>", " ", one).split()) for one in heads]
