"""What is allocated and what fits; waiting times from durations."""

from __future__ import annotations

import pytest

from executor.core.estimates import REMEMBERED, RecentMean
from executor.core.tracker import ResourceUtilizationTracker
from executor.records import Resource

from .world import G, O


def test_d1_has_resources_available() -> None:
    """Conformance D1: two of 512 MB and 4 vcores fit on 1024 MB and 8 vcores, a third does not."""
    tracker = ResourceUtilizationTracker(Resource(1024, 8))
    seen = []
    for _ in range(3):
        seen.append(tracker.fits(Resource(512, 4)))
        if seen[-1]:
            tracker.acquire(O, Resource(512, 4))
    assert seen == [True, True, False]


@pytest.mark.parametrize("asked", [Resource(513, 1), Resource(1, 5)])
def test_each_dimension_counts(asked: Resource) -> None:
    tracker = ResourceUtilizationTracker(Resource(1024, 8))
    tracker.acquire(G, Resource(512, 4))
    assert not tracker.fits(asked)


def test_types_are_counted_apart_and_transferred() -> None:
    tracker = ResourceUtilizationTracker(Resource(1024, 8))
    tracker.acquire(O, Resource(512, 4))
    tracker.transfer(Resource(512, 4), O, G)
    assert tracker.allocated_to(O) == Resource()
    assert tracker.allocated_to(G) == tracker.allocated == Resource(512, 4)
    tracker.release(G, Resource(0, 4))
    assert tracker.available == Resource(512, 8)


def test_nothing_of_an_overdrawn_dimension_fits() -> None:
    tracker = ResourceUtilizationTracker(Resource(1024, 8))
    tracker.acquire(G, Resource(2048, 1))
    assert tracker.unallocated == Resource(-1024, 7)
    assert tracker.available == Resource(0, 7)
    assert tracker.fits(Resource(0, 7))
    assert not tracker.fits(Resource(1, 1))


def test_mean_is_of_the_last_durations() -> None:
    durations = RecentMean()
    assert durations.mean is None
    for _ in range(REMEMBERED):
        durations.add(1000.0)
    for _ in range(REMEMBERED):
        durations.add(4.0)
    assert durations.mean == pytest.approx(4.0)
