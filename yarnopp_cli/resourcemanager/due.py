"""The deadlines of the ResourceManager, by kind."""

from __future__ import annotations

import enum
from typing import NamedTuple


class DueKind(enum.Enum):
    """The kinds of deadlines. Each states which id belongs to it, if any."""

    __hash__ = object.__hash__  # Enum's own __hash__ is a Python function.

    #: the nodes had their time to answer a question (call)
    INQUIRY = "INQUIRY"
    #: a node's heartbeat was held as long as it may be (node)
    HELD_HEARTBEAT = "HELD_HEARTBEAT"
    #: a master's allocate call was held as long as it may be (attempt)
    HELD_ALLOCATE = "HELD_ALLOCATE"
    #: a client's wait for applications or nodes is over (call)
    WAIT = "WAIT"
    #: a client's wait for events is over (call)
    EVENTS = "EVENTS"
    #: a node may have been silent for too long (node)
    NODE_LIVENESS = "NODE_LIVENESS"
    #: a node may be silent: until it speaks again it gets nothing new (node)
    NODE_SILENCE = "NODE_SILENCE"
    #: a master may have been silent for too long (attempt)
    MASTER_LIVENESS = "MASTER_LIVENESS"
    #: the client in which a master ran did not come again (application)
    CLIENT_GONE = "CLIENT_GONE"
    #: the application has lived as long as it may (application)
    LIFETIME = "LIFETIME"
    #: the time at which it is to begin has come (application)
    BEGIN = "BEGIN"
    #: it was to have ended by now (application)
    DEADLINE = "DEADLINE"
    #: a master that has unregistered had its time to end (application)
    FINISHING = "FINISHING"
    #: a container was allocated, and its node has not spoken of it (container)
    UNCLAIMED = "UNCLAIMED"
    #: a container was to end, and its node has not said that it did (container)
    UNENDED = "UNENDED"
    #: a container that gives way to another queue had its time to end by itself (container)
    PREEMPTED = "PREEMPTED"
    #: a drained node's containers had their time (node)
    DRAIN = "DRAIN"
    #: nodes are to be sorted by load, and their queues' limits derived anew
    SORT = "SORT"
    #: queues below their capacity are to be looked at
    PREEMPT = "PREEMPT"
    #: nodes came or went a while ago: asks that none can serve are refused
    HOPELESS = "HOPELESS"
    #: an on-demand cluster had no job for long enough
    IDLE = "IDLE"
    #: the nodes had their time to unregister
    ENDING = "ENDING"
    #: a hosted master has something to do (application)
    HOSTED_MASTER = "HOSTED_MASTER"
    #: those who watch a hosted master's job are to hear of it (application)
    HOSTED_NEWS = "HOSTED_NEWS"
    #: nodes of an earlier life of the RM had their time to come
    RECOVERY = "RECOVERY"


class Due(NamedTuple):
    """One deadline. ``of`` is the id of the entity that it belongs to, "" if there is only one deadline of the kind."""

    kind: DueKind
    of: str = ""
