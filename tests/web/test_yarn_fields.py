"""Our REST documents, refusals, counters and columns against those of a real YARN (``scripts/yarn-fields``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import wait_until

from . import fields
from .conftest import WebCluster

pytestmark = pytest.mark.live
YARN: dict[str, Any] = json.loads((Path(__file__).parent / "yarn_fields.json").read_text())

NOT_HERE = {
    # -- fields: the end of a path, and why it is not ours
    "nothing creates queues by itself here": (
        "autoCreationEligibility", "autoQueueLeafTemplateProperties", "autoQueueParentTemplateProperties",
        "autoQueueTemplateProperties", "creationMethod", "leafQueueTemplate",
    ),
    "a queue's capacity is a percentage here": (
        "normalizedWeight", "weight", "mode", "queueCapacityVectorInfo", "configuredMaxResource",
        "configuredMinResource", "effectiveMaxResource", "effectiveMinResource", "queueType",
    ),
    "Hadoop's scheduler tells of its own runs": ("health",),
    "masters are not limited by partitions, of which there is one": (
        "maxAMLimitPercentage", "configuredMaxAMResourceLimit", "maxParallelApps", "hideReservationQueues",
        "amLimit", "userAmLimit", "resourceUsagesByPartition[].pending",
    ),
    "a user of a queue is shown with what is allocated": (
        "AMResourceUsed", "isActive", "numPendingApplications", "users.user[].resources",
        "users.user[].resourcesUsed.resourceInformations", "userResourceLimit", "userWeight",
    ),
    "Hadoop repeats the key `entry` in one object, which JSON readers lose": (
        "resourceSecondsMap.entry", "resourceSecondsMap.entry.key", "resourceSecondsMap.entry.value",
    ),
}  # fmt: skip
OTHER_DOCUMENT = {
    "appattempt": "the list's object below `appAttempt`; Hadoop's is flat and of another class, with other names",
}
OTHER_TYPE = {
    "no apps: apps": "null, as Hadoop's own documentation has it; 3.4.2 gives {}",
    "apps: apps.app[].resourceInfo": "null of an ended application as there; none of those had ended in the sample",
}
OTHER_STATUS = {
    "method wrong": (405, "HTTP's own; Hadoop's error handler makes it 503"),
    "queue unknown": (404, "Hadoop fails in the middle, and says 503 without a reason"),
    "NM log unknown": (404, "Hadoop's error handler makes it 503"),
    "priority ended": (400, "Hadoop says 200, and nothing was changed"),
    "node id bad": (404, "no node has it, whatever its form"),
    "NM auxiliaryservices off": (200, "there are none, and that is said"),
}


def excused(path: str) -> bool:
    return any(
        path.endswith(f".{end}") or f".{end}." in path or f".{end}[" in path
        for ends in NOT_HERE.values()
        for end in ends
    )


def test_ours_has_what_yarns_has(web: WebCluster) -> None:
    yopp, rm, nm = web.yopp, web.rm, web.nm
    yarns_way = ("run", "-Dyopp.resourcemanager.hosted-masters=false", "-q", "-d")
    ended = yopp(*yarns_way, "true").stdout.split()[-1]
    yopp("wait", ended)
    live = yopp(*yarns_way, "-n", "4", "-O", "--memory", "64", "sleep", "600").stdout.split()[-1]
    wait_until(lambda: rm.get("/ws/v1/cluster/nodes").json["nodes"]["node"][0]["numQueuedContainers"])
    container = wait_until(lambda: yopp.containers("--app", live, "--type", "O", "--state", "RUNNING"))[0]
    yopp("app", "lifetime", live, "1h")
    [attempt] = yopp.json("attempt", "list", live)["appAttempts"]["appAttempt"]
    places = {
        "live": live,
        "ended": ended,
        "attempt": attempt["appAttemptId"],
        "node": next(iter(web.nodes)),
        "container": container["id"],
    }
    ours = fields.documents(rm.url, nm.url, places)
    wrong = []
    for name, theirs in YARN["documents"].items():
        for path, kind in theirs.items() if name not in OTHER_DOCUMENT else ():
            mine = ours[name].get(path)
            if mine != kind and not excused(path) and f"{name}: {path}" not in OTHER_TYPE:
                wrong.append(f"{name}: {path} is {mine}, not {kind}")
    assert not wrong, "\n".join(wrong)

    refused = fields.refusals(rm.url, nm.url, places)
    for name, facts in YARN["refusals"].items():
        mine, status = refused[name], OTHER_STATUS.get(name, (facts["status"], ""))[0]
        assert mine["status"] == status, (name, facts, mine)
        if (
            facts.get("exception") in ("NotFoundException", "BadRequestException")
            and name not in OTHER_STATUS
        ):
            named = {key: mine[key] for key in ("exception", "javaClassName")}
            assert named == {key: facts[key] for key in named}, name

    beans = fields.beans(rm.url) | fields.beans(nm.url)
    name = "Hadoop:service=ResourceManager,name=OpportunisticSchedulerMetrics"
    assert {key for key in YARN["jmx"][name] if not key.startswith("tag.")} == {
        key for key in beans[name] if not key.startswith("tag.")
    }
    known = YARN["jmx"]["Hadoop:service=NodeManager,name=NodeManagerMetrics"]
    opportunistic = {key for key in known if "Opportunistic" in key}
    assert opportunistic and opportunistic <= set(beans["Hadoop:service=NodeManager,name=NodeManagerMetrics"])
    # Its columns in its order; ours has two totals between them
    titles = fields.titles(rm.url)
    assert [one for one in titles if one in YARN["titles of nodes"]] == YARN["titles of nodes"]
    assert set(titles) - set(YARN["titles of nodes"]) == {"Mem Total", "VCores Total"}
