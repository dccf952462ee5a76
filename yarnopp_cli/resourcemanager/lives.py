"""Four lives as tables: applications, attempts, containers and nodes, after YARN's ``RMAppImpl``,
``RMAppAttemptImpl``, ``RMContainerImpl`` and ``RMNodeImpl``. The services perform the consequences of a transition.
"""

from __future__ import annotations

import enum

from executor.core.transitions import TransitionTable

from ..records.reports import NodeState, YarnApplicationState


class AppEvent(enum.StrEnum):
    """Triggers of an application."""

    SUBMIT = "SUBMIT"
    ACCEPT = "ACCEPT"
    ATTEMPT_REGISTERED = "ATTEMPT_REGISTERED"
    ATTEMPT_RETRIED = "ATTEMPT_RETRIED"
    ATTEMPT_UNREGISTERED = "ATTEMPT_UNREGISTERED"
    ATTEMPT_FAILED = "ATTEMPT_FAILED"
    KILL = "KILL"


_App = YarnApplicationState
_APP_ENDS = {AppEvent.ATTEMPT_FAILED: _App.FAILED, AppEvent.KILL: _App.KILLED}
APPLICATIONS = TransitionTable(
    "an application at the ResourceManager",
    {
        _App.NEW: {AppEvent.SUBMIT: _App.SUBMITTED},
        _App.SUBMITTED: {AppEvent.ACCEPT: _App.ACCEPTED, AppEvent.KILL: _App.KILLED},
        _App.ACCEPTED: {
            AppEvent.ATTEMPT_REGISTERED: _App.RUNNING,
            AppEvent.ATTEMPT_RETRIED: _App.ACCEPTED,
            **_APP_ENDS,
        },
        _App.RUNNING: {
            AppEvent.ATTEMPT_RETRIED: _App.ACCEPTED,
            AppEvent.ATTEMPT_UNREGISTERED: _App.FINISHED,
            **_APP_ENDS,
        },
        _App.FINISHED: {},
        _App.FAILED: {},
        _App.KILLED: {},
    },
    {
        _App.NEW: "It is being submitted.",
        _App.SUBMITTED: "It has been submitted.",
        _App.ACCEPTED: "Its queue has accepted it; its master has not registered yet, or it is to begin later.",
        _App.RUNNING: "Its master has registered.",
        _App.FINISHED: "Its master has reported the final status. The master's container may still run for a moment.",
        _App.FAILED: "Its last attempt has failed.",
        _App.KILLED: "It was killed.",
    },
)


class AttemptState(enum.StrEnum):
    """The states of an attempt, with YARN's names."""

    NEW = "NEW"
    SCHEDULED = "SCHEDULED"
    ALLOCATED = "ALLOCATED"
    LAUNCHED = "LAUNCHED"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


class AttemptEvent(enum.StrEnum):
    """Triggers of an attempt. LAUNCHED: its master's container runs, or its master is the client."""

    START = "START"
    CONTAINER_ALLOCATED = "CONTAINER_ALLOCATED"
    LAUNCHED = "LAUNCHED"
    REGISTERED = "REGISTERED"
    UNREGISTERED = "UNREGISTERED"
    ENDED = "ENDED"
    FAIL = "FAIL"
    KILL = "KILL"


_CUT_SHORT = {AttemptEvent.FAIL: AttemptState.FAILED, AttemptEvent.KILL: AttemptState.KILLED}
ATTEMPTS = TransitionTable(
    "an attempt of an application",
    {
        AttemptState.NEW: {
            AttemptEvent.START: AttemptState.SCHEDULED,
            AttemptEvent.LAUNCHED: AttemptState.LAUNCHED,
            # Its application was to begin later.
            **_CUT_SHORT,
        },
        AttemptState.SCHEDULED: {AttemptEvent.CONTAINER_ALLOCATED: AttemptState.ALLOCATED, **_CUT_SHORT},
        AttemptState.ALLOCATED: {
            AttemptEvent.LAUNCHED: AttemptState.LAUNCHED,
            # A quick master may register before its node has reported that it runs.
            AttemptEvent.REGISTERED: AttemptState.RUNNING,
            **_CUT_SHORT,
        },
        AttemptState.LAUNCHED: {AttemptEvent.REGISTERED: AttemptState.RUNNING, **_CUT_SHORT},
        AttemptState.RUNNING: {AttemptEvent.UNREGISTERED: AttemptState.FINISHING, **_CUT_SHORT},
        AttemptState.FINISHING: {AttemptEvent.ENDED: AttemptState.FINISHED},
        AttemptState.FINISHED: {},
        AttemptState.FAILED: {},
        AttemptState.KILLED: {},
    },
    {
        AttemptState.NEW: "It is being created, or its application is to begin later.",
        AttemptState.SCHEDULED: "It waits for its master's container.",
        AttemptState.ALLOCATED: "Its master's container is allocated.",
        AttemptState.LAUNCHED: "Its master runs, and has not registered yet.",
        AttemptState.RUNNING: "Its master has registered.",
        AttemptState.FINISHING: "Its master has unregistered; the master's container has not ended yet.",
        AttemptState.FINISHED: "Its master has unregistered and ended.",
        AttemptState.FAILED: "Its master ended without unregistering, or sent no heartbeat for too long.",
        AttemptState.KILLED: "Its application was killed.",
    },
)


