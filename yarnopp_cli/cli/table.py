"""The command table: every command's name, module, one-line summary and section of the help. Pure data.

The modules are imported only when their command runs, so that ``yopp --help`` costs one import of typer and
no more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One command. ``group`` is true if it has subcommands; ``module`` is under ``yarnopp_cli.cli``, as are ``more``,
    in which further subcommands are."""

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
            "status", "lifecycle.status", "Say whether the cluster runs (0), is stopped (3), or partly (4)"
        ),
        Entry("rm", "lifecycle.daemons", "Start, stop or run the ResourceManager alone", group=True),
        Entry("nm", "lifecycle.daemons", "Start, stop or run one NodeManager", group=True),
        Entry(
            "doctor", "lifecycle.doctor", "Check what this host can enforce, and what to type for the rest"
        ),
        Entry(
            "config",
            "lifecycle.config",
            "Show, check and change the configuration",
            group=True,
            more=("lifecycle.config_changes",),
        ),
    ),
    "Jobs": (
        Entry("run", "jobs.run", "Run a command in containers, and end with its exit code"),
        Entry("dshell", "jobs.dshell", "YARN's distributed shell, with all its options"),
        Entry("pi", "jobs.pi", "Estimate pi in map containers, as Hadoop's example does"),
        Entry("wait", "jobs.wait", "Wait for jobs or containers, and end with their exit code"),
        Entry("logs", "jobs.logs", "Print or follow the output of containers"),
    ),
    "Looking": (
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
        Entry("explain", "looking.explain", "Say why something waits, and when it may start"),
        Entry("stats", "looking.stats", "Measured CPU and memory against what was allocated"),
        Entry("events", "looking.events", "What happened, and what happens now"),
        Entry("report", "looking.report", "A job's timeline and waiting times as one HTML file"),
        Entry("ps", "looking.container", "The containers that run, queue or are paused now"),
        Entry("top", "looking.top", "Watch and steer nodes, containers and applications, live"),
    ),
    "Admin": (
        Entry("metrics", "admin.metrics", "Print figures for Prometheus, or as Hadoop's beans"),
        Entry("rmadmin", "admin.rmadmin", "Administer the ResourceManager, in YARN's words", group=True),
        Entry(
            "engine", "admin.engine", "Where commands work: on this host, or on a YARN cluster", group=True
        ),
    ),
    "Help": (
        Entry("man", "help.man", "Open the manual"),
        Entry("completion", "help.completion", "Completion for bash, zsh and fish", group=True),
        Entry("version", "help.version", "The versions of yopp and its dependencies"),
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
