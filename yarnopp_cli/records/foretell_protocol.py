"""What a client asks a NodeManager about the future. Apart from ``container_protocol``, which most commands import."""

from __future__ import annotations

from .methods import Request
from .tracker_protocol import NodeAnswer as NodeAnswer
from .tracker_protocol import NodeOrders


class ForetellRequest(Request["NodeAnswer"]):
    """What would happen at the node if its ResourceManager gave these ``orders`` now, and then a user paused the
    containers ``pauses``? Nothing is changed.
    """

    orders: NodeOrders = NodeOrders()
    pauses: tuple[str, ...] = ()