class Phase(enum.StrEnum):
    """The states of a container at the ResourceManager, as reports count them."""

    __hash__ = str.__hash__  # Enum's own __hash__ is a Python function.

    ALLOCATED = "ALLOCATED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    KILLED = "KILLED"
    FAILED = "FAILED"
    PREEMPTED = "PREEMPTED"
    LOST = "LOST"


class ContainerEvent(enum.StrEnum):
    """Triggers of a container: reports of its node, or its end."""

    __hash__ = str.__hash__

    QUEUED = "QUEUED"
    RUNS = "RUNS"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    KILLED = "KILLED"
    FAILED = "FAILED"
    PREEMPTED = "PREEMPTED"
    LOST = "LOST"


_TOLD = {
    ContainerEvent.QUEUED: Phase.QUEUED,
    ContainerEvent.RUNS: Phase.RUNNING,
    ContainerEvent.PAUSED: Phase.PAUSED,
    ContainerEvent.FINISHED: Phase.DONE,
    ContainerEvent.KILLED: Phase.KILLED,
    ContainerEvent.FAILED: Phase.FAILED,
    ContainerEvent.PREEMPTED: Phase.PREEMPTED,
    ContainerEvent.LOST: Phase.LOST,
}
CONTAINERS = TransitionTable(
    "a container at the ResourceManager",
    {
        # Heartbeats report the present state, not the transitions, and a node may have been restarted between two
        # heartbeats.
        **dict.fromkeys((Phase.ALLOCATED, Phase.QUEUED, Phase.RUNNING, Phase.PAUSED), _TOLD),
        Phase.DONE: {},
        Phase.KILLED: {},
        Phase.FAILED: {},
        Phase.PREEMPTED: {},
        Phase.LOST: {},
    },
    {
        Phase.ALLOCATED: "It is allocated; its node has not reported it yet.",
        Phase.QUEUED: "It is queued at its node, or is being started there.",
        Phase.RUNNING: "It runs at its node.",
        Phase.PAUSED: "It is paused at its node.",
        Phase.DONE: "It has ended with exit code 0.",
        Phase.KILLED: "A user, its master or the ResourceManager ended it, or its application has ended.",
        Phase.FAILED: "It ended by itself with another exit code, or was killed for exceeding its limits.",
        Phase.PREEMPTED: "It was preempted; its application may request it again.",
        Phase.LOST: "It was lost with its node, or could not be started there; its application may request it again.",
    },
)


class NodeEvent(enum.StrEnum):
    """Triggers of a node."""

    REGISTERED = "REGISTERED"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAIN = "DRAIN"
    DRAINED = "DRAINED"
    RECOMMISSION = "RECOMMISSION"
    EXPIRED = "EXPIRED"
    UNREGISTERED = "UNREGISTERED"


_Node = NodeState
_NODE_ENDS = {NodeEvent.EXPIRED: _Node.LOST, NodeEvent.UNREGISTERED: _Node.SHUTDOWN}
NODES = TransitionTable(
    "a node at the ResourceManager",
    {
        _Node.NEW: {NodeEvent.REGISTERED: _Node.RUNNING},
        _Node.RUNNING: {
            NodeEvent.REGISTERED: _Node.RUNNING,
            NodeEvent.UNHEALTHY: _Node.UNHEALTHY,
            NodeEvent.DRAIN: _Node.DECOMMISSIONING,
            **_NODE_ENDS,
        },
        _Node.UNHEALTHY: {
            NodeEvent.REGISTERED: _Node.RUNNING,
            NodeEvent.HEALTHY: _Node.RUNNING,
            NodeEvent.DRAIN: _Node.DECOMMISSIONING,
            **_NODE_ENDS,
        },
        _Node.DECOMMISSIONING: {
            # A drained node stays out of use until an administrator resumes it.
            NodeEvent.REGISTERED: _Node.DECOMMISSIONING,
            NodeEvent.DRAINED: _Node.DECOMMISSIONED,
            NodeEvent.RECOMMISSION: _Node.RUNNING,
            **_NODE_ENDS,
        },
        _Node.DECOMMISSIONED: {
            NodeEvent.REGISTERED: _Node.DECOMMISSIONING,
            NodeEvent.RECOMMISSION: _Node.RUNNING,
            **_NODE_ENDS,
        },
        _Node.LOST: {NodeEvent.UNREGISTERED: _Node.SHUTDOWN},
        _Node.SHUTDOWN: {NodeEvent.UNREGISTERED: _Node.SHUTDOWN},
    },
    {
        _Node.NEW: "It is registering.",
        _Node.RUNNING: "Containers may be allocated on it.",
        _Node.UNHEALTHY: "It reports that it is unhealthy; nothing is allocated on it, and its containers continue.",
        _Node.DECOMMISSIONING: "It is being drained: nothing is allocated on it, and its containers continue.",
        _Node.DECOMMISSIONED: "It is drained and empty. Its process stays, and it can be resumed.",
        _Node.LOST: "It sent no heartbeat for too long. If it returns, it registers as new.",
        _Node.SHUTDOWN: "It has unregistered.",
    },
)
