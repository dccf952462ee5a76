"""Notices what the host mounts and unmounts where a slot does not.

Launchers of a root's node have a mount namespace of their own (``launcher.confine``). The host's mounts reach it as
far as they are shared (mount_namespaces(7)); where ``/`` is not, as in many containers and without systemd, a launcher
keeps the mounts that there were when its zygote started. Source: proc(5), /proc/PID/mountinfo.
"""

from __future__ import annotations

import logging
import os
import select

from ..procfs import read_bytes

LOG = logging.getLogger(__name__)

MOUNTS = "/proc/self/mountinfo"


class MountChanges:
    """The changes that slots do not see."""

    def __init__(self) -> None:
        self._file = -1
        self._poller = select.poll()
        try:
            if os.geteuid() == 0 and not reach_others(read_bytes(MOUNTS, 1 << 20)):
                self._file = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                self._poller.register(self._file, select.POLLPRI)
        except OSError as error:
            LOG.warning("containers may not see what is mounted later: %s: %s", MOUNTS, error.strerror)

    def happened(self) -> bool:
        """Whether something was mounted or unmounted since the last call."""
        return self._file >= 0 and bool(self._poller.poll(0))

    def close(self) -> None:
        """Look no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def reach_others(mountinfo: bytes) -> bool:
    """Whether what is mounted here reaches other namespaces: ``/`` is shared."""
    for line in mountinfo.splitlines():
        words = line.split(b" - ")[0].split()
        if words[4:5] == [b"/"]:
            return any(word.startswith(b"shared:") for word in words[6:])
    return False
