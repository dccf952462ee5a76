"""Why something waits: reasons, places, estimates, and whether it ever can."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.causes import Cause, CauseKind
from executor.core.estimates import remaining
from executor.core.scheduler import ContainerScheduler
from executor.records import ContainerState, ExecutionType, OpportunisticContainersStatus, Resource, counted
from yarnopp_cli.errors import ApplicationNotFoundError, ContainerNotFoundError, NodeNotFoundError
from yarnopp_cli.explain.estimates import Durations
from yarnopp_cli.records.explanation import (
    DECLARED,
    OF_ALL,
    OF_APPLICATION,
    OF_NODE,
    Expected,
    Explanation,
    Reason,
    ReasonCode,
    Start,
)
from yarnopp_cli.records.reports import ContainerReport, NodeReport, NodeState
from yarnopp_cli.records.requests import Token
from yarnopp_cli.views.containers import since_ms
from yarnopp_cli.views.explain.explanations import command, sentences
from yarnopp_cli.views.explain.reasons import briefly, text
from yarnopp_cli.whatif import foresight

from .node_words import Sight, explain_container, explain_node, start_of
from .rm_harness import GUARANTEED, OPPORTUNISTIC, TIMESTAMP, Cluster, Master, asks, done, queued, status

NOW = TIMESTAMP + 60_000
NODE = NodeReport(
    "h1:1",
    NodeState.RUNNING,
    "unix:/x",
    total=Resource(4096, 2),
    opportunistic=OpportunisticContainersStatus(queue_capacity=10),
)


KEEPS = {"paused_resources": "keep", "use_pause_for_preemption": True}


def report(
    number: int,
    state: ContainerState | None = ContainerState.RUNNING,
    size: Resource = Resource(512, 1),
    kind: ExecutionType = OPPORTUNISTIC,
    **more: object,
) -> ContainerReport:
    return ContainerReport(
        f"container_{TIMESTAMP}_0001_01_{number:06d}",
        f"application_{TIMESTAMP}_0001",
        "h1:1",
        kind,
        size,
        state=state,
        allocated_at_ms=NOW - 20_000,
        **more,  # type: ignore[arg-type]
    )


def run(number: int, since: int = 5000, **more: object) -> ContainerReport:
    return report(number, started_at_ms=NOW - since, **more)


def wait(number: int, place: int, **more: object) -> ContainerReport:
    return report(number, ContainerState.SCHEDULED, queued_at_ms=NOW - 12_000, position=place, **more)


def ended(number: int, seconds: float, **more: object) -> ContainerReport:
    given = {"exit_status": 0, "started_at_ms": NOW - 50_000, **more}
    return report(number, ContainerState.DONE, finished_at_ms=NOW - 50_000 + round(seconds * 1000), **given)


def codes(found: Explanation) -> list[str]:
    return [reason.code for reason in found.reasons]


def told(found: Explanation) -> str:
    return " ".join(sentences(found))


def said(found: Explanation, reason: Reason) -> str:
    return text(reason, found.at_ms, found.container.application_id if found.container else found.id)


def commands(found: Explanation) -> list[str]:
    return [command(one) for one in found.actions]


def expected(durations: Durations, one: ContainerReport) -> Expected:
    """How long a container is expected to run."""
    times = durations.of_node((one.application_id,), one.node_id)[-1]
    return Expected(one.duration_hint_ms, DECLARED) if one.duration_hint_ms else times.expected


def test_one_that_waits_for_a_vcore_behind_another() -> None:
    one, other = wait(4, 2), wait(3, 1)
    sight = Sight(NODE, [run(1), run(2), other, one], [ended(9, 10)])
    found = explain_container(one, sight, NOW)
    assert codes(found) == ["NO_VCORES", "BEHIND"]
    vcores, behind = found.reasons
    assert (vcores.needs, vcores.free, vcores.total) == (1, 0, 2)
    assert vcores.by == (run(1).container_id, run(2).container_id)
    assert behind.by == (other.container_id,)
    assert (found.position, found.queue_length, found.queue_limit) == (2, 2, 10)
    assert found.satisfiable and found.waits
    assert found.estimated_start_ms == NOW + 5000, "both run 5 s more, and two start then"
    assert "2nd of 2" in told(found) and "in about 5.0 s" in told(found)
    assert commands(found)[0] == f"yopp container promote {one.container_id}"


def test_one_that_waits_for_memory_and_who_keeps_it() -> None:
    big = Resource(3000, 0)
    stands = report(2, ContainerState.PAUSED, big)
    one = wait(3, 1, size=Resource(2000, 1))
    found = explain_container(one, Sight(NODE, [run(1), stands, one]), NOW)
    assert codes(found) == ["NO_MEMORY"]
    assert found.reasons[0].free == 4096 - 512 - 3000, "a paused container keeps its memory"
    assert stands.container_id in found.reasons[0].by
    assert found.estimated_start_ms == 0 and "Start time unknown" in told(found)


def test_one_that_can_never_start() -> None:
    one = wait(3, 1, size=Resource(512, 3))
    found = explain_container(one, Sight(NODE, [one], [ended(9, 1)]), NOW)
    assert codes(found) == ["TOO_BIG"] and not found.satisfiable
    assert found.estimated_start_ms == 0 and "never" in told(found)


def test_states_that_are_no_queue() -> None:
    assert codes(explain_container(report(1, None), Sight(NODE, []), NOW)) == ["AM_PENDING"]
    runs = explain_container(run(1), Sight(NODE, [run(1)]), NOW)
    assert not runs.waits and not runs.reasons and "is preempted when" in told(runs)
    has_ended = explain_container(ended(1, 2, exit_status=-102, diagnostics="made room\n"), None, NOW)
    assert not has_ended.waits and "made room" in told(has_ended)
    lost = explain_container(run(1), Sight(replace(NODE, state=NodeState.LOST), []), NOW)
    assert codes(lost) == ["NODE_LOST"] and not lost.satisfiable
    held = report(1, ContainerState.PAUSED, paused_at_ms=NOW - 10, cause=Cause(CauseKind.PERSON))
    assert codes(explain_container(held, Sight(NODE, [held]), NOW)) == ["PAUSED_BY_PERSON"]
    made_room = replace(held, cause=Cause(CauseKind.MAKE_ROOM))
    guaranteed = run(2, kind=GUARANTEED)
    full = [made_room, guaranteed, other := run(3, kind=GUARANTEED)]
    found = explain_container(made_room, Sight(NODE, full), NOW)
    assert codes(found) == ["PAUSED_FOR"]
    assert found.reasons[0].by == (guaranteed.container_id, other.container_id)
    shrunk = replace(held, cause=Cause(CauseKind.NODE_RESIZED))
    found = explain_container(shrunk, Sight(replace(NODE, total=Resource(4096, 1)), [shrunk, run(2)]), NOW)
    assert codes(found) == ["PAUSED_FOR"] and "the node was made smaller" in told(found)
    assert "It resumes when 1 vcore is free (0 now), held by 1 opportunistic" in told(found)
    assert "guaranteed containers" not in told(found)
    draining = Sight(replace(NODE, state=NodeState.DECOMMISSIONING), [wait(1, 1)])
    assert "NODE_DRAINING" in codes(explain_container(wait(1, 1), draining, NOW))


@given(
    running=st.lists(st.integers(0, 30_000), min_size=2, max_size=2),
    before=st.integers(0, 30),
    seconds=st.integers(1, 30),
)
def test_estimates_agree_with_a_queue_of_equal_tasks(running: list[int], before: int, seconds: int) -> None:
    """Two vcores, equal tasks: each end lets the next one start."""
    one = wait(100, before + 1)
    others = [wait(10 + number, number + 1) for number in range(before)]
    sight = Sight(
        replace(NODE, total=Resource(1 << 20, 2)),
        [*(run(number, since) for number, since in enumerate(running, 1)), *others, one],
        [ended(9, seconds)],
    )
    task = seconds * 1000
    free_at = sorted([int(remaining(task, since)) for since in running] + [0] * (2 - len(running)))
    for _ in range(before):
        free_at = sorted([free_at[0] + task, free_at[1]])
    start = start_of(one, sight, NOW)
    assert start is not None and (start.in_ms, start.expected) == (free_at[0], Expected(task, OF_APPLICATION))
    late = sum(1 for since in running if since > task)
    assert len(start.outlived) <= late and (late < 2 or start.outlived), "who has outlived its time is named"


def test_an_endless_queue_gives_no_estimate_but_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [wait(number, number, size=Resource(1, 2)) for number in range(1, 2000)]
    narrow = [wait(number, number, size=Resource(1, 1)) for number in range(2000, 4000)]
    sight = Sight(NODE, [run(5000, 500), *wide, *narrow], [ended(9001, 1)])
    assert start_of(narrow[-1], sight, NOW) == Start(2_998_500, Expected(1000, OF_APPLICATION))
    monkeypatch.setattr(foresight, "MOST_STEPS", 1000)
    assert start_of(narrow[-1], sight, NOW) is None
    assert "Start time unknown" in told(explain_container(narrow[-1], sight, NOW))


def test_what_has_outlived_its_time_is_named_and_nothing_lies_in_the_past() -> None:
    queue = [wait(1, 1), wait(2, 2), wait(3, 3)]
    sight = Sight(NODE, [run(5000, 1500), run(5001, 1500), *queue], [ended(9, 1)])
    found = explain_container(queue[0], sight, NOW)
    assert found.estimated_start_ms == NOW and found.outlived == (run(5000).container_id,)
    assert "may start at any moment, as …_005000 has run longer than expected (median task 1.0 s;" in told(
        found
    )
    third = explain_container(queue[2], sight, NOW)
    assert third.estimated_start_ms == NOW + 1000 and len(third.outlived) == 2
    assert "in about 1.0 s" in told(third) and "later if …_005000 and …_005001, which have run" in told(third)
    much = replace(sight, live=[run(5000, 90_000), run(5001, 90_000), *queue])
    assert explain_container(queue[0], much, NOW).estimated_start_ms == NOW + 88_000, (
        "as the node itself takes it"
    )


def test_what_was_declared_goes_before_what_was_learned() -> None:
    learned = [ended(9, 1), replace(ended(10, 100), application_id="application_1_0009")]
    running = [run(1, 5000, duration_hint_ms=8000), run(2, 5000, duration_hint_ms=20_000)]
    one = wait(3, 1, duration_hint_ms=8000)
    start = start_of(one, Sight(NODE, [*running, one], learned), NOW)
    assert start == Start(3000, Expected(8000, DECLARED))
    # The one that ends first was declared, the other learned: an estimate is as good as its weakest part.
    mixed = Sight(NODE, [running[0], run(2, 500), one, other := wait(4, 2)], learned)
    assert start_of(one, mixed, NOW) == Start(500, Expected(1000, OF_APPLICATION))
    assert start_of(other, mixed, NOW) == Start(3000, Expected(1000, OF_APPLICATION))
    stranger = replace(one, application_id="application_1_0008", duration_hint_ms=0)
    assert expected(Durations(learned), stranger) == Expected(50_500, OF_NODE)
    assert expected(Durations(learned), replace(stranger, node_id="h9:1")) == Expected(50_500, OF_ALL)
    assert expected(Durations([]), stranger) == Expected()


def test_time_that_it_stood_still_is_no_running_time() -> None:
    """Paused for 20 of 25 s: 5 s of 8 are over. Of one that stands, what it ran before is over."""
    went_on = run(1, 25_000, stood_ms=20_000, duration_hint_ms=8000)
    stands = report(
        2, ContainerState.PAUSED, started_at_ms=NOW - 30_000, paused_at_ms=NOW - 24_000, duration_hint_ms=8000,
        cause=Cause(CauseKind.MAKE_ROOM),
    )  # fmt: skip
    one = wait(3, 1, duration_hint_ms=8000)
    sight = Sight(replace(NODE, total=Resource(4096, 1)), [went_on, stands, one])
    assert start_of(stands, sight, NOW) == Start(3000, Expected(8000, DECLARED))
    assert start_of(one, sight, NOW) == Start(5000, Expected(8000, DECLARED)), "behind the paused one"
    assert expected(Durations([ended(1, 25, stood_ms=20_000)]), one).ms == 8000
    assert expected(Durations([ended(1, 25, stood_ms=20_000)]), wait(3, 1)).ms == 5000


def test_the_node_itself_is_asked_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ResourceManager has forgotten, or never heard, how long containers ran there."""
    queue = [wait(1, 1), wait(2, 2)]
    sight = Sight(NODE, [run(5), run(6), *queue])
    assert explain_container(queue[1], sight, NOW).estimate == ""
    monkeypatch.setattr(ContainerScheduler, "usual_seconds", lambda self, one: 20.0)
    found = explain_container(queue[1], sight, NOW)
    assert found.estimate == "node-queue-wait" and found.estimated_start_ms == NOW + 15_000
    assert "its node's own estimate" in told(found)


