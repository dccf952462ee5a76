"""yopp's cluster: ResourceManager, NodeManagers, application masters, their wire, and the command line.

It stands on the package ``executor``, which runs containers on one node and knows nothing of clusters.
"""

from __future__ import annotations

__version__ = "0.1.0"

_PACKAGES = ("executor", __name__)
_STARTING_SECONDS = 10
"""A file that is so much older than this process may have been written while it was loaded."""


def upgrade_behind(error: BaseException) -> tuple[str, str, str] | None:
    """What happened, why, and what to type, if an unforeseen error comes from an upgrade in place: a file of the
    installation is missing or incomplete, or was replaced since this process began. None for any other error, which is
    a bug.

    Here, as this is loaded whatever is missing.
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
