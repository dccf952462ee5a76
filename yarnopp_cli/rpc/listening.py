"""The files of Unix sockets: the sockets of dead daemons are removed, those of live daemons are not.

Decisions: unix-sockets.
"""

from __future__ import annotations

import os
import socket
import stat

from ..errors import YoppError, reason_of


def remove_stale_socket(path: str) -> None:
    """Remove a socket on which no process listens any more.

    Raises YoppError if a process listens on it, or if the file is not a socket.
    """
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    try:
        probe.connect(path)
    except FileNotFoundError:
        return
    except BlockingIOError:
        pass  # a daemon listens there, and its backlog is full
    except ConnectionRefusedError:
        # The kernel reports the same for a file that is not a socket.
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
            return
        raise YoppError(f"cannot listen on {path}", because="it exists but is not a socket") from None
    except OSError as error:
        raise YoppError(f"cannot listen on {path}", because=reason_of(error)) from None
    finally:
        probe.close()
    raise YoppError(f"cannot listen on {path}", because="another daemon is already listening there")


def unlink_own(path: str, inode: int) -> None:
    """Remove our socket, unless another daemon has replaced it by its own (a different inode)."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return
