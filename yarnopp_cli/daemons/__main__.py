"""``python -m yarnopp_cli.daemons resourcemanager|nodemanager --run-dir DIR …``: become a daemon.

A daemon runs ``restart`` to restart another one (``cluster/lifecycle.py``).

Garbage collection is off while modules are imported, since that makes no garbage: this saves a tenth of a
daemon's start. ``run`` turns it on, and freezes the imported objects, so that no collection visits them.
"""

from __future__ import annotations

import gc
import sys

from executor.light import suppress

from ..started import use_utf8


def main() -> int:
    """Run the daemon named by the first argument; its exit code."""
    use_utf8()
    gc.disable()
    # Where that is permitted (root), the OOM killer ends the daemons after all that is not protected, containers too.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("-500")
    match sys.argv[1:2]:
        case ["resourcemanager"]:
            from . import resourcemanager

            return resourcemanager.main(sys.argv[2:])
        case ["nodemanager"]:
            from . import nodemanager

            return nodemanager.main(sys.argv[2:])
        case ["restart"]:
            from ..cluster.lifecycle import restart_for_daemon

            return restart_for_daemon(*sys.argv[2:])
    sys.stderr.write("usage: python -m yarnopp_cli.daemons resourcemanager|nodemanager --run-dir DIR\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
