"""Notices what the host mounts and unmounts where a slot does not.

Launchers of a root's node have a mount namespace of their own (``launcher.confine``). The host's mounts reach it as
far as they are shared (mount_namespaces(7)); where ``/`` is not, as in many containers and without systemd, a launcher
keeps the mounts that there were when its zygote started. Source: proc(5), /proc/PID/mountinfo.
"""

from __future__ import annotations

import contextlib
import os
import select

from ..procfs import read_bytes


class MountChanges:
    """The changes that slots do not see."""

    def __init__(self, *, proc: str = "/proc") -> None:
        self._file = -1
        self._poller = select.poll()
        path = f"{proc}/self/mountinfo"
        if os.geteuid() == 0 and not _reach_others(path):
            with contextlib.suppress(OSError):
                self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._poller.register(self._file, select.POLLPRI)

    def happened(self) -> bool:
        """Whether something was mounted or unmounted since the last call."""
        return self._file >= 0 and bool(self._poller.poll(0))

    def close(self) -> None:
        """Look no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _reach_others(path: str) -> bool:
    """Whether what is mounted reaches other namespaces: ``/`` is shared."""
    with contextlib.suppress(OSError):
        for line in read_bytes(path, 1 << 20).splitlines():
            words = line.split(b" - ")[0].split()
            if words[4:5] == [b"/"]:
                return any(word.startswith((b"shared:", b"master:")) for word in words[6:])
    return False