def test_nodes() -> None:
    found = explain_node(Sight(NODE, [run(1), run(2, kind=GUARANTEED), wait(3, 1)]), NOW)
    assert "1 guaranteed and 1 opportunistic" in told(found) and found.queue_length == 1
    assert codes(found) == ["NO_VCORES"]
    promised = replace(NODE, used=Resource(512, 1))
    stands = report(1, ContainerState.PAUSED, kind=GUARANTEED)
    assert "2 vcores, 4096 MB; 1 vcore of it is promised to guaranteed containers." in told(
        explain_node(Sight(promised, [stands]), NOW)
    )
    assert "promised" not in told(explain_node(Sight(promised, [run(1, kind=GUARANTEED)]), NOW))
    silent = replace(NODE, connected=False)
    found = explain_node(Sight(silent, []), NOW)
    assert codes(found) == ["NODE_UNUSABLE"] and " h1:1 is silent." in told(found)


# -- the ResourceManager's answers ---------------------------------------------------------------------------


def explain(cluster: Cluster, identifier: str) -> Explanation:
    return cluster.explain(identifier)


def test_an_application_whose_guaranteed_asks_find_no_room() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 2))
    master = cluster.master()
    granted = master.allocate(asks(5, Resource(100, 1))).allocated
    found = explain(cluster, master.app_id)
    assert codes(found) == ["NO_VCORES"] and found.satisfiable and found.waits
    assert found.reasons[0].by == tuple(one.id for one in granted)
    assert "3 requested and not granted yet" in told(found)
    for one in granted:
        node.beat(done(one))
    master.finish()
    assert "has ended" in told(explain(cluster, master.app_id))


