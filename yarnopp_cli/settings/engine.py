"""Properties that say where the commands work: here, or on a YARN cluster."""

from __future__ import annotations

from executor.light import dataclass
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Which engine the commands speak to."""

    name: str = setting(
        "yopp.engine.name",
        "local",
        choices=("local", "yarn"),
        doc="""Where commands that look at clusters and run jobs work. local: on this host. yarn: on the YARN cluster
        that yopp.engine.rm-addresses names, through its REST API. `yopp engine use` sets both; --engine, --rm,
        YOPP_ENGINE and YOPP_RM go before them.""",
    )
    rm_addresses: str = setting(
        "yopp.engine.rm-addresses",
        "",
        doc="""The URLs of a YARN cluster's ResourceManagers, with commas between; they are tried in turn.
        http://host:8088 where only a host is written.""",
    )
