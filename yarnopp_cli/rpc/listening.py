"""The files of Unix sockets: what a dead daemon left is removed, what a living one has is not.

Decisions: unix-sockets.
"""

from __future__ import annotations

import os
import socket
import stat

from ..errors import YoppError, reason_of


def remove_stale_socket(path: str) -> None:
    """Remove a socket on which nobody listens any more.

    Raises YoppError if somebody does, or it is no socket.
    """
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    try:
        probe.connect(path)
    except FileNotFoundError:
        return
    except BlockingIOError:
        pass  # it listens, and is busy
    except ConnectionRefusedError:
        # So says the kernel of any file that is no socket, too.
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
    """Remove our socket, unless another daemon has put its own in its place meanwhile."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return
