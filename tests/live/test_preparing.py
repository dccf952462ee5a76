"""Containers that a real node has made ready while they wait: its death starts none, loses none, leaves none."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Yopp, wait_until
from .test_lifecycle import daemons, kill

pytestmark = pytest.mark.live

SCRIPT = 'echo "$CONTAINER_ID" >>began; until [ -e go ]; do sleep 0.1; done'


def ready(yopp: Yopp) -> list[Path]:
    """The private directories of this cluster's containers that have not begun."""
    begun = began(yopp)
    return [one for one in yopp.run_dir.glob("state/nm-local-dir/*/container_*") if one.name not in begun]


def began(yopp: Yopp) -> list[str]:
    file = Path(yopp.home, "began")
    return file.read_text().split() if file.exists() else []


def fill(yopp: Yopp) -> None:
    """A job of six: two run, four wait, and are made ready."""
    yopp("up", "--vcores", "2", "--memory", "1024", "-D", "yopp.nodemanager.pooled-groups=0")
    yopp.start("run", "-O", "-n", "6", "--memory", "100", "sh", "-c", SCRIPT)
    wait_until(lambda: len(began(yopp)) == 2, what="two run")
    wait_until(lambda: len(ready(yopp)) == 4, what="four are made ready")
    queued = wait_until(
        lambda: len(found := yopp.containers("--state", "QUEUED")) == 4 and found, what="the RM knows of them"
    )
    assert not any(item["yopp"]["pid"] for item in queued), "they have not begun"


def test_a_node_that_dies_starts_none_and_its_next_life_each_once(yopp: Yopp) -> None:
    fill(yopp)
    kill(daemons(yopp)["nms"][0]["pid"])
    assert len(began(yopp)) == 2
    yopp("up")
    Path(yopp.home, "go").touch()
    out, err = yopp.started[0].communicate(timeout=60)
    assert yopp.started[0].returncode == 0, (out, err)
    assert len(began(yopp)) == len(set(began(yopp))) == 6


def test_down_leaves_nothing_of_those_that_were_ready(yopp: Yopp) -> None:
    fill(yopp)
    seen = daemons(yopp)
    kill(seen["rm"]["pid"])
    kill(seen["nms"][0]["pid"])
    yopp.started[0].kill()
    yopp.started[0].communicate()
    yopp("down", "-y")
    assert not yopp.leftovers() and len(began(yopp)) == 2


def test_an_orderly_end_leaves_nothing_of_them_either(yopp: Yopp) -> None:
    fill(yopp)
    yopp("down", "-y")
    yopp.started[0].communicate(timeout=30)
    assert not yopp.leftovers() and len(began(yopp)) == 2
    assert not list(yopp.run_dir.glob("state/nm-local-dir/*/*")), "no directory of a container"
    assert len(list(yopp.run_dir.glob("state/logs/*/*"))) == 2, "logs of those that ran, and no empty ones"
