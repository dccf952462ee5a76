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
    0 where nothing is known, ``estimate`` how it was reckoned.
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
