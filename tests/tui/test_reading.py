"""What a person reads: nothing jumps, nothing is hidden, what acts is in sight, all that a row has to say is said."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from executor.records import ContainerState
from yarnopp_cli.errors import ConnectionFailedError, InvalidStateError
from yarnopp_cli.records.history import EventKind, GetEventsRequest, GetEventsResponse
from yarnopp_cli.records.reports import NodeState
from yarnopp_cli.tui.app import THEMES
from yarnopp_cli.tui.container import DetailScreen
from yarnopp_cli.tui.dialogs import Confirm
from yarnopp_cli.tui.table import LiveTable

from .driving import Driver, drive, go_to
from .fake import LOST, NOW, FakeSource, app_id, cluster, container, container_id


def table(driver: Driver) -> LiveTable:
    return driver.app.screen.query_one(LiveTable)


def cursor_line(driver: Driver) -> int:
    """The line of the terminal on which the cursor stands; -1 for none."""
    return next((index for index, line in enumerate(driver.text.splitlines()) if line.startswith("▸")), -1)


async def says(driver: Driver, *words: str) -> None:
    """Wait until the words are on the screen, wherever its lines are broken."""
    await driver.until(lambda: all(word in " ".join(driver.text.split()) for word in words), f"{words}")


def lines(driver: Driver) -> list[str]:
    """Those of the table, without its scrollbar."""
    return [line[:78].rstrip() for line in driver.text.splitlines()[4:21]]


def busy_events(count: int = 60) -> FakeSource:
    source = FakeSource()
    for _ in range(count):
        source.tell(EventKind.QUEUE_LIMIT_TOLD, node="host1:45454", numbers={"limit": 5})
    return source


# ---- nothing jumps


def test_events_follow_the_newest_and_stand_still_further_down() -> None:
    source = busy_events()

    async def body(driver: Driver) -> None:
        await driver.press("5")
        await driver.until(lambda: len(table(driver).rows) > 60)
        source.tell(EventKind.NODE_LOST, node="host1:45455", why="first")
        await driver.sees("NodeLost")
        assert cursor_line(driver) == 4 and "NodeLost" in driver.text.splitlines()[4], "it follows"
        await driver.press("pagedown", "j")
        before = lines(driver)
        line, chosen = cursor_line(driver), table(driver).current_id
        for _ in range(7):
            source.tell(EventKind.NODE_LOST, node="host1:45455", why="later")
        await driver.until(lambda: table(driver).total > 70)
        await driver.settle()
        assert lines(driver) == before, "no line has moved"
        assert (cursor_line(driver), table(driver).current_id) == (line, chosen)
        await driver.press("g")
        assert cursor_line(driver) == 4 and "NodeLost" in driver.text.splitlines()[4]

    drive(body, source=source)


def test_the_cursor_never_leaves_the_picture_by_itself() -> None:
    source = FakeSource(cluster(200))

    async def body(driver: Driver) -> None:
        await driver.press("2", "j", "j")
        chosen = table(driver).current_id
        more = tuple(container(1, 1000 + number) for number in range(50))
        source.now = dataclasses.replace(source.now, containers=more + source.now.containers)
        await driver.picture()
        assert table(driver).current_id == chosen and cursor_line(driver) > 3
        # sorted by what changes all the time: the first ones stay in sight, and the cursor with them
        await driver.press("M")
        first = table(driver).current_id
        assert table(driver).cursor == 0
        source.change(first, usage=dataclasses.replace(source.now.container(first).usage, memory_bytes=1))
        await driver.picture()
        assert cursor_line(driver) == 4 and table(driver).current_id != first

    drive(body, source=source)


def test_columns_are_as_wide_as_the_screen_at_once() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        await driver.pilot.resize_terminal(80, 24)
        await driver.settle()
        assert "Command" in driver.text

    drive(body, size=(160, 30))


# ---- the row under the cursor


def test_the_row_under_the_cursor_is_said_in_full_on_every_screen() -> None:
    source = FakeSource()
    source.tell(
        EventKind.NODE_UNHEALTHY, node="host1:45454", why="the disk is full, and it has been for an hour now"
    )
    silent = dataclasses.replace(source.now.nodes[0], connected=False, health_report="1/1 log-dirs are bad")
    source.now = dataclasses.replace(source.now, nodes=(silent, source.now.nodes[1]))

    async def body(driver: Driver) -> None:
        await says(driver, "SILENT", "RUNNING (silent) for 0s", "1/1 log-dirs are bad", "1 silent")
        await driver.press("j")
        await says(driver, "host1:45455 RUNNING 0 of 10 queued, the RM allows 15")
        await driver.press("2")
        await says(driver, container_id(2, 1), "/usr/bin/env simulate --step 1")
        await driver.press("j")
        await says(driver, container_id(1, 2))
        await driver.press("3", "j")
        await says(driver, app_id(1), "7 running, 4 queued, 1 paused, 12 done, 1 preempted")
        await driver.press("4", "G")
        await says(driver, container_id(2, 11), "behind 1 in the queue, number 2 in the queue of host1:45455")
        await driver.press("5")
        await says(driver, "NodeUnhealthy (the disk is full, and it has been for an hour now)")
        await driver.press("2", "slash")
        await driver.type("nothing-like-it")
        assert container_id(1, 2) not in driver.text

    drive(body, source=source)


def test_a_node_that_drains_says_so_in_words_that_fit() -> None:
    source = FakeSource()
    node = dataclasses.replace(source.now.nodes[0], state=NodeState.DECOMMISSIONING)
    info = dataclasses.replace(source.now.info, nodes_running=1)
    source.now = dataclasses.replace(source.now, info=info, nodes=(node, source.now.nodes[1]))

    async def body(driver: Driver) -> None:
        await says(driver, "2 nodes", "1 draining")
        await says(
            driver, "DRAINING", "DECOMMISSIONING, nothing new is scheduled on it; 13 containers are left"
        )

    drive(body, source=source)


# ---- what was done


def test_what_was_done_to_many_is_told_in_one_line_that_hides_nothing() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "space", "j", "j", "space", "p")
        await driver.acts(("pause", container_id(2, 1)), ("pause", container_id(1, 4)))
        await driver.sees("pause 2 containers: 2 done")
        assert "Containers (12)" in driver.text and "2 marked" in driver.text and "_000008" in driver.text
        await driver.press("ctrl+k")
        asked = driver.app.screen
        assert isinstance(asked, Confirm)
        for words in asked.question.split() + asked.effect.split():
            assert words in driver.text
        await driver.press("y")
        await driver.sees("kill 2 containers: 2 done")

    drive(body, told=True)


def test_what_failed_among_many_is_told_and_the_rest_is_done() -> None:
    source = FakeSource()
    act = source.act

    def some(action: str, report: object) -> str:
        told = act(action, report)  # type: ignore[arg-type]
        if report.container_id == container_id(2, 1):  # type: ignore[attr-defined]
            raise InvalidStateError("it is gone", because="it has ended")
        return told

    source.act = some  # type: ignore[method-assign, assignment]

    async def body(driver: Driver) -> None:
        await driver.press("2", "space", "j", "j", "space", "ctrl+k", "y")
        await driver.acts(("kill", container_id(2, 1)), ("kill", container_id(1, 4)))
        await driver.sees("cannot kill 2 containers: 1 done; container_…_000001: it is gone: it has ended")

    drive(body, source=source, size=(100, 24), told=True)


@pytest.mark.parametrize(
    ("key", "action", "number"), [("D", "demote", 1), ("P", "promote", 6), ("f9", "kill", 4)]
)
def test_marked_ones_are_all_asked_for_in_the_plural(key: str, action: str, number: int) -> None:
    other = {1: 7, 6: 12, 4: 10}[number]
    names = [container_id(1 + one % 2, one) for one in (number, other)]

    async def body(driver: Driver) -> None:
        await driver.press("2")
        for name in names:
            go_to(table(driver), name)
            await driver.press("space")
        await driver.press(key)
        asked = driver.app.screen
        assert isinstance(asked, Confirm)
        assert f"{action.capitalize()} 2 containers" in asked.question
        assert not {"It", "Its", "it", "its"} & set(asked.effect.replace(",", " ").split())
        await driver.press("y")
        await driver.acts(*((action, name) for name in names))

    drive(body)


# ---- finding


@pytest.mark.parametrize("wanted", ["go to container 000010", "000010"])
def test_the_palette_finds_what_was_typed_before_what_is_like_it(wanted: str) -> None:
    source = FakeSource(cluster(40))

    async def body(driver: Driver) -> None:
        await driver.press("2", "colon")
        await driver.type(wanted)
        await driver.sees(container_id(1, 10))
        await driver.searched()
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, DetailScreen))
        assert driver.app.screen.report.container_id == container_id(1, 10)

    drive(body, source=source)


@pytest.mark.parametrize(
    ("wanted", "title"), [("host1:45455", "host1:45455"), (app_id(1), "application_…_0001")]
)
def test_the_palette_goes_to_nodes_and_applications(wanted: str, title: str) -> None:
    async def body(driver: Driver) -> None:
        await driver.press("colon")
        await driver.type(wanted)
        await driver.searched()
        await driver.press("enter")
        await driver.sees(title)

    drive(body)


def test_the_id_under_the_cursor_is_copied() -> None:
    async def body(driver: Driver) -> None:
        for keys, identity in (
            (("1", "y"), "host1:45454"), (("2", "j", "y"), container_id(1, 2)), (("enter", "y"), container_id(1, 2)),
            (("l", "y"), container_id(1, 2)), (("3", "y"), app_id(2)), (("4", "y"), container_id(1, 2)),
            (("5", "y"), container_id(1, 40)),
        ):  # fmt: skip
            await driver.press(*keys)
            assert driver.app.clipboard == identity
            await driver.sees(f"copied: {identity}")

    drive(body, size=(100, 24), told=True)


# ---- the last minute


def test_sparklines_begin_with_what_the_nodes_remember() -> None:
    source = FakeSource()
    # half of its vcore for a minute, sampled once a second; then all of it
    one = source.now.container(container_id(1, 6))
    assert one is not None
    end, used = one.usage.sampled_at, one.usage.cpu_seconds
    numbers = [value for step in range(59, 0, -1) for value in (end - step, used - step / 2, 64 << 20)]
    machine = [value for step in range(60, 0, -1) for value in (end - step, 4.0, 8 << 30)]
    source.before = ({one.container_id: numbers, "container_of_another": numbers}, machine)

    async def body(driver: Driver) -> None:
        await driver.press("2")
        await driver.until(lambda: len(driver.app.history.cpu(one.container_id)) == 59, "the minute before")
        assert set(driver.app.history.cpu(one.container_id)) == {0.5}
        assert len(driver.app.history.host_cpu) >= 60 and set(driver.app.history.host_cpu) == {50.0, 62.0}
        line = next(line for line in driver.text.splitlines() if "_000006 _0001" in line)
        assert " 50 " in line and "▅" * 10 in line

    drive(body, source=source)


# ---- the cluster comes and goes


def test_events_of_the_next_resourcemanager_come_at_once() -> None:
    """It numbers anew, and would keep a call that waits for a number yet to come for 20 s."""
    source = busy_events(20)
    failed: list[object] = []
    asked = source.events

    def events(request: GetEventsRequest) -> GetEventsResponse:
        try:
            return asked(request)
        except ConnectionFailedError as error:
            failed.append(error)
            raise

    source.events = events  # type: ignore[method-assign]

    async def body(driver: Driver) -> None:
        await driver.press("5")
        await driver.until(lambda: len(table(driver).rows) == 27)
        source.lost = LOST
        source.quiet.set()
        await driver.until(lambda: failed, "lost")
        source.happened, source.life = [], source.life + 1
        source.tell(EventKind.NODE_ADDED, node="host1:45499")
        source.happened[0] = dataclasses.replace(source.happened[0], t=NOW)
        source.quiet = threading.Event()
        source.lost = None
        await driver.sees("host1:45499")
        assert len({table(driver)._identity(row) for row in table(driver).rows}) == len(table(driver).rows)

    drive(body, source=source)


def test_all_is_grey_while_the_cluster_is_away() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        driver.source.lost = LOST
        await driver.picture()
        await driver.sees("LOST since")
        first_lines = driver.app.screen._compositor.render_strips()[:2]
        shades = {
            str(segment.style.color)
            for segment in (segment for strip in first_lines for segment in strip)
            if segment.style is not None and segment.text.strip() and "LOST" not in segment.text
        }
        assert len(shades) == 1, shades

    drive(body)


def test_a_log_of_nothing_says_so_once_it_has_ended() -> None:
    source = FakeSource()

    async def body(driver: Driver) -> None:
        await driver.press("2", "l")
        await driver.sees("nothing yet")
        ended = dataclasses.replace(
            source.container(container_id(2, 1)), state=ContainerState.DONE, exit_status=0
        )
        source.ended[ended.container_id] = ended
        source.now = dataclasses.replace(source.now, containers=source.now.containers[1:])
        await driver.picture()
        await driver.sees("nothing was written")

    drive(body, source=source)


@pytest.mark.parametrize("wrap", [False, True])
def test_what_was_found_far_to_the_right_is_seen(tmp_path: Path, wrap: bool) -> None:
    source = FakeSource()
    (tmp_path / "stdout").write_text("".join(f"{'x' * 200} pin{number} end\n" for number in range(300)))
    source.change(container_id(2, 1), log_directory=str(tmp_path))

    async def body(driver: Driver) -> None:
        await driver.press("2", "l", *(["w"] if wrap else []), "slash")
        await driver.type("PIN123")
        await driver.press("enter")
        await driver.sees("pin123 end")
        await driver.press("escape", "slash")
        await driver.type("xxxx")
        await driver.press("enter")
        await driver.until(lambda: "xxxx" in driver.text)

    drive(body, source=source)


def test_who_would_give_way_is_named_with_its_application() -> None:
    source = FakeSource()
    source.now = dataclasses.replace(
        source.now,
        containers=(*source.now.containers, container(2, 6, started_at_ms=NOW)),
    )
    source.yields = {container_id(2, 6): "kill"}

    async def body(driver: Driver) -> None:
        await driver.press("2")
        go_to(table(driver), container_id(1, 2))
        await driver.press("P")
        asked = driver.app.screen
        assert isinstance(asked, Confirm) and "kill container 2.c6." in asked.effect

    drive(body, source=source)


# ---- terminals


def test_a_question_can_be_read_in_five_lines() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "ctrl+k")
        assert isinstance(driver.app.screen, Confirm)
        assert "Kill" in driver.text and "y yes" in driver.text

    drive(body, size=(20, 5))


def test_every_theme_shows_where_the_cursor_is() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "j", "space")
        for theme in sorted(THEMES):
            driver.app.theme = theme
            await driver.settle()
            strips = driver.app.screen._compositor.render_strips()
            rows = [strip for strip in strips if strip.text.strip().startswith(("_0000", "▸", "●"))]
            grounds = [
                {(one.style.bgcolor, bool(one.style.reverse)) for one in strip if one.style} for strip in rows
            ]
            assert len(rows) >= 10, theme
            at = next(index for index, strip in enumerate(rows) if strip.text.startswith("▸"))
            others = [ground for index, ground in enumerate(grounds) if index != at]
            assert grounds[at] - others[0] and all(other == others[0] for other in others), theme
            for one in (segment for strip in strips for segment in strip):
                seen = one.style is None or one.style.color is None or one.style.color.is_default
                seen = seen or one.style.color != one.style.bgcolor or not one.text.strip(" ▏▎▍▌▋▊▉█")
                assert seen, (theme, one)

    drive(body)


@pytest.mark.parametrize("place", ["1", "2", "3", "4", "5", "2 enter", "2 l"])
def test_the_footer_never_has_more_than_eight_keys(place: str) -> None:
    async def body(driver: Driver) -> None:
        await driver.press(*place.split())
        shown = [
            active.binding for active in driver.app.screen.active_bindings.values()
            if active.binding.show and active.enabled
        ]  # fmt: skip
        assert len({binding.action for binding in shown}) <= 8
        await driver.until(lambda: driver.text.endswith("? Help"), "the footer")
        assert len(driver.text.splitlines()[-1]) <= 80

    drive(body)
