"""YARN's properties that cannot mean anything on one host: each refused with the reason, and what serves instead.

A property that did nothing would be a promise broken in silence. From TOML and the command line these are errors;
in Hadoop's own XML files, which name them as a matter of course, each is a warning with its reason.
"""

from __future__ import annotations

from executor.light import Record


class Refusal(Record):
    """Why a property is refused, what to use instead, and the values that ask for nothing and so may stand."""

    because: str
    instead: str
    harmless: tuple[str, ...] = ()

    def stands(self, value: object) -> bool:
        """Whether this value asks for nothing beyond what happens anyway."""
        text = str(value).strip().lower()
        return text in self.harmless


_NO_PORT = "daemons of one host meet at Unix sockets in their run directory, where no address is needed"
_ELASTIC = (
    "each container has a memory limit of its own, beyond which it alone ends, so that a node as a whole never "
    "runs out for lack of a controller above them"
)
_ELASTIC_INSTEAD = (
    "yopp.nodemanager.pressure.memory-available-mb ends opportunistic containers before the machine's memory runs out, "
    "and yarn.nodemanager.resource.memory.enforced = false lets containers exceed their own limits"
)

REFUSED: dict[str, Refusal] = {
    "yarn.nodemanager.amrmproxy.ha.enable": Refusal(
        "there is one NodeManager for each node and nothing to fail over to; the proxy's state is kept in its "
        "state directory",
        "yarn.nodemanager.recovery.enabled lets the next NodeManager go on with the proxy's masters",
        ("false",),
    ),
    "yarn.nodemanager.amrmproxy.wait.uam-register.done": Refusal(
        "it belongs to federation, where a proxy registers masters with several ResourceManagers; here is one",
        "leave it out",
        ("false",),
    ),
    "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": Refusal(
        "a master's token names its attempt and ends with it, the sockets check the caller's user besides, and "
        "the key never leaves the daemon's memory, so there is nothing that could wear out",
        "leave it out; a new ResourceManager has a new key",
    ),
    "yarn.resourcemanager.resource-tracker.address": Refusal(
        _NO_PORT, "use --run-dir or YOPP_RUN_DIR to tell clusters apart"
    ),
    "yarn.resourcemanager.admin.address": Refusal(
        _NO_PORT, "use --run-dir or YOPP_RUN_DIR to tell clusters apart"
    ),
    "yarn.nodemanager.address": Refusal(
        "a node's port is a name (45454 and up), and what listens is the Unix socket nm-<port>.sock",
        "use `yopp up --nodes N`, which gives each node a name of its own",
    ),
    "yarn.nodemanager.localizer.address": Refusal(
        "files are on this host already: there is nothing to localise over a network",
        "scripts go with the request; anything else is read where it is",
    ),
    "yarn.nodemanager.linux-container-executor.cgroups.mount": Refusal(
        "mounting cgroup hierarchies is the system's business, and would change it for everybody",
        "mount them before, and see what is found with `yopp doctor`",
        ("false",),
    ),
    "yarn.nodemanager.linux-container-executor.cgroups.mount-path": Refusal(
        "hierarchies are found in /proc/self/mountinfo wherever they are",
        "yarn.nodemanager.linux-container-executor.cgroups.hierarchy says where below them",
    ),
    "yarn.nodemanager.process-kill-wait.ms": Refusal(
        "it is how long YARN waits for a pid file to appear; a process here is known by its pid from its start",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms is the time between SIGTERM and SIGKILL",
    ),
    "yarn.nodemanager.container-executor.class": Refusal(
        "there is one executor, which uses the cgroups that the host offers",
        "yopp.nodemanager.cgroups.mode chooses between v1, v2 and none",
    ),
    "yarn.nodemanager.linux-container-executor.resources-handler.class": Refusal(
        "what each container's cgroup is told follows from its size and type",
        "yopp.nodemanager.cgroups.mode = none switches cgroups off",
    ),
    "yarn.nodemanager.elastic-memory-control.enabled": Refusal(_ELASTIC, _ELASTIC_INSTEAD, ("false",)),
    "yarn.nodemanager.elastic-memory-control.timeout-sec": Refusal(_ELASTIC, _ELASTIC_INSTEAD),
    "yarn.nodemanager.elastic-memory-control.oom-handler": Refusal(_ELASTIC, _ELASTIC_INSTEAD),
}
"""By name. None of them is declared as a property."""
