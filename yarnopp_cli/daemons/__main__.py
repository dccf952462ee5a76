"""``python -m yarnopp_cli.daemons resourcemanager|nodemanager --run-dir DIR …``: become a daemon.

``restart`` is what a daemon runs that starts another one again (``cluster/restarting.py``).

Nothing is collected while modules are loaded, which makes no garbage: that is a tenth of a daemon's start. ``run``
collects from then on, and never looks at what was loaded.
"""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the daemon that the first argument names; its exit code."""
    gc.disable()
    match sys.argv[1:2]:
        case ["resourcemanager"]:
            from . import resourcemanager

            return resourcemanager.main(sys.argv[2:])
        case ["nodemanager"]:
            from . import nodemanager

            return nodemanager.main(sys.argv[2:])
        case ["restart"]:
            from ..cluster import restarting

            return restarting.main(sys.argv[2:])
    sys.stderr.write("usage: python -m yarnopp_cli.daemons resourcemanager|nodemanager --run-dir DIR\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
