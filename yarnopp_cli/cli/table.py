"""The command table: every command's name, module, one-line summary and section of the help. Pure data.

The modules are imported only when their command runs.
"""

from __future__ import annotations

from executor.light import Record


class Entry(Record):
    """One command. ``group`` is true if it has subcommands; ``module`` is under ``yopp_cli.cli``, as are ``more``, the
    modules of further subcommands."""

    name: str
    module: str
    summary: str
    group: bool = False
    more: tuple[str, ...] = ()


SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Lifecycle": (
        Entry("up", "lifecycle.up", "Start the cluster: a ResourceManager and its NodeManagers"),
        Entry("down", "lifecycle.down", "End the cluster"),
        Entry(
            "status",
            "lifecycle.status",
            "Show whether the cluster runs (0), is stopped (3) or neither (4)",
        ),
        Entry("rm", "lifecycle.daemons", "Start, stop or run only the ResourceManager", group=True),
        Entry("nm", "lifecycle.daemons", "Start, stop or run one NodeManager", group=True),
        Entry("service", "lifecycle.service", "Start the cluster at boot, as a systemd service", group=True),
        Entry("doctor", "lifecycle.doctor", "Check what this host can enforce, and how to enable the rest"),
        Entry(
            "config",
            "lifecycle.config",
            "Show, check and change the configuration",
            group=True,
            more=("lifecycle.config_changes",),
        ),
    ),
    "Jobs": (
        Entry("run", "jobs.run", "Run a command in containers, and exit with its exit code"),
        Entry("rerun", "jobs.rerun", "Run a job again: all of it, what failed, or some tasks"),
        Entry("dshell", "jobs.dshell", "Run YARN's distributed shell, with all its options"),
        Entry("pi", "jobs.pi", "Estimate pi in map containers, as Hadoop's example does"),
        Entry("wait", "jobs.wait", "Wait for jobs or containers, and exit with their exit code"),
        Entry("logs", "jobs.logs", "Print or follow the output of containers"),
    ),
    "Cluster": (
        Entry("app", "looking.application", "List, show, kill and move applications", group=True),
        Entry("attempt", "looking.application", "List and show the attempts of an application", group=True),
        Entry(
            "container",
            "looking.container",
            "List, show, kill, pause, promote and resize containers",
            group=True,
            more=(
                "looking.container_changes",
                "looking.container_shell",
            ),
        ),
        Entry("node", "looking.node", "List, show, drain, resume and resize nodes", group=True),
        Entry("queue", "looking.queue", "List and show queues", group=True),
        Entry("explain", "looking.explain", "Explain why a job or container waits, and when it may start"),
        Entry("stats", "looking.stats", "Show measured CPU and memory beside the allocation"),
        Entry("events", "looking.events", "Print or follow the events of the cluster"),
        Entry("report", "looking.report", "Write a job's timeline and waiting times as one HTML file"),
        Entry("ps", "looking.container", "List running, queued and paused containers"),
        Entry("top", "looking.top", "Watch and control nodes, containers and applications, live"),
    ),
    "Admin": (
        Entry("metrics", "admin.metrics", "Print metrics for Prometheus, or as Hadoop's beans"),
        Entry("rmadmin", "admin.rmadmin", "Administer the ResourceManager, with YARN's commands", group=True),
        Entry("engine", "admin.engine", "Choose between this host and a YARN cluster", group=True),
    ),
    "Help": (
        Entry("man", "help.man", "Open the manual"),
        Entry("completion", "help.completion", "Print the completion for bash, zsh and fish", group=True),
        Entry("version", "help.version", "Print the versions of yopp and its dependencies"),
    ),
}
"""The commands by the sections of the help, in its order."""

TABLE: tuple[Entry, ...] = tuple(entry for section in SECTIONS.values() for entry in section)

COMMANDS: dict[str, Entry] = {entry.name: entry for entry in TABLE}

ALIASES: dict[str, tuple[str, ...]] = {
    "application": ("app",),
    "applications": ("app", "list"),
    "apps": ("app", "list"),
    "applicationattempt": ("attempt",),
    "containers": ("container", "list"),
    "nodes": ("node", "list"),
    "queues": ("queue", "list"),
    "tui": ("top",),
    "distributedshell": ("dshell",),
    "resourcemanager": ("rm", "run"),
    "nodemanager": ("nm", "run"),
}
"""Other names of commands, YARN's among them."""
