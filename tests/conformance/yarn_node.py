"""A node under YARN's own rules, as ``configs/yarn-rules.toml`` sets them, for the cases of Hadoop's tests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from executor.settings import ExecutorSettings
from tests.executor.core.world import World
from yarnopp_cli.settings.loading import load

RULES = Path(__file__).resolve().parents[2] / "configs" / "yarn-rules.toml"

FULL = "Opportunistic container queue is full."
KILLED = "Container Killed to make room for Guaranteed Container."
PAUSED = "Container Paused to make room for Guaranteed Container"
SHED = "Container De-queued to meet NM queuing limits."


def yarn_node(memory: int = 2048, vcores: int = 4, **settings: Any) -> World:
    """The node of ``TestContainerSchedulerQueuing``, unless told otherwise: 2048 MB, 4 vcores, queue of 10."""
    configuration = load([str(RULES)], (), environ={"HOME": "/nonexistent"}, state_dir="/nonexistent")
    rules = asdict(configuration.settings(ExecutorSettings))
    return World(memory=memory, vcores=vcores, **{**rules, **settings})
