"""Checks of the systemd service: whether the cluster starts after a reboot, and which limits its nodes
can enforce."""

from __future__ import annotations

from collections.abc import Iterator

from executor.linux.cgroups.v2 import WANTED

from ...errors import YoppError
from ..service import check_systemd, service_here, state_of
from .check import OK, WARN, Check, Examined

DROP_IN = "/etc/systemd/system/user@.service.d"
DELEGATION = (
    rf"as root: `mkdir -p {DROP_IN} && printf '[Service]\nDelegate=cpu memory pids\n' >{DROP_IN}/yopp.conf && "
    "systemctl daemon-reload`, then log in again"
)


def service(examined: Examined) -> Iterator[Check]:
    """The unit of this run directory; for a user also lingering, and the controllers delegated to the user's
    service manager. Yields nothing if systemd does not run."""
    one = service_here(examined.run_dir)
    try:
        check_systemd(one)
        state = state_of(one)
    except YoppError:
        return
    if not state.ours:
        yield Check("service", OK, "none: `yopp service install` starts this cluster at boot")
        return
    found, manager = f"{one.unit} ({state.active}, {state.enabled})", " ".join(one.systemctl)
    if state.enabled != "enabled":
        fix = f"{manager} enable {one.unit}"
        yield Check("service", WARN, found, "systemd does not start it at boot", fix)
    elif state.active == "failed":
        why = "systemd has stopped restarting it"
        yield Check("service", WARN, found, why, f"journalctl {'--user ' * bool(one.uid)}-e -u {one.unit}")
    elif not one.lingers:
        why = "it starts at login instead of at boot, and ends when you log out"
        yield Check("service", WARN, found, why, "loginctl enable-linger")
    else:
        yield Check("service", OK, found)
    given = one.delegated
    if given is not None and (missing := [name for name in WANTED if name not in given]):
        why = f"containers of the service are not limited by {' and '.join(missing)} cgroups"
        yield Check("service", WARN, f"not delegated to your services: {', '.join(missing)}", why, DELEGATION)