def test_opportunistic_asks_that_find_full_queues_and_containers_that_queue() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1), queue_capacity=2)
    master = cluster.master()
    granted = master.allocate(asks(6, Resource(100, 1), OPPORTUNISTIC)).allocated
    assert len(granted) == 3
    node.beat(status(granted[0]), *map(queued, granted[1:]))
    found = explain(cluster, master.app_id)
    assert codes(found) == ["NO_VCORES", "QUEUE_CAPACITY"]
    assert (found.reasons[1].free, found.reasons[1].total) == (0, 2)
    assert (found.position, found.queue_length, found.queue_limit) == (1, 2, 2)
    assert "1 running, 2 queued and 3 requested and not granted yet" in told(found)
    assert (
        "2 queue on h1:1; the first, …_000002, is 1st of 2. Each needs 1 vcore, 100 MB; free: 0 vcores"
        in (told(found))
    )
    assert "held by 1 opportunistic container (…_000001" in told(found)
    assert commands(found)[0] == f"yopp container promote {granted[1].id}"
    assert commands(found)[1] == f"yopp explain {granted[1].id}"
    inside = explain(cluster, granted[2].id)
    assert codes(inside) == ["NO_VCORES", "BEHIND"] and inside.queue_length == 2
    assert explain(cluster, "h1:1").queue_length == 2


