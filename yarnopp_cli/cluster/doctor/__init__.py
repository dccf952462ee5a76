"""What this host can enforce, what stands in the way, and what to type for it.

Every check tries the real thing where that takes no more than some 50 ms. Nothing here prints; only ``fix`` changes
what was there before, and only what bears this run directory's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...settings.loading import Configuration, defaults, examine
from . import cgroups, cluster, host
from .check import Check, Examined, Surroundings, exit_code

__all__ = ["CHECKS", "Check", "Examined", "Surroundings", "examine_host", "exit_code"]

CHECKS: tuple[Callable[[Examined], Iterator[Check]], ...] = (
    host.software,
    host.kernel,
    cluster.configuration,
    host.machine,
    cgroups.limits,
    host.limits,
    cluster.run_directory,
    cluster.disks,
    host.clock,
    cluster.rm_address,
    cluster.pages,
    cluster.proxy,
    cluster.stale_daemons,
)
"""All checks, in the order in which people read them. Each yields a line for each thing that it looks at."""


def examine_host(place: Surroundings, *, fix: bool = False) -> Iterator[Check]:
    """Run all checks and yield each finding at once. ``fix`` removes what dead daemons of this run directory left."""
    state_dir = place.run_dir.state_dir
    findings = examine(place.conf, place.define, environ=place.environ, state_dir=state_dir)
    found = findings.configuration
    if found is None:  # the other checks are wanted all the same
        found = Configuration(defaults(state_dir), {}, state_dir=state_dir)
    examined = Examined(place.run_dir, findings, found, fix)
    for check in CHECKS:
        yield from check(examined)
