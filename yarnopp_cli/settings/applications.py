"""Properties of jobs and their masters, and of the cluster that the commands work on."""

from __future__ import annotations

from executor.light import dataclass
from executor.records import Resource
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationSettings:
    """Defaults and bounds of ``yopp run``, ``yopp dshell`` and ``yopp pi``."""

    num_opportunistic_maps_percent: int = setting(
        "mapreduce.job.num-opportunistic-maps-percent",
        0,
        at_least=0,
        at_most=100,
        doc="""The percentage of maps that run in opportunistic containers; yopp.pi.opportunistic-maps says
        which.""",
    )
    opportunistic_maps: str = setting(
        "yopp.pi.opportunistic-maps",
        "SPREAD",
        choices=("SPREAD", "FIRST_OF_HUNDRED"),
        doc="""Which maps are opportunistic. SPREAD: the percentage of all, spread evenly. FIRST_OF_HUNDRED, YARN's
        rule: of each hundred maps the first, as many as the percentage says, so that 40 percent of 50 maps are
        40.""",
    )
    preempted_counts_as_failed: bool = setting(
        "yopp.dshell.preempted-counts-as-failed",
        False,
        doc="""YARN's rule: a container of `yopp dshell` that was preempted, shed or refused has failed, and its job
        with it; only one that was lost is replaced. Otherwise all of them are asked for again.""",
    )
    map_memory_mb: int = setting(
        "mapreduce.map.memory.mb", 1024, at_least=1, doc="Memory of the container of one map, in MB."
    )
    map_vcores: int = setting("mapreduce.map.cpu.vcores", 1, at_least=0, doc="Vcores of one map.")
    map_max_attempts: int = setting(
        "mapreduce.map.maxattempts",
        4,
        at_least=1,
        doc="How often a failing map is tried before the job fails.",
    )
    reduce_memory_mb: int = setting(
        "mapreduce.reduce.memory.mb", 1024, at_least=1, doc="Memory of the container of the reduce, in MB."
    )
    reduce_vcores: int = setting("mapreduce.reduce.cpu.vcores", 1, at_least=0, doc="Vcores of the reduce.")
    reduce_max_attempts: int = setting(
        "mapreduce.reduce.maxattempts", 4, at_least=1, doc="How often a failing reduce is tried."
    )
    retry_minimum_interval_ms: int = setting(
        "yarn.nodemanager.container-retry-minimum-interval-ms",
        1000,
        at_least=0,
        doc="The shortest time after which `yopp dshell` tries a failed container again; see its retry options.",
    )
    am_memory_mb: int = setting(
        "yarn.app.mapreduce.am.resource.mb",
        128,
        at_least=1,
        doc="Memory of the master's container of a detached job, in MB.",
    )
    am_vcores: int = setting(
        "yarn.app.mapreduce.am.resource.cpu-vcores",
        0,
        at_least=0,
        doc="""Vcores of the master's container of a detached job. 0, since a master that only waits should
        not take a core from a small host.""",
    )
    run_memory_mb: int = setting(
        "yopp.run.memory-mb",
        512,
        at_least=1,
        doc="Memory of each container of `yopp run`, in MB, unless it says so.",
    )
    run_vcores: int = setting("yopp.run.vcores", 1, at_least=0, doc="Vcores of each container of `yopp run`.")
    max_preemptions: int = setting(
        "yopp.am.max-preemptions-per-container",
        100,
        at_least=1,
        doc="""How often one piece of work may be preempted, shed or refused before its job gives up with exit
        code 75. It is asked for again each time, and costs the job no attempt.""",
    )
    on_demand_enabled: bool = setting(
        "yopp.on-demand.enabled",
        True,
        doc="A job with no cluster running starts one for itself, which ends with its last job.",
    )

    @property
    def am_resource(self) -> Resource:
        """What the master of a detached job gets."""
        return Resource(self.am_memory_mb, self.am_vcores)


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
