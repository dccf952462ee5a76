"""The model of a slot whose master hears late: what a queue at the node is good for (the idea of Mercury and Yaq).

A task of ``seconds`` ends; its node says so at its next heartbeat; the master hears it at its own next heartbeat, and
sends another one there and then. Meanwhile the slot runs what waits in its queue, or nothing. Pure.
"""

from __future__ import annotations

import math

PHASES = 50
CYCLES = 100
_LATE = 1e-9  # two clocks that tick at once: the one that hears comes after the one that tells


def waiting(seconds: float, node_beat: float, master_beat: float) -> float:
    """The same without a queue where masters share slots, so that a freed one goes to any of them: on average each
    heartbeat is half a period away.
    """
    return seconds / (seconds + node_beat / 2 + master_beat / 2)


def utilisation(seconds: float, node_beat: float, master_beat: float, queue: int = 0) -> float:
    """The share of time that a slot runs tasks, the mean over how far apart the two heartbeats are.

    ``queue`` is how many tasks the master keeps at the node besides the one that runs; a heartbeat of 0 is one that
    goes out when there is something to say.
    """
    if not node_beat and not master_beat:
        return 1.0
    phases = [(number + 0.5) / PHASES for number in range(PHASES)]
    return sum(_slot(seconds, node_beat, master_beat, queue, phase) for phase in phases) / PHASES


def _slot(seconds: float, node_beat: float, master_beat: float, queue: int, phase: float) -> float:
    """One slot whose master's clock is ``phase`` of the longer heartbeat behind its node's."""
    offset = phase * max(node_beat, master_beat)
    ends: list[float] = []  # of what was sent, in order; the slot is free from the last one on
    heard = 0
    now = offset
    for _ in range(CYCLES):
        for _ in range(1 + queue - (len(ends) - heard)):
            ends.append(max(now, ends[-1] if ends else 0.0) + seconds)
        told = _tick(ends[heard], node_beat, 0.0)
        now = _tick(told, master_beat, offset)
        known = now if not node_beat else math.floor(now / node_beat + _LATE) * node_beat
        while heard < len(ends) and ends[heard] <= known + _LATE:
            heard += 1
    # from the first start to the last time that a new one may have been sent
    done = [max(0.0, seconds - max(0.0, end - now)) for end in ends]
    return sum(done) / (now - offset)


def _tick(at: float, beat: float, offset: float) -> float:
    """The first tick of a clock that is not before ``at``."""
    return at if not beat else math.ceil((at - offset) / beat - _LATE) * beat + offset
