"""What this host can enforce, what prevents the rest, and what to type to fix it.

A check tries the real mechanism if that takes at most about 50 ms. Nothing here prints; only ``fix`` changes
anything that existed before, and only what belongs to this run directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...settings.loading import Configuration, defaults, examine
from ..rundir import RunDir
from . import cgroups, cluster, host, service, slots, users
from .check import Check, Examined, exit_code

__all__ = ["CHECKS", "Check", "Examined", "examine_host", "exit_code"]

CHECKS: tuple[Callable[[Examined], Iterator[Check]], ...] = (
    host.software,
    host.kernel,
    cluster.configuration,
    host.machine,
    cgroups.limits,
    slots.slots,
    users.users,
    host.limits,
    cluster.run_directory,
    cluster.disks,
    host.clock,
    cluster.versions,
    cluster.rm_address,
    cluster.pages,
    cluster.proxy,
    cluster.stale_daemons,
    service.service,
)
"""All checks, in the order of the output. Each yields one line per finding."""


def examine_host(
    run_dir: RunDir,
    conf: Sequence[str],
    define: Sequence[str],
    environ: Mapping[str, str],
    *,
    fix: bool = False,
) -> Iterator[Check]:
    """Run all checks and yield each finding at once. ``fix`` removes leftovers of dead daemons of this
    run directory."""
    state_dir = run_dir.state_dir
    findings = examine(conf, define, environ=environ, state_dir=state_dir)
    found = findings.configuration
    if found is None:  # the other checks run nevertheless
        found = Configuration(defaults(state_dir), {}, state_dir=state_dir)
    examined = Examined(run_dir, findings, found, fix)
    for check in CHECKS:
        yield from check(examined)
