"""Transcripts of the life of a cluster's daemons: the observed state, the wanted one, and the steps of each round.

    there rm nm-45454; plan stay 45454 45455; stored; answers SERVES
    wants up stay
    ----
    clear rm nm-45454 nm-45455; stay; start nm-45455, plan stay 45454 45455

A ``#`` begins a comment. ``there`` has the running daemons and what else is known; ``ends`` are daemons that end when a
step waits for them. A round that ends with ``look`` is followed by the next one. To write the rounds anew, and review
them as a difference: ``python -m tests.lifecycle.lives --rewrite``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from executor.light import replace
from yarnopp_cli.errors import YoppError
from yarnopp_cli.machine.life import (
    LOOK,
    RM,
    Again,
    Down,
    NodeSizeRequest,
    Observation,
    OneRm,
    Plan,
    PlannedNode,
    RmAnswer,
    SomeNodes,
    Step,
    Stop,
    Up,
    Verb,
    Wanted,
    steps,
)
from yarnopp_cli.machine.restarts import Watched
from yarnopp_cli.records.reports import ON_DEMAND, STAY

FILE = Path(__file__).parent / "lives.txt"
RULE = "----"
LIFETIMES = {"stay": STAY, "job": ON_DEMAND}
ROUNDS = 10


def node_of(text: str) -> PlannedNode:
    """``45454`` is a node of 1024 MB and 2 vcores, ``45454:512x1`` one of another size."""
    port, _, size = text.partition(":")
    memory, _, vcores = (size or "1024x2").partition("x")
    return PlannedNode(int(port), int(memory), int(vcores))


def plan_of(words: list[str]) -> Plan:
    return Plan(tuple(map(node_of, words[1:])), LIFETIMES[words[0]])


class World:
    """A run directory and its daemons, as far as the steps change them."""

    def __init__(self, text: str) -> None:
        self.there = Observation("/run/yopp")
        self.ends: set[str] = set()
        self.accepts = True
        for part in text.split(";"):
            word, *words = part.split() or ["-"]
            match word:
                case "plan":
                    self.there = replace(self.there, plan=plan_of(words))
                case "answers":
                    self.there = replace(self.there, rm=RmAnswer[words[0]], why="no answer")
                case "ends":
                    self.ends = {*words}
                case "refuses":
                    self.accepts = False
                case "differs":
                    self.there = replace(self.there, is_changed=True, differences=(" ".join(words),))
                case "died":
                    self.there = replace(self.there, died={name: Watched(7, 1) for name in words})
                case "watched":
                    self.there = replace(self.there, watched=tuple(words))
                case "stored" | "outlived" | "late" | "lost":
                    name = {"stored": "is_stored", "late": "is_late", "lost": "is_lost"}.get(word, word)
                    self.there = replace(self.there, **{name: True})
                case "-":
                    pass
                case _:
                    running = {name: 100 + number for number, name in enumerate((word, *words))}
                    self.there = replace(self.there, running=running)

    def perform(self, step: Step, wanted: Wanted) -> None:
        there, running = self.there, dict(self.there.running)
        names = step.names or tuple(running)
        match step.verb:
            case Verb.WAIT | Verb.END:
                gone = {name for name in names if step.verb is Verb.END or name in self.ends}
                running = {name: pid for name, pid in running.items() if name not in gone}
                if {*names} & {*running}:
                    there = replace(there, expired=(*there.expired, step))
                if RM not in running:
                    there = replace(there, rm=RmAnswer.NONE if isinstance(wanted, Up) else there.rm)
            case Verb.SIZE:
                assert isinstance(wanted, Up | SomeNodes)
                used = {*step.names, *(one.name for one in step.plan.nodes)}
                free = [port for port in range(45454, 45464) if f"nm-{port}" not in used]
                ports = [step.port] if step.port is not None else free[: wanted.wish.nodes or 1]
                size = wanted.wish.memory_mb or 1024, wanted.wish.vcores or 2
                there = replace(there, sized=tuple(PlannedNode(port, *size) for port in ports))
            case Verb.START | Verb.BECOME:
                assert not {*step.names} & {*running}, "it runs already"
                there = replace(there, plan=step.plan, is_stored=True)
                running |= {name: 200 + number for number, name in enumerate(step.names)}
            case Verb.ASK:
                there = replace(there, rm=RmAnswer.ENDS if self.accepts else RmAnswer.SILENT)
                self.ends |= {*running} if self.accepts else set()
            case Verb.END_NODES:
                self.ends |= {*running} - {RM}
            case Verb.CLEAN:
                there = replace(there, plan=None, is_stored=False)
            case Verb.FORGET:
                there = replace(there, watched=tuple(one for one in there.watched if one not in step.names))
        self.there = replace(there, running=running)


def wanted_of(text: str) -> Wanted:
    word, *words = text.split()
    flags = [one for one in words if "=" not in one]
    given = {name: int(value) for name, _, value in (one.partition("=") for one in words if "=" in one)}
    wish = NodeSizeRequest(given.get("nodes"), given.get("memory"), given.get("vcores"))
    match word:
        case "up":
            return Up(LIFETIMES[flags[0]], wish)
        case "rm":
            return OneRm("foreground" in flags)
        case "nodes":
            return SomeNodes(given.get("port"), wish, "foreground" in flags)
        case "again":
            return Again(flags[0], flags[1], "unwatched" in flags)
        case "down":
            return Down("containers" in flags, "applications" in flags)
        case _:
            return Stop(flags[0])


def told(step: Step) -> str:
    """A step as a transcript has it."""
    words = [step.verb.value, *step.names]
    words += [f"{step.seconds:g} s"] if step.verb in (Verb.WAIT, Verb.END) else []
    words += [f"port {step.port}"] if step.port is not None else []
    if step.verb in (Verb.START, Verb.BECOME):
        known = {node_of(str(node.port)): str(node.port) for node in step.plan.nodes}
        nodes = [known.get(node, f"{node.port}:{node.memory}x{node.vcores}") for node in step.plan.nodes]
        lifetime = next(name for name, one in LIFETIMES.items() if one == step.plan.lifetime)
        words += [", plan", lifetime, *nodes]
    return " ".join([*words, *(["new"] if step.is_new else [])]).replace(" ,", ",")


def rounds(world: World, wanted: Wanted) -> Iterator[str]:
    """The steps of each round, or the refusal; the world is as they leave it."""
    for _ in range(ROUNDS):
        try:
            found = steps(world.there, wanted)
        except YoppError as error:
            yield f"refused: {error.message} ({error.because})"
            return
        yield "; ".join(map(told, found)) or "-"
        for step in found:
            world.perform(step, wanted)
        if not found or found[-1] != LOOK:
            return
    raise AssertionError(f"{wanted} has no end")


def performed(text: str) -> str:
    """The transcripts with their steps as they are now."""
    written = []
    for block in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        asked = block.partition(f"\n{RULE}")[0]
        lines = [line for line in asked.splitlines() if not line.startswith("#")]
        if not lines:
            written.append(block)
            continue
        there, wants = (line.partition(" ")[2] for line in lines)
        written.append("\n".join([asked, RULE, *rounds(World(there), wanted_of(wants))]))
    return "\n\n".join(written) + "\n"


if __name__ == "__main__":
    now = performed(FILE.read_text())
    if "--rewrite" in sys.argv:
        FILE.write_text(now)
    sys.stdout.write(now)
