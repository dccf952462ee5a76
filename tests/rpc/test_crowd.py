"""Who is closed, refused or kept where there are many connections, or silent ones; and who has to wait for whom."""

from __future__ import annotations

import contextlib
import resource
import time
from pathlib import Path

import pytest

from yarnopp_cli.machine.calls import CallReceived, ConnectionLost
from yarnopp_cli.rpc.crowd import FEWEST, Bounds, Crowd

from .test_server import calling, run, serving, until


class Caller:
    """A connection without a socket."""

    def __init__(self, address: str = "", heard: float = 0.0, waits: bool = False) -> None:
        self.address = address
        self.known = not address
        self.heard = heard
        self.held = 0
        self.waits = waits
        self.ended = ""

    def end(self, why: str) -> None:
        self.ended = why


def crowd(*members: Caller, now: float = 0.0, **bounds: int) -> Crowd:
    made = Crowd(Bounds(idle_seconds=20.0, **bounds))
    for one in members:
        assert made.add(one, now) == ""
    return made


def ended(*members: Caller) -> list[bool]:
    return [bool(one.ended) for one in members]


def test_who_is_idle_for_longest_makes_room_and_a_stranger_first() -> None:
    old, older, waits = Caller(heard=5), Caller(heard=4), Caller(heard=0, waits=True)
    stranger = Caller("192.0.2.1", heard=6)
    made = crowd(old, older, waits, stranger, most=4)
    for gone in (stranger, older, old):
        new = Caller(heard=10, waits=True)
        assert made.add(new, 10.0) == ""
        assert gone.ended and len(made) == 4
    assert "in use" in made.add(Caller(heard=10), 10.0)
    assert len(made) == 4 and not waits.ended


def test_who_was_just_heard_is_not_idle() -> None:
    member = Caller(heard=9.5)
    made = crowd(member, most=1)
    assert "in use" in made.add(Caller(), 10.0)
    assert not member.ended


def test_an_address_has_its_own_bound_and_takes_no_place_of_others() -> None:
    own, shown = Caller(), Caller("192.0.2.1")
    shown.known = True
    idle, waits = Caller("192.0.2.1"), Caller("192.0.2.1", waits=True)
    made = crowd(own, shown, idle, waits, most=100, per_address=3)
    assert made.add(Caller("192.0.2.1", heard=30, waits=True), 30.0) == ""
    assert ended(own, shown, idle, waits) == [False, False, True, False]
    assert "192.0.2.1 has 3 connections" in made.add(Caller("192.0.2.1"), 30.0)
    assert made.add(Caller("192.0.2.2"), 30.0) == ""
    made.remove(waits)
    assert made.add(Caller("192.0.2.1"), 30.0) == ""


def test_a_stranger_has_to_call_and_to_read_in_time_and_others_may_be_silent() -> None:
    silent, waits, recent = (
        Caller("192.0.2.1"),
        Caller("192.0.2.1", waits=True),
        Caller("192.0.2.1", heard=15),
    )
    deaf, own, shown = Caller("192.0.2.1", waits=True), Caller(), Caller("192.0.2.1")
    shown.known = True
    made = crowd(silent, waits, recent, deaf, own, shown)
    made.holds(deaf, 1000)
    made.look(20.0)
    assert not any(ended(silent, waits, recent, deaf, own, shown))
    made.look(21.0)
    assert ended(silent, waits, recent, deaf, own, shown) == [True, False, False, True, False, False]
    assert made.wants_look


def test_beyond_the_threshold_the_idle_are_closed_longest_first() -> None:
    members = [Caller(heard=float(number)) for number in range(10)]
    members[0].waits = True
    made = crowd(*members, idle_threshold=7)
    made.look(20.5)
    assert ended(*members) == [False] * 10
    made.look(100.0)
    assert ended(*members) == [False, True, True, True] + [False] * 6
    assert not made.wants_look


def test_who_holds_most_goes_where_all_hold_too_much() -> None:
    small, large = Caller(), Caller()
    made = crowd(small, large, held_bytes=1000)
    made.holds(small, 400)
    made.holds(large, 600)
    assert not any(ended(small, large))
    made.holds(small, 401)
    assert ended(small, large) == [False, True]
    made.holds(large, 900)  # it has gone
    made.holds(small, 1000)
    assert not small.ended


def test_connections_take_a_share_of_the_descriptors() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert Bounds().connections == max(FEWEST, files // 4)
    assert Bounds(most=3).connections == 3
    assert Bounds(most=10 * files).connections == max(FEWEST, files // 4)


# -- with sockets --------------------------------------------------------------------------------------------


def test_one_more_than_there_is_room_for_is_told_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path, bounds=Bounds(most=2)) as world, contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                busy = await stack.enter_async_context(calling(world.path))
                busy.call(1, "getApplications")
            await until(lambda: len(world.held) == 2)
            async with calling(world.path) as third:
                answer = await third.hear()
                assert answer["error"]["message"] == "there is no room for another connection"
                assert answer["error"]["data"]["because"] == "all 2 connections are in use"
                assert await third.hear() is None
            world.release(world.held[0])
            async with calling(world.path) as again:
                await until(lambda: len(world.server._crowd) == 2)
                with contextlib.suppress(ConnectionError):
                    again.call(1, "getClusterNodes")
                    await again.hear()

    run(test)


def test_halves_of_calls_take_no_more_than_there_is(tmp_path: Path) -> None:
    async def test() -> None:
        bounds = Bounds(held_bytes=4_000_000)
        async with serving(tmp_path, bounds=bounds) as world, contextlib.AsyncExitStack() as stack:
            callers = [await stack.enter_async_context(calling(world.path)) for _ in range(10)]
            for caller in callers:
                caller.say(b"x" * 1_000_000)
            await until(lambda: len(world.server._crowd) <= 4)
            for caller in callers:
                with contextlib.suppress(ConnectionError):
                    await caller.writer.drain()
            assert sum(one._lines.begun for one in world.server._connections) <= 4_000_000
            async with calling(world.path) as other:
                other.call(1, "getClusterNodes")
                assert "result" in await other.hear()

    run(test)


def spend(seconds: float) -> None:
    """What a call costs a machine."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_a_flood_of_one_caller_is_taken_in_turns_with_others(tmp_path: Path) -> None:
    """Its calls come in one piece, and the other's right after it: it does not wait for all of them."""

    async def test() -> None:
        async with serving(tmp_path) as world, calling(world.path) as flood, calling(world.path) as other:

            def slowly(event: CallReceived | ConnectionLost) -> None:
                spend(0.0002)
                world.post(event)

            world.server.post = slowly
            flood.say(b'{"id":1,"method":"getClusterNodes","params":{}}\n' * 4000)
            other.call(2, "getClusterNodes")
            assert (await other.hear())["id"] == 2
            await until(lambda: len(world.events) == 4001)
            whose = [one.connection_id for one in world.events if isinstance(one, CallReceived)]
            assert whose.count(whose[0]) == 4000
            assert whose.index(whose[0] + 1) < 400, "it waited for more than its turn"

    run(test)


@pytest.mark.parametrize("ending", ["half", "close"])
def test_what_was_asked_before_the_caller_went_is_done(tmp_path: Path, ending: str) -> None:
    async def test() -> None:
        async with serving(tmp_path) as world:
            async with calling(world.path) as flood:
                flood.say(b'{"id":1,"method":"getClusterNodes","params":{}}\n' * 3000)
                await flood.writer.drain()
                if ending == "half":
                    flood.writer.write_eof()
            await until(lambda: len(world.lost()) == 1)
            assert len(world.events) == 3001

    run(test)