def test_asks_that_nothing_can_serve_any_more() -> None:
    cluster = Cluster()
    large = cluster.node("h2:2", total=Resource(4000, 4))
    master = cluster.master()
    master.allocate(asks(1, Resource(100, 4)))
    other = cluster.master()
    other.allocate(asks(1, Resource(100, 4)))
    cluster.node("h1:1", total=Resource(1000, 1))
    large.unregister()
    found = explain(cluster, other.app_id)
    assert codes(found) == ["TOO_BIG"] and not found.satisfiable


def test_a_master_that_waits() -> None:
    cluster = Cluster()
    app_id = cluster.submit()
    found = explain(cluster, app_id)
    assert codes(found) == ["AM_PENDING", "NO_NODE"] and not found.satisfiable
    cluster.node()
    assert codes(explain(cluster, app_id)) == ["AM_PENDING"]


@pytest.mark.parametrize(
    ("identifier", "error"),
    [
        (f"application_{TIMESTAMP}_0099", ApplicationNotFoundError),
        (f"container_{TIMESTAMP}_0099_01_000001", ContainerNotFoundError),
        ("nowhere:1", NodeNotFoundError),
        ("", NodeNotFoundError),
    ],
)
def test_what_is_not_there(identifier: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        explain(Cluster(), identifier)


def test_why_an_id_of_another_cluster_is_not_known() -> None:
    for name in ("application_1_0001", "container_1_0001_01_000001"):
        with pytest.raises((ApplicationNotFoundError, ContainerNotFoundError)) as caught:
            explain(Cluster(), name)
        assert "earlier start of this one" in caught.value.because
    with pytest.raises(ApplicationNotFoundError) as caught:
        explain(Cluster(), f"application_{TIMESTAMP}_0009")
    assert "that number is unknown" in caught.value.because


def test_reason_codes_are_those_that_are_promised() -> None:
    promised = "NO_VCORES NO_MEMORY BEHIND PAUSED_FOR QUEUE_CAPACITY USER_LIMIT NO_NODE NODE_DRAINING TOO_BIG"
    assert {*promised.split(), "AM_PENDING", "NODE_LOST"} <= {code.value for code in ReasonCode}


def test_one_that_was_resumed_and_waits_says_who_has_its_vcore() -> None:
    held = report(
        2, ContainerState.PAUSED, paused_at_ms=NOW - 9000, cause=Cause(CauseKind.RESUMED, by="root")
    )
    foreign = replace(run(9), container_id=f"container_{TIMESTAMP}_0036_01_000002")
    found = explain_container(held, Sight(NODE, [held, run(3), foreign]), NOW)
    assert codes(found) == ["NO_VCORES"]
    assert said(found, found.reasons[0]) == "resumed, and waits for a vcore; held by …_000003 and 36.c2"
    assert said(found, found.reasons[0]) in told(found)
    assert not [one for one in commands(found) if "resume" in one]
    busy = replace(NODE, opportunistic=replace(NODE.opportunistic, lent_vcores=-2))
    found = explain_container(held, Sight(busy, [held]), NOW)
    assert codes(found) == ["PRESSURE"] and "resumed, and other programs keep this machine busy" in told(
        found
    )
    behind = [held, run(3, kind=GUARANTEED), wait(5, 1, kind=GUARANTEED, size=Resource(512, 2))]
    found = explain_container(held, Sight(NODE, behind), NOW)
    assert "resumed, and what is free is needed by 1 container that waits, and is guaranteed" in told(found)


def test_one_that_goes_on_says_since_when_and_when_it_started() -> None:
    one = run(1, 13_000, resumed_at_ms=NOW - 2000, stood_ms=8000)
    found = explain_container(one, Sight(NODE, [one]), NOW)
    assert "is RUNNING on h1:1 for 2.0 s, since it was resumed (started 13 s ago)" in told(found)
    assert found.since_ms == since_ms(one) == NOW - 2000


def test_containers_of_other_applications_are_named_as_they_can_be_typed() -> None:
    one = replace(
        wait(2, 1),
        container_id=f"container_{TIMESTAMP}_0037_01_000002",
        application_id=f"application_{TIMESTAMP}_0037",
    )
    holder = replace(run(1), container_id=f"container_e03_{TIMESTAMP}_0036_01_000002")
    found = explain_container(one, Sight(NODE, [holder, run(3, 3000), one]), NOW)
    assert "(oldest 36.c2," in told(found)
    found = explain_node(Sight(NODE, [holder, run(3, 3000), one]), NOW)
    assert "First in its queue is 37.c2" in told(found) and "(oldest 36.c2," in told(found)


def test_one_that_does_not_fit_beside_its_own_master_waits_in_vain() -> None:
    master = replace(run(1), is_am=True, resource=Resource(128, 0))
    one = wait(2, 1, size=Resource(4096, 1))
    found = explain_container(one, Sight(NODE, [master, one]), NOW)
    assert codes(found) == ["TOO_BIG"] and not found.satisfiable
    why = "ts own master holds 128 MB of the 4096 MB of h1:1: ask for at most 3968 MB, or run without -d."
    assert why in told(found) and "It can never start there." in told(found)
    other = replace(master, application_id=f"application_{TIMESTAMP}_0002")
    assert explain_container(one, Sight(NODE, [other, one]), NOW).satisfiable, (
        "another's master ends some day"
    )


def test_an_ask_that_does_not_fit_beside_its_own_master_is_in_vain_unless_there_is_another_node() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(2048, 2))
    app_id = cluster.submit(am_resource=Resource(128, 0))
    [to_start] = node.beat().containers_to_start
    token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
    attempt = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
    node.beat(status(next(iter(cluster.containers().values()))))
    master = Master(cluster, app_id, attempt, token, cluster.connection())
    master.register()
    master.allocate(asks(1, Resource(2048, 1)))
    found = explain(cluster, master.app_id)
    assert codes(found) == ["TOO_BIG"] and not found.satisfiable, told(found)
    assert "ts own master holds 128 MB of the 2048 MB of h1:1: ask for at most 1920 MB" in told(found)
    assert "yopp node resize --memory 2176 --vcores 2 h1:1" in commands(found)
    node.beat()
    cluster.node("h2:2", total=Resource(2048, 2))
    assert explain(cluster, master.app_id).satisfiable


