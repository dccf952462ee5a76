"""Properties of jobs and their masters, and of the cluster that the commands work on."""

from __future__ import annotations

from executor.light import dataclass
from executor.records import Resource
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationSettings:
    """Defaults and bounds of ``yopp run``, ``yopp dshell`` and ``yopp pi``."""

    num_opportunistic_maps_percent: int = setting(
        "mapreduce.job.num-opportunistic-maps-percent", 0, at_least=0, at_most=100
    )
    """The percentage of maps that run in opportunistic containers; yopp.pi.opportunistic-maps determines which."""
    opportunistic_maps: str = setting(
        "yopp.pi.opportunistic-maps", "SPREAD", choices=("SPREAD", "FIRST_OF_HUNDRED")
    )
    """Which maps are opportunistic. SPREAD: the percentage of all maps, spread evenly. FIRST_OF_HUNDRED, YARN's
    rule: the first maps of each hundred, as many as the percentage says, so that 40 percent of 50 maps are 40."""
    preempted_counts_as_failed: bool = setting("yopp.dshell.preempted-counts-as-failed", False)
    """YARN's rule: a container of `yopp dshell` that was preempted, shed or refused has failed, and its job with
    it; only one that was lost is replaced. Otherwise all of them are requested again."""
    map_memory_mb: int = setting("mapreduce.map.memory.mb", 1024, at_least=1)
    """Memory of the container of one map, in MB."""
    map_vcores: int = setting("mapreduce.map.cpu.vcores", 1, at_least=0)
    """Vcores of one map."""
    map_max_attempts: int = setting("mapreduce.map.maxattempts", 4, at_least=1)
    """How many times a failing map is tried before the job fails."""
    reduce_memory_mb: int = setting("mapreduce.reduce.memory.mb", 1024, at_least=1)
    """Memory of the container of the reduce, in MB."""
    reduce_vcores: int = setting("mapreduce.reduce.cpu.vcores", 1, at_least=0)
    """Vcores of the reduce."""
    reduce_max_attempts: int = setting("mapreduce.reduce.maxattempts", 4, at_least=1)
    """How many times a failing reduce is tried before the job fails."""
    retry_minimum_interval_ms: int = setting(
        "yarn.nodemanager.container-retry-minimum-interval-ms", 1000, at_least=0
    )
    """The shortest time after which `yopp dshell` retries a failed container; see its retry options."""
    am_memory_mb: int = setting("yarn.app.mapreduce.am.resource.mb", 128, at_least=1)
    """Memory of the master's container of a detached job, in MB."""
    am_vcores: int = setting("yarn.app.mapreduce.am.resource.cpu-vcores", 0, at_least=0)
    """Vcores of the master's container of a detached job. 0 by default, because a master that only waits should not
    occupy a core of a small host."""
    run_memory_mb: int = setting("yopp.run.memory-mb", 512, at_least=1)
    """Memory of each container of `yopp run`, in MB, unless --memory is given."""
    run_vcores: int = setting("yopp.run.vcores", 1, at_least=0)
    """Vcores of each container of `yopp run`, unless --vcores is given."""
    max_preemptions: int = setting("yopp.am.max-preemptions-per-container", 100, at_least=1)
    """How often one piece of work may be preempted, shed or refused before its job gives up with exit code 75. Each
    time it is requested again, and that is not counted as an attempt."""
    on_demand_enabled: bool = setting("yopp.on-demand.enabled", True)
    """A job that finds no running cluster starts one for itself, which ends with its last job."""

    @property
    def am_resource(self) -> Resource:
        """What the master of a detached job gets."""
        return Resource(self.am_memory_mb, self.am_vcores)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Which engine the commands speak to."""

    name: str = setting("yopp.engine.name", "local", choices=("local", "yarn"))
    """Which cluster commands work on. local: this host's. yarn: the YARN cluster that yopp.engine.rm-addresses
    names, through its REST API. `yopp engine use` sets both; --engine, --rm, YOPP_ENGINE and YOPP_RM take
    precedence."""
    rm_addresses: str = setting("yopp.engine.rm-addresses", "")
    """The URLs of a YARN cluster's ResourceManagers, separated by commas; they are tried in turn. A host alone
    means http://host:8088."""
