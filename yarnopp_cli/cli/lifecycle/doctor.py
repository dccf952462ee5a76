"""``yopp doctor``: the limits that this host can enforce, and the commands that enable the others."""

from __future__ import annotations

import os

from executor.hints import TYPE_CHECKING

from ..frame.command import Needs, command
from ..frame.options import Annotated, option
from ..frame.output import Printer
from ..frame.session import Session
from .up import Ports, with_ports

if TYPE_CHECKING:
    from ...cluster.doctor import Check

CHECK_KEYS = ("name", "status", "found", "why", "fix")

Fix = Annotated[
    bool,
    option("--fix", "Remove the leftovers of dead daemons in this run directory, and end their containers."),
]


@command("doctor", "yopp doctor", "yopp doctor --fix", needs=Needs.EXAMINED_HOST)
def doctor(session: Session, fix: Fix = False, ports: Ports = None) -> int:
    """Check which limits this host can enforce: exit code 0 if all checks pass, 1 if a check shows a weaker limit, 2
    if a check fails."""
    from ...cluster.doctor import examine_host, exit_code

    printer, context = session.printer, with_ports(session.context, ports)
    checks = []
    if printer.form == "tsv":
        printer.separated(CHECK_KEYS)
    for check in examine_host(context.run_dir, context.conf, context.define, os.environ, fix=fix):
        checks.append(check)
        if printer.form == "tsv":
            printer.separated((), [tuple(_document(check).values())])
        elif printer.form == "name" and not printer.quiet:
            printer.ids([check.name])
        elif not printer.is_json and not (printer.quiet and check.status == "ok"):
            _print(printer, check)
    code = exit_code(checks)
    if printer.is_json:
        printer.document({"checks": [_document(check) for check in checks], "exit": code})
    return code


def _print(printer: Printer, check: Check) -> None:
    printer.text(f"{check.status:<4}  {check.name}: {check.found}")
    if check.why:
        printer.text(f"      because: {check.why}")
    if check.fix:
        printer.text(f"      type: {check.fix}")


def _document(check: Check) -> dict[str, str]:
    return {key: getattr(check, key) for key in CHECK_KEYS}
