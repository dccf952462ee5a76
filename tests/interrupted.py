"""Tests that are interrupted: ``test_ending.py`` runs them in a pytest of their own, by name. They never pass.

Each writes what it comes to into the file that ``YOPP_TEST_STORY`` names, a line at a time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Yopp, cluster, yopp

__all__ = ["cluster", "yopp"]


def tell(line: str) -> None:
    """The story's next line, whole at once."""
    with Path(os.environ["YOPP_TEST_STORY"]).open("a") as story:
        story.write(f"{line}\n")


def wait_for_the_end() -> None:
    tell("waits")
    time.sleep(600)  # pytest's time limit ends it before


@pytest.fixture
def told() -> Iterator[None]:
    """A fixture that tells whether it was set up and torn down."""
    tell("set up")
    yield
    tell("torn down")


@pytest.fixture
def disturbed_setup(told: None) -> Iterator[None]:
    """SIGTERM comes while this is set up: it still is, and is torn down."""
    os.kill(os.getpid(), signal.SIGTERM)
    tell("inner set up")
    yield
    tell("inner torn down")


@pytest.fixture
def disturbed_teardown(told: None) -> Iterator[None]:
    """SIGTERM comes while this is torn down."""
    yield
    os.kill(os.getpid(), signal.SIGTERM)
    tell("inner torn down")


def test_setup(disturbed_setup: None) -> None:
    tell("runs")


def test_teardown(disturbed_teardown: None) -> None:
    tell("runs")


def test_fork(told: None) -> None:
    """A child that is forked, and executes nothing, dies of SIGTERM itself; the run goes on."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(there, b"1")  # before, Python forgets signals
        while True:
            signal.pause()
    os.read(here, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    os.close(here)
    os.close(there)
    tell("runs")


@pytest.mark.parametrize("number", [1, 2])
def test_cluster(cluster: Yopp, number: int) -> None:
    """A cluster with a container that runs and one that waits."""
    cluster("run", "--detach", "-n", "3", "--vcores", "1", "sleep", "600")
    cluster("wait", "--for", "RUNNING", "last")
    tell(f"home {cluster.home}")
    wait_for_the_end()
