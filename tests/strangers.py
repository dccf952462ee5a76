"""Callers from another user, who do not keep to the usual order: one sends a whole request and is gone at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

NOBODY_UID: Final = 65534
OWN_UID: Final = os.geteuid()
HANG_UPS: Final = ("close", "half", "reset")
"""How a caller hangs up: closes its socket, its sending side alone, or so that the other end is reset."""

_CODE = """
import encodings.idna, json, os, socket, struct, sys
host, port, uid, request, how = json.loads(sys.argv[1])
if uid != os.geteuid():
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
caller = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
caller.settimeout(20)
caller.connect((host, port))
print(caller.getsockname()[1], flush=True)
sys.stdin.readline()
try:
    caller.sendall(request.encode())
    if how == "half":
        caller.shutdown(socket.SHUT_WR)
except OSError:
    pass  # it was refused before
if how == "reset":
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
if how in ("close", "reset"):
    caller.close()
print("sent", flush=True)
sys.stdin.readline()
answer = b""
while how in ("half", "stay"):
    try:
        got = caller.recv(65536)
    except OSError:
        break
    answer += got
    if not got or (how == "stay" and answer.endswith((b"\\n", b"}"))):
        break
print(json.dumps(answer.decode(errors="replace")))
"""


class Stranger:
    """A process that connects, sends ``request`` when it is told to, and hangs up as ``how`` says ("stay": not)."""

    def __init__(self, host: str, port: int, request: str, how: str, uid: int = NOBODY_UID) -> None:
        arguments = json.dumps([host, port, uid, request, how])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, arguments], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]}, cwd="/",
        )  # fmt: skip
        self._ports = f":{int(self._line()):04X}", f":{port:04X}"
        self._how = how

    def send(self) -> None:
        """Send it all, and hang up; the kernel has taken leave of it then, which takes it 40 ms."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._line() == "sent"
        deadline = time.monotonic() + 10
        while self._how != "stay" and self._states() & {"01", "04"}:
            assert time.monotonic() < deadline, "its socket stays open"
            time.sleep(0.005)

    def _states(self) -> set[str]:
        """The states of the sockets that have its two ports, as /proc/net/tcp tells them."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {row[3] for row in rows if (row[1][-5:], row[2][-5:]) == self._ports}

    def answer(self) -> str:
        """What came back, and the end of it."""
        out, _ = self._process.communicate("\n", timeout=30)
        assert self._process.returncode == 0
        return str(json.loads(out))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def http_request(method: str, path: str, body: object = None) -> str:
    """A whole request as it goes over the wire."""
    text = json.dumps(body) if body is not None else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n"
    return head + ("Content-Type: application/json\r\n" if text else "") + "\r\n" + text


def rpc_request(method: str, **params: object) -> str:
    """A call's line."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n"
