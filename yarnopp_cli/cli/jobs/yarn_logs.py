"""``yopp logs`` on a YARN cluster: what its NodeManagers still have of containers' output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...client.yarn import LOG_BYTES
from ...errors import EXIT_NO_SUCH, YoppError
from ...records.reports import NodeReport
from ...views.text import harmless
from ..frame.naming import applications, containers, is_container
from ..frame.output import Printer, is_terminal_out

if TYPE_CHECKING:
    from ...client.yarn import YarnClient

_MASTERS_FILES = ("AppMaster.stdout", "AppMaster.stderr")


def print_logs(
    yarn: YarnClient,
    printer: Printer,
    named: Sequence[str],
    *,
    only: Sequence[str],
    masters: bool,
    tail: int | None,
    prefix: bool,
) -> None:
    """Print the output of the containers and applications named: of the streams ``only``, or of both."""
    targets = _targets(yarn, named, masters_only=masters)
    prefixed = len(targets) > 1 and prefix
    shown = 0
    for node, container_id in targets:
        for name in yarn.log_files(node, container_id):
            short = name.rpartition(".")[2] if name in _MASTERS_FILES else name
            if (only or not masters) and short not in (only or ("stdout", "stderr")):
                continue  # prelaunch.out, directory.info, …: of interest where somebody asks for the master's
            if name in _MASTERS_FILES and not (only or masters):
                continue
            data = yarn.log(node, container_id, name)
            if len(data) >= LOG_BYTES:
                printer.note(f"{container_id} {name}: only its last {LOG_BYTES >> 20} MB")
            shown += 1
            _print(printer, container_id, name, data, tail, prefixed)
    if not shown and not printer.quiet:
        printer.note(
            "nothing was written, or it has been aggregated: `yarn logs -applicationId ID` has it then"
        )


def _print(
    printer: Printer, container_id: str, name: str, data: bytes, tail: int | None, prefixed: bool
) -> None:
    lines = data.splitlines(keepends=True)
    if tail is not None:
        lines = lines[max(0, len(lines) - tail) :]
    mark = f"{int(container_id.rpartition('_')[2])}: " if prefixed else ""
    if not (printer.is_json or mark or is_terminal_out()):
        printer.raw(b"".join(lines))
        return
    for line in lines:
        text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        if printer.is_json:
            printer.stream_line({"id": container_id, "stream": name, "t": None, "line": text})
        else:
            printer.text(mark + harmless(text, keep="\t"))


def _targets(yarn: YarnClient, named: Sequence[str], *, masters_only: bool) -> list[tuple[NodeReport, str]]:
    """The containers whose output is wanted, with their nodes."""
    by_id = {one.node_id: one for one in yarn.nodes()}
    found: list[tuple[NodeReport, str]] = []
    for word in named:
        if is_container(word):
            found += [(yarn.node_of(one), one) for one in containers(yarn, [word])]
            continue
        for one in applications(yarn, [word]):
            found += _of_application(yarn, one, by_id, masters_only)
    return list(dict.fromkeys(found))


def _of_application(
    yarn: YarnClient, identifier: str, by_id: Mapping[str, NodeReport], masters_only: bool
) -> list[tuple[NodeReport, str]]:
    """An application's containers with their nodes; its masters too where there is nothing else."""
    attempts = yarn.attempts(identifier)
    masters = {one.am_container_id: one.am_node_id for one in attempts if one.am_container_id}
    others = {
        one.container_id: one.node_id
        for attempt in (() if masters_only else attempts)
        for one in yarn.attempt_containers(attempt)
        if one.container_id not in masters
    }
    places = others or masters
    if not any(node_id in by_id for node_id in places.values()):
        raise YoppError(
            f"no node knows containers of {identifier}",
            because="the ResourceManager forgets them when their application has ended",
            hint=f"aggregated logs: `yarn logs -applicationId {identifier}`",
            exit_code=EXIT_NO_SUCH,
        )
    return [(by_id[node_id], key) for key, node_id in sorted(places.items()) if node_id in by_id]
