"""yopp's cluster: ResourceManager, NodeManagers, application masters, their wire, and the command line.

It stands on the package ``executor``, which runs containers on one node and knows nothing of clusters.
"""

from __future__ import annotations

__version__ = "0.1.0"

_PACKAGES = ("executor", __name__)
_STARTING_SECONDS = 10
"""A file that is so much older than this process may have been written while it was loaded."""


def upgrade_behind(error: BaseException) -> tuple[str, str, str] | None:
    """What happened, why, and what to type, if an unforeseen error comes from an upgrade in place: a file of these
    packages is missing, or was replaced since this process began. None for any other error, which is a bug.

    Here, as this is loaded whatever is missing.
    """
    import os
    import sys
    import time

    name = error.name or "" if isinstance(error, ImportError) else ""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    began = boot + ticks / os.sysconf("SC_CLK_TCK") - _STARTING_SECONDS
    loaded = [one for name, one in sys.modules.items() if name.partition(".")[0] in _PACKAGES]
    try:
        changed = any(os.stat(one.__file__).st_ctime > began for one in loaded if one.__file__)
    except OSError:
        changed = True
    if not changed and name.partition(".")[0] not in _PACKAGES:
        return None
    return (
        "the files of yopp were replaced or removed while this command ran",
        f"by an upgrade, or the installation is incomplete: {type(error).__name__}: {error}",
        "type the command again after the upgrade; `yopp app list -a` shows whether a job was submitted",
    )
