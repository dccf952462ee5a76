"""YARN's properties that have no meaning on one host: each is refused with the reason and the alternative.

A property without an effect would mislead. In TOML and on the command line these properties are errors; in Hadoop's own
XML files, which commonly contain them, each is a warning with its reason.
"""

from __future__ import annotations

from executor.light import Record


class Refusal(Record):
    """The reason why a property is refused, its alternative, and the values without an effect, which are accepted."""

    because: str
    instead: str
    harmless: tuple[str, ...] = ()

    def stands(self, value: object) -> bool:
        """Whether this value has no effect, because it requests the behaviour that yopp has anyway."""
        text = str(value).strip().lower()
        return text in self.harmless


_NO_PORT = "the daemons of one host use Unix sockets in their run directory, which need no address"
_ELASTIC = (
    "each container has its own memory limit, and only a container that exceeds it is killed, so no controller "
    "for the whole node is needed"
)
_ELASTIC_INSTEAD = (
    "yopp.nodemanager.pressure.memory-available-mb ends opportunistic containers before the machine's memory runs out, "
    "and yarn.nodemanager.resource.memory.enforced = false lets containers exceed their own limits"
)

REFUSED: dict[str, Refusal] = {
    "yarn.nodemanager.amrmproxy.ha.enable": Refusal(
        "there is one NodeManager for each node, and no other to fail over to; the proxy's state is kept in its "
        "state directory",
        "with yarn.nodemanager.recovery.enabled, the next NodeManager continues to serve the proxy's masters",
        ("false",),
    ),
    "yarn.nodemanager.amrmproxy.wait.uam-register.done": Refusal(
        "it belongs to federation, where a proxy registers masters with several ResourceManagers; here there is one",
        "leave it out",
        ("false",),
    ),
    "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": Refusal(
        "a master's token is valid only for its attempt, the sockets also check the caller's user, and the key never "
        "leaves the daemon's memory, so keys need not be rolled",
        "leave it out; a new ResourceManager has a new key",
    ),
    "yarn.nodemanager.resource-plugins": Refusal(
        "yarn.io/gpu is the only plugin; it works if the GPUs of the host are listed or can be discovered",
        "set yarn.resource-types = yarn.io/gpu and yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices = auto",
        ("",),
    ),
    "yarn.resourcemanager.resource-tracker.address": Refusal(
        _NO_PORT, "use --run-dir or YOPP_RUN_DIR to tell clusters apart"
    ),
    "yarn.resourcemanager.admin.address": Refusal(
        _NO_PORT, "use --run-dir or YOPP_RUN_DIR to tell clusters apart"
    ),
    "yarn.nodemanager.address": Refusal(
        "a node's port is only a name (45454 and up); the node listens on the Unix socket nm-<port>.sock",
        "use `yopp up --nodes N`, which gives each node its own name",
    ),
    "yarn.nodemanager.localizer.address": Refusal(
        "all files are on this host: nothing is localised over a network",
        "scripts are sent with the request; other files are read in place",
    ),
    "yarn.nodemanager.linux-container-executor.cgroups.mount": Refusal(
        "mounting cgroup hierarchies is left to the system, because it affects all users",
        "mount them first, and check them with `yopp doctor`",
        ("false",),
    ),
    "yarn.nodemanager.linux-container-executor.cgroups.mount-path": Refusal(
        "hierarchies are found in /proc/self/mountinfo wherever they are",
        "yarn.nodemanager.linux-container-executor.cgroups.hierarchy is the path below them",
    ),
    "yarn.nodemanager.process-kill-wait.ms": Refusal(
        "YARN waits for a pid file for this time; here, the pid of a process is known from its start",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms is the time between SIGTERM and SIGKILL",
    ),
    "yarn.nodemanager.container-executor.class": Refusal(
        "there is one executor, which uses the cgroups that the host offers",
        "yopp.nodemanager.cgroups.mode chooses between v1, v2 and none",
    ),
    "yarn.nodemanager.linux-container-executor.resources-handler.class": Refusal(
        "the settings of each container's cgroup follow from its size and type",
        "yopp.nodemanager.cgroups.mode = none switches cgroups off",
    ),
    "yarn.nodemanager.elastic-memory-control.enabled": Refusal(_ELASTIC, _ELASTIC_INSTEAD, ("false",)),
    "yarn.nodemanager.elastic-memory-control.timeout-sec": Refusal(_ELASTIC, _ELASTIC_INSTEAD),
    "yarn.nodemanager.elastic-memory-control.oom-handler": Refusal(_ELASTIC, _ELASTIC_INSTEAD),
}
"""The refused properties, by name. None of them is declared as a property."""
