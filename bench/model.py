"""A model of a slot whose master learns late that a task has ended: the benefit of a queue at the node (the
idea of Mercury and Yaq).

A task of ``seconds`` ends; its node reports that at its next heartbeat; the master learns it at its own next
heartbeat, and sends another task at once. Meanwhile the slot runs the tasks in its queue, or nothing. Pure.
"""

from __future__ import annotations

import functools
import heapq
import math

PHASES = 24
"""How many offsets between the two clocks the mean is taken over."""
CYCLES = 60
"""The heartbeats of a master that are simulated; during the first half, the slots settle."""
GOLDEN = (5**0.5 - 1) / 2
_LATE = 1e-9  # if both clocks tick at once, the listener comes after the reporter


def phase_of(number: int) -> float:
    """How far the clock of this one of many masters is ahead, in periods: spread evenly for any number of
    masters."""
    return ((number + 0.5) * GOLDEN) % 1.0


def waiting(seconds: float, node_beat: float, master_beat: float) -> float:
    """The share of time that a slot runs tasks if each task waits for two heartbeats, half a period each on
    average."""
    return seconds / (seconds + node_beat / 2 + master_beat / 2)


@functools.cache
def utilisation(
    seconds: float, node_beat: float, master_beat: float, queue: int = 0, slots: int = 1
) -> float:
    """The share of time that slots run tasks, if each of ``slots`` masters keeps one running and ``queue``
    more at the node.

    The slots share the node's queue. The mean is taken over the offsets between the clocks of node and
    masters; a heartbeat of 0 is sent as soon as there is news.
    """
    if not node_beat or not master_beat:
        return 1.0 if node_beat == master_beat else waiting(seconds, node_beat, master_beat)
    offsets = [(number + 0.5) / PHASES * node_beat for number in range(PHASES)]
    return sum(_node(seconds, node_beat, master_beat, queue, slots, one) for one in offsets) / PHASES


def _node(
    seconds: float, node_beat: float, master_beat: float, queue: int, slots: int, offset: float
) -> float:
    """The utilisation of one node whose clock is ``offset`` behind; its masters' ticks are simulated in order
    of time."""
    turns = CYCLES * max(1, math.ceil(seconds / master_beat))
    ticks = sorted(
        (master_beat * (turn + phase_of(number)), number) for turn in range(turns) for number in range(slots)
    )
    free = [0.0] * slots
    heapq.heapify(free)
    ends: list[list[float]] = [[] for _ in range(slots)]  # of tasks that each master has not learned of
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