def test_what_others_took_says_nothing_of_one_that_has_run_much_longer() -> None:
    other = f"application_{TIMESTAMP}_0002"
    short = [replace(ended(number, 0.01), application_id=other) for number in (20, 21)]
    one = wait(4, 1)
    sight = Sight(NODE, [run(1, 12_000), run(2, 12_000), one], short)
    found = explain_container(one, sight, NOW)
    assert found.estimated_start_ms == 0 and found.outlived == ()
    why = "…_000001 has run 12 s, and its node's median is 0.0 s; `yopp run --expect 30s …` helps"
    assert f"Start time unknown: {why}." in told(found)
    assert explain_node(sight, NOW).estimated_start_ms == 0
    declared = replace(sight, live=[run(1, 12_000, duration_hint_ms=15_000), run(2, 12_000), one])
    assert explain_container(one, declared, NOW).estimated_start_ms == NOW + 3000, (
        "of one of them it is known"
    )
    a_little = replace(sight, live=[run(1, 15), run(2, 15), one])
    assert "may start at any moment" in told(explain_container(one, a_little, NOW))


def test_what_has_begun_of_a_job_says_more_than_the_short_jobs_before_it() -> None:
    other = f"application_{TIMESTAMP}_0002"
    short = [replace(ended(number, 0.01), application_id=other) for number in (900, 901)]
    queue = [wait(10 + place, place) for place in range(1, 29)]
    node = replace(NODE, opportunistic=replace(NODE.opportunistic, estimated_queue_wait_ms=14_000))
    sight = Sight(node, [run(1, 500), run(2, 500), *queue], short)
    found = explain_node(sight, NOW)
    # 0.48 s more of both, 0.98 s of each of 13 pairs
    assert found.last is not None and found.last.in_ms == 480 + 13 * 980
    assert (
        "starts in about 0.5 s (running tasks suggest 1.0 s; estimate), later if …_000001 and …_000002 keep "
        "running" in told(explain_container(queue[1], sight, NOW))
    )
    assert "the last of the 28 in about 13 s" in told(found) and "further" in told(found)
    assert found.last == start_of(queue[-1], sight, NOW), "each is told the same"
    old = replace(NODE, opportunistic=replace(NODE.opportunistic, estimated_queue_wait_ms=10))
    late = told(explain_node(replace(sight, node=old), NOW))
    assert "A further opportunistic container would wait about 13 s (behind all that wait)" in late
    assert expected(Durations([*short, ended(902, 3)], sight.live, NOW), queue[0]).ms == 3000, (
        "its own say most"
    )
    # The first has run for longer than others, and no longer is expected: its own time is no reason for that.
    halfway = replace(sight, live=[run(1, 15), run(2, 14), *queue])
    assert "at any moment, as …_000001 has run longer than expected (median on its node 0.0 s" in told(
        explain_container(queue[0], halfway, NOW)
    )
    unknown = replace(sight, live=[run(1, 12_000), run(2, 12_000), *queue])
    assert "further" not in told(explain_node(unknown, NOW)), "nobody knows when those before it start"


