"""The steps from the observed daemons to the wanted ones (``machine/life.py``)."""

from __future__ import annotations

import random

import pytest

from yarnopp_cli.machine.life import RM, Again, Down, OneRm, SomeNodes, Stop, Up

from .lives import FILE, World, performed, rounds, wanted_of

DAEMONS = (RM, "nm-45454", "nm-45455")
WANTED = (
    "up stay", "up job", "up stay nodes=2", "up stay memory=512", "rm", "nodes", "nodes port=45455", "nodes memory=512",
    "again rm nm-45454", "again nm-45454 rm", "again nm-45454 rm unwatched", "down", "down containers",
    "down applications", "stop rm", "stop nm-45454",
)  # fmt: skip


def test_transcripts() -> None:
    assert performed(FILE.read_text()) == FILE.read_text()


def test_a_wrong_step_is_seen() -> None:
    text = FILE.read_text().replace("start rm", "start nm-45454", 1)
    assert performed(text) != text


@pytest.mark.parametrize("wants", WANTED)
def test_in_any_world_the_steps_lead_to_what_is_wanted_or_it_is_refused(wants: str) -> None:
    for seed in range(400):
        chance = random.Random(seed)

        def some(names: tuple[str, ...], chance: random.Random = chance) -> str:
            return " ".join(name for name in names if chance.random() < 0.5)

        before = some(DAEMONS)
        answers = chance.choice(("SERVES", "ENDS", "SILENT")) if RM in before and "up" in wants else "NONE"
        died = [name for name in DAEMONS[:2] if name not in before]
        parts = [before, f"answers {answers}", f"ends {some(DAEMONS)}", f"watched {some(DAEMONS)}"]
        parts += [f"died {' '.join(died)}"] if "again" in wants else []
        parts += [f"plan {chance.choice(('stay', 'job'))} {some(('45454', '45455'))}"] * (
            chance.random() < 0.8
        )
        parts += [f"differs {wants}"] * (chance.random() < 0.2) + ["late"] * (answers == "SILENT")
        parts += [word for word in ("stored", "outlived", "refuses") if chance.random() < 0.5]
        world, wanted = World(";".join(parts)), wanted_of(wants)
        known, watched = {*world.there.running}, {*world.there.watched}
        told = [*rounds(world, wanted)]
        running, plan = {*world.there.running}, world.there.plan
        if told[-1].startswith("refused"):
            assert isinstance(wanted, Up | SomeNodes), parts
            continue
        match wanted:
            case Up():
                assert plan is not None and world.there.is_stored, parts
                assert {RM, *(node.name for node in plan.nodes)} <= running and plan.nodes, parts
            case OneRm():
                assert running == known | {RM}, parts
            case SomeNodes():
                assert known <= running and running - {RM}, parts
                assert wanted.port is None or f"nm-{wanted.port}" in running, parts
            case Again():
                asks = wanted.by in (known if wanted.unwatched else watched)
                assert running - known <= ({wanted.name} if asks else set()), parts
            case Down():
                assert not running and told[-1].endswith("clean"), parts
            case Stop():
                assert running == known - {wanted.name} and wanted.name not in world.there.watched, parts
