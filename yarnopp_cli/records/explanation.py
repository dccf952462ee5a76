"""Why something waits, when it may start, and whether it ever can: the answer as plain data."""

from __future__ import annotations

import enum

from executor.light import dataclass


class ReasonCode(enum.StrEnum):
    """Why something does not go on. Programs may rely on the words."""

    NO_VCORES = "NO_VCORES"
    NO_MEMORY = "NO_MEMORY"
    BEHIND = "BEHIND"
    PAUSED_FOR = "PAUSED_FOR"
    PAUSED_BY_PERSON = "PAUSED_BY_PERSON"
    QUEUE_CAPACITY = "QUEUE_CAPACITY"
    USER_LIMIT = "USER_LIMIT"
    NO_NODE = "NO_NODE"
    NODE_DRAINING = "NODE_DRAINING"
    NODE_UNUSABLE = "NODE_UNUSABLE"
    TOO_BIG = "TOO_BIG"
    AM_PENDING = "AM_PENDING"
    NODE_LOST = "NODE_LOST"
    PRESSURE = "PRESSURE"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. Where it is about an amount: ``needs`` of ``resource`` ("vcores", "memoryMB", "containers"), of
    which ``free`` of ``total`` is there. ``by`` are the ids of those who have it, or stand before. ``text`` says it in
    words.
    """

    code: ReasonCode
    text: str
    resource: str = ""
    needs: int = 0
    free: int = 0
    total: int = 0
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a person can type, and what that would do."""

    command: str
    effect: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is the matter with ``id``. ``state`` is as shown to people, ``since_ms`` when it began (0: not known).

    ``satisfiable`` is false where waiting is in vain: nothing that is there now can ever serve it. ``position`` is its
    place of ``queue_length`` (0: it is in no queue), ``queue_limit`` how many may wait there. ``estimated_start_ms`` is
    0 where nothing is known, and never in the past; of an application it is its first container's, and
    ``estimated_last_ms`` its last one's. ``estimate`` is what they rest on ("declared", "median-task-time", …),
    ``outlived`` are containers that have run longer than was expected of them and have to end before. What waits, or
    has waited, did so for ``waited_since_submit_ms`` since its application was submitted, ``waited_since_eligible_ms``
    since it was asked for; of an application that is its container that waits for longest. -1 where it is not known.
    """

    id: str
    kind: str
    state: str
    sentence: str
    since_ms: int = 0
    satisfiable: bool = True
    waits: bool = False
    reasons: tuple[Reason, ...] = ()
    position: int = 0
    queue_length: int = 0
    queue_limit: int = -1
    estimated_start_ms: int = 0
    estimate: str = ""
    actions: tuple[Suggestion, ...] = ()
    estimated_last_ms: int = 0
    outlived: tuple[str, ...] = ()
    waited_since_submit_ms: int = -1
    waited_since_eligible_ms: int = -1


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """``id`` is a full id of an application, a container or a node."""

    id: str


@dataclass(frozen=True, slots=True)
class ExplainResponse:
    """As the ResourceManager sees it."""

    explanation: Explanation


METHODS: dict[str, tuple[type, type]] = {
    "explain": (ExplainRequest, ExplainResponse),
}
"""Method -> (request, response)."""
