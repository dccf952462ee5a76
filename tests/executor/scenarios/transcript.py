"""Transcripts of a ContainerScheduler: a node, what happened and when, and what it answered.

    node memory=4096 vcores=2 queue=10 preempt=pause

    at 0.0 schedule o1 OPPORTUNISTIC 1024x1; launched o1
    ----
    store o1 LAUNCHING; launch o1 shares=2; report o1 LAUNCHING
    store o1 RUNNING; report o1 RUNNING

A ``#`` begins a comment. A block is ``at TIME`` and actions, ``----``, and a line of answers for each (``-``
for none). ``at TIME`` first lets pass what is due until then, told as lines of their own with their time. To
write the answers anew, and review them as a difference:
``python -m tests.executor.scenarios.transcript --rewrite``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from executor.core.commands import (
    CleanUpContainer,
    Command,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
    RevokeNext,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import (
    ContainerExited,
    ContainerKillRequested,
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerPauseFailed,
    ContainerPauseRequested,
    ContainerRecovered,
    ContainerResumed,
    ContainerResumeRequested,
    ContainerScheduled,
    ContainerUpdated,
    Event,
    QueuingLimitReceived,
    RecoveryCompleted,
)
from executor.core.scheduler import ContainerScheduler
from executor.records import (
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ExecutionType,
    Resource,
)
from executor.settings import ExecutorSettings

HERE = Path(__file__).parent
RULE = "----"


def resource_of(text: str) -> Resource:
    """``1024x2`` is 1024 MB and 2 vcores."""
    memory, _, vcores = text.partition("x")
    return Resource(int(memory), int(vcores))


def spec_of(name: str, kind: str, size: str, timeout: str = "0") -> ContainerSpec:
    return ContainerSpec(
        name, ("sleep", "10"), resource_of(size), ExecutionType[kind], timeout_ms=int(timeout)
    )


def recovered(name: str, kind: str, size: str, state: str, sequence: str, found: str) -> ContainerRecovered:
    """``found`` is alive, stopped, gone, or an exit code."""
    record = ContainerRecord(spec_of(name, kind, size), ContainerState[state], pid=1, sequence=int(sequence))
    code = int(found) if found.lstrip("-").isdigit() else None
    return ContainerRecovered(
        record, alive=found in ("alive", "stopped"), stopped=found == "stopped", exit_code=code
    )


def updated(name: str, version: str, kind: str, size: str = "") -> ContainerUpdated:
    """``kind`` is ``-`` for unchanged."""
    return ContainerUpdated(
        name,
        int(version),
        None if kind == "-" else ExecutionType[kind],
        resource_of(size) if size else None,
    )


ACTIONS: dict[str, Callable[..., Event]] = {
    "schedule": lambda *words: ContainerScheduled(spec_of(*words)),
    "launched": lambda name: ContainerLaunched(name, pid=1, process_start=1),
    "launch-failed": lambda name, code: ContainerLaunchFailed(name, "it was not found", int(code)),
    "paused": ContainerPaused,
    "pause-failed": lambda name: ContainerPauseFailed(name, "it would not stop"),
    "resumed": ContainerResumed,
    "exited": lambda name, code, following="": ContainerExited(
        name, None if code == "-" else int(code), following=following
    ),
    "kill": lambda name, status: ContainerKillRequested(name, int(status), "Killed on request."),
    "pause": ContainerPauseRequested,
    "resume": ContainerResumeRequested,
    "update": updated,
    "limit": lambda length: QueuingLimitReceived(ContainerQueuingLimit(int(length))),
    "recovered": recovered,
    "recovery-completed": RecoveryCompleted,
}
"""What can happen: a word, and the words after it, to an event. ``wait`` is time passing and no event."""


def node_of(line: str) -> ContainerScheduler:
    """The machine of a ``node`` line."""
    given = dict(word.split("=", 1) for word in line.split()[1:])
    settings = ExecutorSettings(
        max_queue_length=int(given.pop("queue", "10")),
        use_pause_for_preemption=given.pop("preempt", "kill") == "pause",
        max_overtakes=int(given.pop("overtakes", "100")),
        group_weights=False,
    )
    total = Resource(int(given.pop("memory")), int(given.pop("vcores")))
    assert not given, f"unknown: {given}"
    return ContainerScheduler(total, settings, physical_cores=total.vcores)


def told(command: Command) -> str:
    """A command as a transcript has it."""
    match command:
        case StoreContainer(record):
            return f"store {record.spec.container_id} {record.state.value}"
        case ForgetContainer(name):
            return f"forget {name}"
        case LaunchContainer(spec, limits):
            return f"launch {spec.container_id} shares={limits.cpu_shares}"
        case LaunchNext(spec, _, after):
            return f"next {spec.container_id} after {after}"
        case RevokeNext(name, ends):
            return f"revoke {name}{' ENDS' if ends else ''}"
        case SignalContainer(name, number):
            return f"signal {name} {number}"
        case PauseContainer(name):
            return f"pause {name}"
        case ResumeContainer(name):
            return f"resume {name}"
        case KillContainer(name, force):
            return f"kill {name} {'KILL' if force else 'TERM'}"
        case SetLimits(name, limits):
            return f"limits {name} shares={limits.cpu_shares}"
        case CleanUpContainer(name):
            return f"clean {name}"
        case ReportStatus(status):
            ended = f" {status.exit_status}" if status.state is ContainerState.DONE else ""
            return f"report {status.container_id} {status.state.value}{ended}"


def line_of(commands: list[Command]) -> str:
    return "; ".join(told(command) for command in commands) or "-"


def performed(text: str) -> str:
    """The transcript with its answers as they are now; every step is validated."""
    machine: ContainerScheduler | None = None
    written: list[str] = []
    for block in blocks(text):
        if block.startswith("node "):
            machine = node_of(block)
            written.append(block)
        elif not block.startswith("at "):
            written.append(block)
        else:
            assert machine is not None, "a node comes first"
            asked = block.partition(f"\n{RULE}")[0]
            written.append("\n".join([asked, RULE, *answers(machine, asked)]))
    return "\n\n".join(written) + "\n"


def blocks(text: str) -> list[str]:
    return [block.strip("\n") for block in text.split("\n\n") if block.strip()]


def answers(machine: ContainerScheduler, asked: str) -> Iterator[str]:
    """The lines of answers to one block."""
    stripped = " ".join(line.partition("#")[0] for line in asked.splitlines())
    _, time, rest = stripped.split(None, 2)
    now = float(time)
    while (due := machine.next_deadline()) is not None and due <= now:
        yield f"{due:g}: {line_of(machine.advance(due))}"
        machine.validate()
    for action in filter(None, (part.strip() for part in rest.split(";"))):
        word, *words = action.split()
        if word != "wait":
            commands = machine.handle(ACTIONS[word](*words), now)
            machine.validate()
            yield line_of(commands)


def main(arguments: list[str]) -> int:
    """Compare all transcripts, or write them anew; the number of those that differed."""
    differing = 0
    for path in sorted(HERE.glob("*.txt")):
        text = path.read_text()
        now = performed(text)
        if now != text:
            differing += 1
            sys.stdout.write(f"{path.name} {'rewritten' if '--rewrite' in arguments else 'differs'}\n")
            if "--rewrite" in arguments:
                path.write_text(now)
    return 0 if "--rewrite" in arguments else differing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
