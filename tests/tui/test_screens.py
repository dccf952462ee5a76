"""What keys do, with a source that records what it is told."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.widgets import OptionList

from executor.records import ContainerState, ExecutionType, Resource
from yarnopp_cli.errors import InvalidStateError
from yarnopp_cli.records.history import EventKind
from yarnopp_cli.records.reports import ContainerReport, NodeState
from yarnopp_cli.tui.actions import ACTIONS, refusal
from yarnopp_cli.tui.container import DetailScreen, LogScreen
from yarnopp_cli.tui.dialogs import Confirm, TextDialog
from yarnopp_cli.tui.screens import ContainersScreen
from yarnopp_cli.tui.table import LiveTable
from yarnopp_cli.views.top.tables import yarn_node_columns

from .driving import Driver, drive, go_to
from .fake import LOST, FakeSource, app_id, application, cluster, container, container_id

DOCUMENT = ["Running Containers (O)", "Mem Used (O)", "VCores Used (O)", "Queued Containers"]
YARN_TITLES = [
    "Node Labels", "Rack", "Node State", "Node Address", "Node HTTP Address", "Last health-update", "Health-report",
    "Running Containers (G)", "Mem Used (G)", "Mem Avail (G)", "Phys Mem Used %", "VCores Used (G)",
    "VCores Avail (G)", "Phys VCores Used %", *DOCUMENT, "Version",
]  # fmt: skip


def table(driver: Driver) -> LiveTable:
    return driver.app.screen.query_one(LiveTable)


def test_yarns_page_has_yarns_titles_in_yarns_order() -> None:
    columns = yarn_node_columns(0)
    assert [column.title for column in columns[1:]] == YARN_TITLES
    assert all(column.width >= len(column.title) for column in columns), "no title is cut"

    async def body(driver: Driver) -> None:
        await driver.press("w")
        seen = driver.text
        for _ in range(len(YARN_TITLES)):
            await driver.press("right")
            assert "host1:45454" in driver.text, "the first column stays"
            seen += driver.text
        assert [title for title in YARN_TITLES if title not in seen] == []
        await driver.press("w")
        assert "Run O" in driver.text

    drive(body)


def test_drilling_down_and_back() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("j", "enter")
        await driver.sees("Containers (6)", "host1:45455")
        assert all(row.node_id == "host1:45455" for row in table(driver).rows)
        await driver.press("enter")
        assert isinstance(driver.app.screen, DetailScreen)
        await driver.sees("Execution-Type", container_id(2, 1)[:20])
        await driver.press("l")
        assert isinstance(driver.app.screen, LogScreen)
        await driver.press("escape", "escape", "escape")
        await driver.sees("Nodes (2)")
        await driver.press("escape")
        await driver.sees("Nodes (2)")
        for key, title in (("2", "Containers (12)"), ("3", "Applications (3)"), ("4", "Queue (6)"),
                           ("5", "Events ("), ("1", "Nodes (2)")):  # fmt: skip
            await driver.press(key)
            await driver.sees(title)
        await driver.press("3", "j", "enter")
        await driver.sees("Containers (6)", "application_…_0001")

    drive(body)


def test_the_execution_type_is_the_first_thing_that_a_detail_says() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, DetailScreen))
        lines = driver.text.splitlines()
        assert "Execution-Type" in lines[3] and "GUARANTEED" in lines[3]
        await driver.sees("CPU weight")  # the node has told its limits meanwhile

    drive(body)


@pytest.mark.parametrize(
    ("key", "action", "number", "words"),
    [
        ("ctrl+k", "kill", 6, ("Kill container 1.c6", "opportunistic", "Its work is lost")),
        ("f9", "kill", 2, ("Kill container 1.c2", "No work is lost")),
        ("P", "promote", 6, ("Promote container 1.c6", "It runs already: nothing is preempted")),
        ("P", "promote", 2, ("To make room, its node will kill container 1.c6.",)),
        ("D", "demote", 1, ("Demote container 2.c1", "is preempted")),
    ],
)
def test_what_loses_work_asks_first_and_says_what_follows(
    key: str, action: str, number: int, words: tuple[str, ...]
) -> None:
    name = container_id(1 + number % 2, number)

    async def body(driver: Driver) -> None:
        await driver.press("2")
        assert go_to(table(driver), name)
        await driver.press(key)
        await driver.until(lambda: isinstance(driver.app.screen, Confirm), "a question")
        asked = driver.app.screen
        assert isinstance(asked, Confirm) and asked.question[:40] in driver.text
        assert [word for word in words if word not in f"{asked.question} {asked.effect}"] == []
        await driver.press("enter")  # no
        assert not isinstance(driver.app.screen, Confirm)
        assert driver.source.acts == []
        await driver.press(key)
        await driver.until(lambda: isinstance(driver.app.screen, Confirm), "a question")
        await driver.press("y")
        await driver.acts((action, name))

    drive(body)


def test_pausing_and_resuming_ask_nothing() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "p")
        await driver.acts(("pause", container_id(2, 1)))
        go_to(table(driver), container_id(2, 3))
        await driver.press("r")
        await driver.acts(("pause", container_id(2, 1)), ("resume", container_id(2, 3)))

    drive(body)


def test_what_cannot_be_done_is_not_asked_for() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "P", "r", "j", "p", "D")  # guaranteed, running; then one that is queued
        assert isinstance(driver.app.screen, ContainersScreen)
        assert driver.source.acts == []

    drive(body)


def test_a_refusal_is_told_and_nothing_breaks() -> None:
    source = FakeSource()
    source.refusal = InvalidStateError("[red]no[/red] such luck", because="it ends \x1b[31malready")

    async def body(driver: Driver) -> None:
        await driver.press("2", "p")
        await driver.acts(("pause", container_id(2, 1)))
        await driver.sees("Containers (12)")
        assert driver.app.is_running

    drive(body, source=source)


def test_marked_ones_are_acted_upon_together() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "space", "j", "j", "space")
        assert "2 marked" in driver.text
        await driver.press("ctrl+k")
        assert "Kill 2 containers" in driver.text
        await driver.press("y")
        await driver.acts(("kill", container_id(2, 1)), ("kill", container_id(1, 4)))
        await driver.press("escape")
        assert "marked" not in driver.text

    drive(body)


def test_a_key_for_one_container_is_for_that_under_the_cursor_whatever_is_marked() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "space", "j", "j")
        under = driver.app.screen.query_one(LiveTable).current_id
        assert under == container_id(1, 4)
        await driver.press("l")
        opened = driver.app.screen
        assert isinstance(opened, LogScreen) and opened.report.container_id == under

    drive(body)


def test_applications_are_killed_with_all_they_have() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("3", "j", "ctrl+k")
        assert "Kill application_…_0001 (job-1)?" in driver.text
        assert "7 running, 4 queued" in driver.text
        await driver.press("y")
        await driver.acts(("kill", app_id(1)))
        await driver.press("j", "ctrl+k")  # has ended
        assert not isinstance(driver.app.screen, Confirm)

    drive(body)


def test_a_node_is_drained_and_used_again() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("n")
        assert "Drain host1:45454?" in driver.text and "8 running" in driver.text
        await driver.press("n")
        assert driver.source.acts == []
        await driver.press("n", "y")
        await driver.acts(("drain", "host1:45454"))
        source = driver.source
        drained = dataclasses.replace(source.now.nodes[0], state=NodeState.DECOMMISSIONED)
        source.now = dataclasses.replace(source.now, nodes=(drained, *source.now.nodes[1:]))
        await driver.picture()
        await driver.press("n")
        await driver.acts(("drain", "host1:45454"), ("use", "host1:45454"))

    drive(body)


def test_readonly_has_no_keys_that_change_anything() -> None:
    async def body(driver: Driver) -> None:
        for place in ("1", "2", "3", "4"):
            await driver.press(place, "n", "j", "ctrl+k", "f9", "p", "P", "D", "r")
            assert not isinstance(driver.app.screen, Confirm)
            assert "Kill" not in driver.text and "Drop" not in driver.text
        await driver.press("2", "enter", "p", "ctrl+k")
        await driver.press("l", "p", "ctrl+k")
        assert "READONLY" in driver.text
        await driver.press("colon")
        await driver.type("kill")
        await driver.searched()
        await driver.press("enter", "y")
        assert driver.source.acts == []

    drive(body, readonly=True)


def test_the_palette_knows_every_action_and_every_id() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "ctrl+p")
        await driver.type("pause")
        await driver.sees("Pause")
        await driver.searched()
        await driver.press("enter")
        await driver.acts(("pause", container_id(2, 1)))
        await driver.press("colon")
        await driver.type("go to container 000009")
        await driver.sees(container_id(2, 9))
        await driver.searched()
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, DetailScreen))
        assert driver.app.screen.report.container_id == container_id(2, 9)

    drive(body)


def test_filter_shows_what_has_the_words_and_esc_takes_it_back() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "slash")
        await driver.type("QUEUED")
        assert "Containers (4 of 12)" in driver.text
        await driver.press("enter", "slash")
        await driver.type(" !_0001")
        assert {row.application_id for row in table(driver).rows} == {app_id(2)}
        await driver.type(" nowhere")
        assert "no row has all of these words" in driver.text and "no live containers" not in driver.text
        await driver.press("escape")
        assert "Containers (12)" in driver.text

    drive(body)


def test_keys_that_come_all_at_once_find_the_filter() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        for character in ("slash", "P", "A", "U", "S"):
            driver.app._driver.send_message(
                events.Key(character, None if character == "slash" else character)
            )
        await driver.until(lambda: "Containers (2 of 12)" in driver.text, "the filter")
        assert driver.source.acts == []

    drive(body)


def test_sorting_by_measured_cpu_and_memory() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        driver.source.later()
        await driver.picture()
        driver.source.later()
        await driver.picture()
        await driver.press("C")
        assert "CPU▾" in driver.text
        history = driver.app.history
        rows = table(driver).rows  # by what is used of the quota
        use = [(history.cores(row.container_id) or -1.0) / row.resource.vcores for row in rows]
        assert use == sorted(use, reverse=True) and use[0] > 0
        await driver.press("C")
        assert "CPU▴" in driver.text
        await driver.press("M")
        memory = [row.usage.memory_bytes for row in table(driver).rows]
        assert memory == sorted(memory, reverse=True)
        await driver.press("s")
        await driver.sees("Sort by", "as they come")
        await driver.press("enter")  # the one that is chosen now: the other way round
        memory = [row.usage.memory_bytes for row in table(driver).rows]
        assert memory == sorted(memory)

    drive(body)


def test_measured_cpu_is_in_percent_of_the_quota_and_drawn() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        for _ in range(4):
            driver.source.later(1.0, busy=0.9)
            await driver.picture()
        line = next(line for line in driver.text.splitlines() if "_000006" in line)
        # 0.9 cores divided by 1 + 6 % 5; a vcore is a core here
        assert " 45 " in line and "▄" in line

    drive(body)


def test_the_cursor_stays_with_its_row() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "j", "j")
        chosen = table(driver).current_id
        driver.source.now = dataclasses.replace(
            driver.source.now, containers=driver.source.now.containers[::-1]
        )
        await driver.picture()
        assert table(driver).current_id == chosen
        assert next(line for line in driver.text.splitlines() if "▸" in line).split()[1] == chosen[-7:]
        driver.source.now = dataclasses.replace(driver.source.now, containers=())
        await driver.picture()
        assert table(driver).current is None and "no live containers" in driver.text
        await driver.press("j", "G", "space", "enter", "l", "e", "ctrl+k", "p", "P", "y", "pagedown", "C")
        assert driver.source.acts == []

    drive(body)


def test_a_frozen_picture_stands_still() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "F")
        await driver.sees("FROZEN")
        driver.source.change(container_id(2, 1), state=ContainerState.PAUSED)
        driver.source.later(5.0)
        await driver.picture()
        assert "_000001 _0002 G RUNNING" in driver.text and "FROZEN 5s" in driver.text
        await driver.press("F")
        assert "_000001 _0002 G PAUSED" in driver.text and "LIVE" in driver.text

    drive(body)


def test_the_cluster_goes_away_and_comes_back() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        driver.source.lost = LOST
        await driver.picture()
        await driver.sees("LOST since", "Containers (12)")
        assert table(driver).stale
        await driver.press("p", "j", "enter", "escape", "3", "5", "2")
        driver.source.lost = None
        driver.source.life += 1
        await driver.picture()
        await driver.sees("LIVE")
        assert not table(driver).stale

    drive(body)


def test_a_cluster_that_was_never_there_is_waited_for() -> None:
    source = FakeSource()
    source.lost = LOST

    async def body(driver: Driver) -> None:
        await driver.sees("LOST since")
        for key in "12345":
            await driver.press(key, "j", "enter", "ctrl+k", "e", "l", "y", "s", "escape", "w")
        await driver.press("1")
        driver.source.lost = None
        driver.app.wake()
        await driver.sees("LIVE", "host1:45454")

    drive(body, source=source)


def test_events_that_arrive_when_the_screens_are_closed_do_nothing() -> None:
    apps = []

    async def body(driver: Driver) -> None:
        apps.append(driver.app)
        await driver.press("5")

    drive(body)
    (app,) = apps
    assert not app.screen_stack
    app._soonest = math.inf  # it is too early for another picture: the front screen would show them
    app._happened()


def test_ctrl_r_gives_up_a_call_that_hangs() -> None:
    source = FakeSource()

    async def body(driver: Driver) -> None:
        import threading

        source.hold = threading.Event()
        driver.app.wake()
        await driver.until(lambda: "LOST" in driver.text, "told that it does not answer")
        held, source.hold = source.hold, None
        await driver.press("ctrl+r")
        assert source.reconnected == 1
        await driver.sees("LIVE")
        held.set()

    drive(body, source=source)


def test_events_live_filtered_by_kind_and_opened() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("5")
        await driver.sees("ContainerPreempted", "NodeAdded")
        driver.source.tell(EventKind.NODE_LOST, node="host1:45455", why="it does not answer")
        await driver.sees("NodeLost", "it does not answer")
        await driver.press("f")
        await driver.sees("all kinds", "NodeLost  1")
        await driver.press("j", "enter")
        await driver.until(lambda: len({row.kind for row in table(driver).rows}) == 1, "one kind")
        await driver.press("f", "k", "enter")
        await driver.until(lambda: len(table(driver).rows) == 8)
        await driver.press("G", "k", "enter")
        await driver.sees("application_…_0001", "Containers (6)")

    drive(body, size=(120, 30))


def test_explain_says_what_the_cluster_says() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("4", "e")
        await driver.until(lambda: isinstance(driver.app.screen, TextDialog))
        assert "waits for a vcore" in driver.text
        await driver.press("escape")
        await driver.acts(("explain", container_id(1, 2)))

    drive(body)


def test_the_queue_says_why() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("4")
        await driver.sees("waits for a vcore (0 free)", "behind 1 in the queue")
        await driver.press("ctrl+k")
        assert "No work is lost" in driver.text

    drive(body, size=(120, 30))


def test_help_names_every_key_once() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "question_mark")
        dialog = driver.app.screen
        assert isinstance(dialog, TextDialog)
        lines = [line for line in dialog.lines if line.strip()]
        assert len(set(lines)) == len(lines)
        joined = "\n".join(lines)
        for word in ("Kill", "Pause", "Resume", "Promote", "Demote", "Log", "Explain", "Filter", "Sort", "Mark",
                     "Freeze the display", "Reconnect", "Copy id", "Quit", "Slower", "Faster", "Commands"):  # fmt: skip
            assert word in joined, word

    drive(body)


def test_ended_containers_can_be_seen_and_looked_into() -> None:
    source = FakeSource()
    ended = container(
        1, 77, state=ContainerState.DONE, exit_status=-104, exit_code=137, position=0,
        finished_at_ms=source.now.taken_at_ms - 5000, execution_type=ExecutionType.OPPORTUNISTIC,
    )  # fmt: skip
    source.ended[ended.container_id] = ended

    async def body(driver: Driver) -> None:
        await driver.press("2")
        assert "_000077" not in driver.text
        await driver.press("a")
        await driver.sees("_000077", "OOM", "with ended ones")

    drive(body, source=source)


def test_a_container_that_ends_while_it_is_looked_at_says_how(tmp_path: Path) -> None:
    source = FakeSource()
    name = container_id(2, 1)
    (tmp_path / "stdout").write_text("one\ntwo\n")
    (tmp_path / "stderr").write_text("trouble\n")
    source.change(name, log_directory=str(tmp_path))

    async def body(driver: Driver) -> None:
        await driver.press("2", "l")
        await driver.sees("two", "FOLLOW")
        with (tmp_path / "stdout").open("a") as file:
            file.write("three\n")
        await driver.sees("three")
        gone = dataclasses.replace(
            source.container(name), state=ContainerState.DONE, exit_status=3, exit_code=3
        )
        source.ended[name] = gone
        source.now = dataclasses.replace(source.now, containers=source.now.containers[1:])
        await driver.picture()
        await driver.sees("ended: 3")
        await driver.press("o")
        await driver.sees("trouble", "stderr")

    drive(body, source=source)


def test_the_log_searches_wraps_and_tells_times(tmp_path: Path) -> None:
    source = FakeSource()
    lines = [f"line {number} " + ("needle" if number % 100 == 7 else "straw") for number in range(1000)]
    (tmp_path / "stdout").write_text("\n".join([*lines, "x" * 200 + "END"]) + "\n")
    source.change(container_id(2, 1), log_directory=str(tmp_path))

    async def body(driver: Driver) -> None:
        await driver.press("2", "l")
        await driver.sees("line 999")
        assert "END" not in driver.text
        await driver.press("w")
        await driver.sees("END")
        await driver.press("slash")
        await driver.type("NEEDLE")
        await driver.press("enter")
        await driver.sees("line 907 needle")
        await driver.press("N")
        await driver.sees("line 807 needle")
        await driver.press("n")
        await driver.sees("line 907 needle", "STOPPED")
        await driver.press("n")  # from the other end
        await driver.sees("line 7 needle")
        await driver.press("G")
        await driver.sees("END", "FOLLOW")
        await driver.press("g")
        await driver.sees("line 0 ")
        await driver.press("t")
        await driver.until(lambda: driver.text.splitlines()[3][2:3] == ":", "times")
        await driver.press("escape", "escape")
        await driver.sees("Containers (12)")

    drive(body, source=source)


def test_names_with_markup_and_control_characters_are_only_text() -> None:
    source = FakeSource()
    evil = "[bold red]x[/] \x1b]0;owned\x07\x1b[2J\u202e[link=http://x]"
    source.change(container_id(2, 1), command=(evil,), diagnostics=evil, log_directory=evil, cgroup=evil)
    source.now = dataclasses.replace(
        source.now,
        applications=(application(1, name=evil, user=evil, queue=evil), *source.now.applications),
        nodes=tuple(dataclasses.replace(one, health_report=evil) for one in source.now.nodes),
    )
    source.tell(EventKind.APPLICATION_SUBMITTED, app=app_id(1), words={"name": evil}, why=evil)

    async def body(driver: Driver) -> None:
        seen = ""
        for keys in (("1",), ("w",), ("2",), ("enter",), ("ctrl+k",), ("n",), ("l",), ("escape", "escape"),
                     ("3",), ("w",), ("w", "ctrl+k"), ("n", "4"), ("5",), ("colon",)):  # fmt: skip
            await driver.press(*keys)
            await driver.pilot.pause(0.05)
            seen += driver.text + "\n"
        await driver.type("job")
        seen += driver.text
        await driver.press("escape")  # ends the search, which an app that ends does not wait for
        assert "[bold red]x[/]" in seen
        assert not [character for character in seen if (ord(character) < 32 and character != "\n")
                    or character in "\x7f\u202e"]  # fmt: skip

    drive(body, source=source, size=(150, 40))


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (5, 2), (40, 8), (300, 80)])
def test_any_size_of_terminal_is_harmless(size: tuple[int, int]) -> None:
    async def body(driver: Driver) -> None:
        for key in ("1", "w", "right", "2", "j", "enter", "l", "w", "t", "escape", "escape", "ctrl+k",
                    "n", "slash", "x", "escape", "question_mark", "escape", "3", "w", "4", "5", "colon",
                    "escape"):  # fmt: skip
            await driver.press(key)
        assert driver.app.is_running

    drive(body, size=size)


def test_a_storm_of_resizes_is_harmless() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        for step in range(60):
            await driver.pilot.resize_terminal(20 + (step * 37) % 180, 5 + (step * 13) % 60)
            if step % 7 == 0:
                await driver.press("enter" if step % 2 else "escape")
        await driver.pilot.resize_terminal(80, 24)
        await driver.press("2")
        await driver.sees("Containers (12)", "_000012")

    drive(body)


def test_the_interval_is_chosen_with_plus_and_minus() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("plus")
        assert driver.app.interval == 2.0
        await driver.sees(" 2s ")
        await driver.press("minus", "minus", "minus", "minus")
        assert driver.app.interval == 0.5

    drive(body, interval=1.0)


def test_the_mouse_chooses_opens_and_sorts() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2")
        await driver.pilot.click(LiveTable, offset=(5, 3))
        assert table(driver).cursor == 2
        await driver.pilot.click(LiveTable, offset=(18, 0))
        assert table(driver).sort_key == "state" or table(driver).sort_key == "type"
        await driver.pilot.click(LiveTable, offset=(5, 1), times=2)
        await driver.until(lambda: isinstance(driver.app.screen, DetailScreen))

    drive(body)


def test_a_thousand_containers_are_usable() -> None:
    async def body(driver: Driver) -> None:
        await driver.press("2", "G")
        await driver.sees("Containers (1000)", "_001000")
        await driver.press("C", "slash")
        await driver.type("_000777")
        assert "1 of 1000" in driver.text

    drive(body, source=FakeSource(cluster(1000)))


@pytest.mark.parametrize(
    "keys", [("s",), ("question_mark",), ("slash",), ("ctrl+p",), ("colon",), ("2", "k"), ("2", "enter"), ("2", "l")]
)  # fmt: skip
def test_whatever_is_open_a_terminal_of_any_size_is_harmless(keys: tuple[str, ...]) -> None:
    """Windows are dragged down to one cell, and come back."""

    async def body(driver: Driver) -> None:
        await driver.press(*keys)
        if keys == ("colon",):  # there are options to fold
            await driver.until(
                lambda: any(found.option_count > 3 for found in driver.app.screen.query(OptionList))
            )
        for cells in (*range(20, 0, -1), 40):
            for lines in (1, 5):
                await driver.pilot.resize_terminal(cells, lines)
        await driver.pilot.resize_terminal(80, 24)
        await driver.press("escape", "escape", "escape", "2")
        await driver.sees("Containers (12)", "_000012")

    drive(body)


def test_a_master_cannot_be_demoted_here_either() -> None:
    master = ContainerReport(
        container_id(1, 1),
        app_id(1),
        "h1:1",
        ExecutionType.GUARANTEED,
        Resource(128, 0),
        state=ContainerState.RUNNING,
        is_am=True,
    )
    assert not ACTIONS["demote"].possible(master) and ACTIONS["demote"].possible(replace(master, is_am=False))
    told = refusal("demote", master)
    assert told == f"{container_id(1, 1)} cannot be updated: it is its application's master"
    assert (
        refusal("demote", replace(master, is_am=False)) == "only a live guaranteed container can be demoted"
    )
