"""The random world of ``test_rm_stateful`` again, with three queues, two users, limits and preemption."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from executor.records import GPU, Resource
from yarnopp_cli.records.client_protocol import GetQueueInfoRequest, MoveApplicationRequest

from .rm_harness import Cluster
from .test_rm_preemption import preempting
from .test_rm_queues import tree
from .test_rm_stateful import EXPIRY_S, Life, LivingMaster

QUEUES = tree(
    root="p,default",
    root_p={"capacity": 60.0, "queues": "x,y"},
    root_p_x={"capacity": 50.0, "user_limit_factor": -1.0, "ordering_policy": "fair"},
    root_p_y={"capacity": 50.0, "minimum_user_limit_percent": 50, "user_limit_factor": 2.0},
    root_default={"capacity": 40.0, "user_limit_factor": -1.0},
)


class LifeWithQueues(Life):
    """Applications in all queues; some move. Containers are preempted a moment after they are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(
            queues=QUEUES,
            capacity=preempting(preemption_interval_ms=100, max_wait_before_kill_ms=200),
            nm_expiry_interval_ms=int(EXPIRY_S * 1000),
            am_expiry_interval_ms=10_000_000,
            allocation_expiry_interval_ms=20_000,
            client_am_grace_ms=5_000_000,
            sorting_nodes_interval_ms=100,
            nodes_used=2,
            resource_types=GPU,
        )

    @precondition(lambda self: len(self.masters) < 5)
    @rule(
        priority=st.integers(0, 1),
        queue=st.sampled_from(("x", "y", "default")),
        user=st.sampled_from(("ada", "bob")),
    )
    def an_application_comes(self, priority: int, queue: str, user: str) -> None:
        master = self.cluster.master(as_user=user, priority=priority, queue=queue)
        self.masters.append(LivingMaster(master))

    @precondition(lambda self: any(not master.over for master in self.masters))
    @rule(number=st.integers(0, 4), queue=st.sampled_from(("x", "y", "default")))
    def an_application_moves(self, number: int, queue: str) -> None:
        master = self.master(number)
        if not self.cluster.app(master.master.app_id).finished_at_ms:
            self.cluster.ask(MoveApplicationRequest(master.master.app_id, queue), uid=0)

    @invariant()
    def queues_share_the_cluster(self) -> None:
        queues = {one.path: one for one in self.cluster.ask(GetQueueInfoRequest()).queues}
        assert queues["root"].used == queues["root.p"].used + queues["root.default"].used
        total = sum((one.guaranteed.vcores for one in queues.values() if one.leaf), 0)
        assert total == queues["root"].guaranteed.vcores
        assert all(one.used.at_least_zero() == one.used != Resource(-1, -1) for one in queues.values())


LifeWithQueues.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLifeWithQueues = LifeWithQueues.TestCase
del Life
