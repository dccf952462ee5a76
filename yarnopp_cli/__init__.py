"""yopp's cluster: ResourceManager, NodeManagers, application masters, their wire, and the command line.

It uses the package ``executor``, which runs containers on one node and does not depend on clusters.
"""

from __future__ import annotations

__version__ = "0.1.0"

_PACKAGES = ("executor", __name__)
_STARTING_SECONDS = 10
"""Seconds by which a file may be older than this process and still have been written while the process was loaded."""


def upgrade_behind(error: BaseException) -> tuple[str, str, str] | None:
    """The message, the reason and the hint if an unforeseen error comes from an upgrade in place: a file of the
    installation is missing or incomplete, or was replaced since this process began. None for any other error, which is
    a bug.

    It is in this module, which is loaded even if others are missing.
    """
    import os
    import sys
    import time

    changed = isinstance(error, (ImportError, SyntaxError))
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        began = boot + ticks / os.sysconf("SC_CLK_TCK") - _STARTING_SECONDS
        loaded = [
            getattr(one, "__file__", None)
            for name, one in sys.modules.items()
            if name.partition(".")[0] in _PACKAGES
        ]
        changed = changed or any(os.stat(path).st_ctime > began for path in loaded if path)
    except OSError as gone:
        changed = changed or gone.filename != "/proc/self/stat"
    if not changed:
        return None
    return (
        "the files of yopp were replaced or removed while this command ran",
        f"by an upgrade, or the installation is incomplete: {type(error).__name__}: {error}",
        "type the command again after the upgrade; `yopp app list -a` shows whether a job was submitted",
    )