def test_since_when_a_node_is_in_its_state() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.at(5)
    node.beat()
    assert explain(cluster, "h1:1").since_ms == TIMESTAMP
    cluster.at(7)
    node.beat(healthy=False)
    cluster.at(9)
    node.beat(healthy=False)
    assert explain(cluster, "h1:1").since_ms == TIMESTAMP + 7000


@pytest.mark.parametrize(
    ("cause", "code", "words"),
    [
        (
            Cause(CauseKind.MACHINE_MEMORY, measured=300 << 20, limit=512 << 20),
            "PRESSURE",
            "short of memory: 300 MB are",
        ),
        (Cause(CauseKind.LENT_MEMORY), "PAUSED_FOR", "other containers use the memory that it had borrowed"),
        (Cause(CauseKind.LENT_CPU), "PAUSED_FOR", "guaranteed containers use the CPU that it had borrowed"),
        (Cause(CauseKind.OUTSIDE_CPU, cores=2), "PRESSURE", "other programs need the CPU"),
    ],
)
def test_what_was_measured_is_told_as_what_it_is_and_no_time_is_promised(
    cause: Cause, code: str, words: str
) -> None:
    paused = report(2, ContainerState.PAUSED, started_at_ms=NOW - 9000, paused_at_ms=NOW - 3000, cause=cause)
    sight = Sight(NODE, [paused, run(3, kind=GUARANTEED)], [ended(9, 30)])
    found = explain_container(paused, sight, NOW)
    assert codes(found) == [code] and words in told(found)
    assert "It resumes by itself when that is over." in told(found) and not found.estimated_start_ms
    if cause.kind is CauseKind.MACHINE_MEMORY:
        reason = found.reasons[0]
        assert (reason.resource, reason.free, reason.needs) == ("memoryMB", 300, 512)


