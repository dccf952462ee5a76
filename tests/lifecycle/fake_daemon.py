"""A daemon for tests of starting: takes its pid file as real ones do, then behaves as it is told."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from pathlib import Path


def main(run_dir: str, name: str, behaviour: str, ready: int) -> int:
    """``behaviour``: serve, refuse, die, silent or babble."""
    pid_file = open(os.path.join(run_dir, f"{name}.pid"), "w")  # noqa: SIM115  held until the process ends
    fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    pid_file.write(f"{os.getpid()}\n")
    pid_file.flush()
    Path(run_dir, f"{name}.sock").touch()
    Path(run_dir, f"{name}.seen").write_text(
        json.dumps({"pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd()})
    )
    if behaviour == "refuse":
        os.write(ready, json.dumps({"error": "no", "because": "so", "hint": "do", "exit": 78}).encode())
        return 78
    if behaviour == "die":
        sys.stderr.write("first line\nthe last straw\n")
        return 3
    if behaviour == "babble":
        os.write(ready, b"{" * 70_000)
    if behaviour == "serve":
        os.write(ready, b"1")
        os.close(ready)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[sys.argv.index("--ready-fd") + 1])))
