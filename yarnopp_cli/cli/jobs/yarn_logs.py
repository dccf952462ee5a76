"""``yopp logs`` on a YARN cluster: what its NodeManagers still have of containers' output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...client.yarn import LOG_BYTES
from ...errors import EXIT_NO_SUCH, YoppError
from ...jobs.logfiles import STREAMS, Stream
from ...records.reports import NodeReport
from ..frame.naming import applications, containers, is_container

if TYPE_CHECKING:
    from ...client.yarn import YarnClient

_MASTERS_FILES = ("AppMaster.stdout", "AppMaster.stderr")


class _Fetched(Stream):
    """A file of a container as its node told it, of which nothing more comes."""

    def __init__(self, container_id: str, name: str, data: bytes, tail: int | None) -> None:
        super().__init__(container_id, name, "")
        lines = data.splitlines(keepends=True)
        self._data = data if tail is None else b"".join(lines[max(0, len(lines) - tail) :])

    def read(self) -> Iterator[bytes]:
        """All of it, once."""
        if self._data:
            yield self._data
        self._data = b""


def fetched(
    yarn: YarnClient,
    note: Callable[[str], None],
    named: Sequence[str],
    *,
    only: Sequence[str],
    masters_only: bool,
    tail: int | None,
) -> Iterator[tuple[Stream, str]]:
    """The output of the containers and applications named, of the streams ``only``, or of both; each with the number of
    its container, "" where there is one alone. ``note`` is told of what is left out."""
    targets = _targets(yarn, named, masters_only)
    for container_id, node in targets.items():
        for name in yarn.log_files(node, container_id):
            short = name.rpartition(".")[2] if name in _MASTERS_FILES else name
            if (only or not masters_only) and short not in (only or STREAMS):
                continue  # prelaunch.out, directory.info, …: of interest where somebody asks for the master's
            if name in _MASTERS_FILES and not (only or masters_only):
                continue
            data = yarn.log(node, container_id, name)
            if len(data) >= LOG_BYTES:
                note(f"{container_id} {name}: only its last {LOG_BYTES >> 20} MB")
            number = container_id.rpartition("_")[2].lstrip("0") if len(targets) > 1 else ""
            yield _Fetched(container_id, name, data, tail), number


def _targets(yarn: YarnClient, named: Sequence[str], masters_only: bool) -> dict[str, NodeReport]:
    """The containers whose output is wanted, with their nodes."""
    by_id = {one.node_id: one for one in yarn.nodes()}
    found: dict[str, NodeReport] = {}
    for word in named:
        if is_container(word):
            found |= {one: yarn.node_of(one) for one in containers(yarn, [word])}
            continue
        for one in applications(yarn, [word]):
            places = _places(yarn, one, masters_only)
            if not any(node_id in by_id for node_id in places.values()):
                raise YoppError(
                    f"no node knows containers of {one}",
                    because="the ResourceManager forgets them when their application has ended",
                    hint=f"aggregated logs: `yarn logs -applicationId {one}`",
                    exit_code=EXIT_NO_SUCH,
                )
            found |= {key: by_id[node_id] for key, node_id in sorted(places.items()) if node_id in by_id}
    return found


def _places(yarn: YarnClient, application_id: str, masters_only: bool) -> dict[str, str]:
    """An application's containers and the ids of their nodes; its masters where there is nothing else."""
    attempts = yarn.attempts(application_id)
    masters = {one.am_container_id: one.am_node_id for one in attempts if one.am_container_id}
    others = {
        one.container_id: one.node_id
        for attempt in (() if masters_only else attempts)
        for one in yarn.attempt_containers(attempt)
        if one.container_id not in masters
    }
    return others or masters