def test_one_that_pressure_let_go_waits_for_room_like_others() -> None:
    paused = report(2, ContainerState.PAUSED, paused_at_ms=NOW - 3000, cause=Cause(CauseKind.RESUMED))
    found = explain_container(paused, Sight(NODE, [paused, run(3), run(4)]), NOW)
    assert said(found, found.reasons[0]).startswith("the pressure is over, and waits for a vcore; held by")


def test_one_that_waits_for_a_gpu_and_who_keeps_it() -> None:
    gpu = counted({"yarn.io/gpu": 1})
    node = replace(NODE, total=Resource(4096, 4, gpu))
    size = Resource(512, 1, gpu)
    one, holder = wait(3, 1, size=size), report(1, ContainerState.PAUSED, size)
    sight = Sight(node, [run(2), holder, one])
    found = explain_container(one, sight, NOW)
    assert codes(found) == ["NO_RESOURCE"]
    (reason,) = found.reasons
    assert (reason.resource, reason.needs, reason.free, reason.total) == ("yarn.io/gpu", 1, 0, 1)
    assert reason.by == (holder.container_id,), "a paused one has kept it"
    assert (
        "It needs 1 vcore, 512 MB, 1 yarn.io/gpu; free: 3 vcores, 3072 MB: it waits for 1 yarn.io/gpu"
        in told(found)
    )
    assert briefly(found.reasons) == "waits for 1 yarn.io/gpu (0 free)"
    assert briefly(found.reasons, 16) == "no gpu free"
    guaranteed = replace(one, execution_type=ExecutionType.GUARANTEED)
    kept = Sight(node, [run(2), holder, guaranteed], settings=KEEPS)
    assert "waits for 1 yarn.io/gpu, held by 1 opportunistic container" in told(
        explain_container(guaranteed, kept, NOW)
    )
    assert "until they end (`yopp.nodemanager.paused-resources = keep`)" in told(
        explain_container(guaranteed, kept, NOW)
    )
    ending = replace(kept, live=[run(2), replace(holder, state=ContainerState.KILLING), guaranteed])
    assert "opportunistic containers to make room" in told(explain_container(guaranteed, ending, NOW))


def test_a_node_that_is_too_small_by_a_gpu_is_not_made_larger() -> None:
    size = Resource(512, 1, counted({"yarn.io/gpu": 1}))
    one = wait(3, 1, size=size)
    found = explain_container(one, Sight(NODE, [one]), NOW)
    assert codes(found) == ["TOO_BIG"] and not found.satisfiable
    assert all("resize" not in one for one in commands(found))
