"""The model of a slot whose master hears late: what a queue at the node is good for (the idea of Mercury and Yaq).

A task of ``seconds`` ends; its node says so at its next heartbeat; the master hears it at its own next heartbeat, and
sends another one there and then. Meanwhile the slot runs what waits in its queue, or nothing. Pure.
"""

from __future__ import annotations

import functools
import heapq
import math

PHASES = 24
"""How many distances of the two clocks the mean is taken over."""
CYCLES = 60
"""Heartbeats of a master, of which the first half lets the slots settle."""
GOLDEN = (5**0.5 - 1) / 2
_LATE = 1e-9  # two clocks that tick at once: the one that hears comes after the one that tells


def phase_of(number: int) -> float:
    """How far the clock of this one of many masters is ahead, in periods: any number of them is spread evenly."""
    return ((number + 0.5) * GOLDEN) % 1.0


def waiting(seconds: float, node_beat: float, master_beat: float) -> float:
    """The share of time that a slot runs tasks that wait for two heartbeats each, half a period away on average."""
    return seconds / (seconds + node_beat / 2 + master_beat / 2)


@functools.cache
def utilisation(
    seconds: float, node_beat: float, master_beat: float, queue: int = 0, slots: int = 1
) -> float:
    """The share of time that slots run tasks, where each of as many masters keeps one and ``queue`` more at the node.

    The slots share the node's queue. The mean is taken over how far apart the clocks of node and masters are; a
    heartbeat of 0 is one that goes out when there is something to say.
    """
    if not node_beat or not master_beat:
        return 1.0 if node_beat == master_beat else waiting(seconds, node_beat, master_beat)
    offsets = [(number + 0.5) / PHASES * node_beat for number in range(PHASES)]
    return sum(_node(seconds, node_beat, master_beat, queue, slots, one) for one in offsets) / PHASES


def _node(
    seconds: float, node_beat: float, master_beat: float, queue: int, slots: int, offset: float
) -> float:
    """One node whose clock is ``offset`` behind; its masters' ticks in order of time."""
    turns = CYCLES * max(1, math.ceil(seconds / master_beat))
    ticks = sorted(
        (master_beat * (turn + phase_of(number)), number) for turn in range(turns) for number in range(slots)
    )
    free = [0.0] * slots
    heapq.heapify(free)
    ends: list[list[float]] = [[] for _ in range(slots)]  # of each master's tasks that it has not heard of
    begin, end, ran = ticks[-1][0] / 2, ticks[-1][0], 0.0
    for now, number in ticks:
        told = math.floor((now - offset) / node_beat + _LATE) * node_beat + offset
        ends[number] = [one for one in ends[number] if one > told + _LATE]
        while len(ends[number]) <= queue:
            started = max(now, heapq.heappop(free))
            heapq.heappush(free, started + seconds)
            ends[number].append(started + seconds)
            ran += max(0.0, min(started + seconds, end) - max(started, begin))
    return ran / (slots * (end - begin))
