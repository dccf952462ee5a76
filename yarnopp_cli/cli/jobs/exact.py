"""Runs a command with variables that no shell passes on: those with names that a shell sets itself, or cannot parse.

A program of the container: ``python -I -S FILE COMMAND [ARGUMENT...]``, where FILE is this one. The variables come
packed into one environment variable, never on a command line, which all users of the host can read.
"""

from __future__ import annotations

import errno
import os
import signal
import sys

CARRIER = "YOPP_VARIABLES"
"""The variable that carries the others."""


SHELLS_OWN = frozenset({"IFS", "PPID", "OPTIND", CARRIER})
"""Variables that a shell sets itself, ignoring its environment; and the one of this program."""


def odd_in(environment: dict[str, str]) -> dict[str, str]:
    """The variables of an environment that a shell would not pass on as they are."""
    return {
        name: value
        for name, value in environment.items()
        if name in SHELLS_OWN or not (name.isascii() and name.isidentifier())
    }


def packed(variables: dict[str, str], environment: dict[str, str]) -> str:
    """The value of ``CARRIER``: variables of an environment, and the names of variables that Python adds to it."""
    words = [f"{name}={value}" for name, value in variables.items()]
    words += [name for name in ("LC_CTYPE",) if name not in environment]  # PEP 538
    return b"\0".join(map(os.fsencode, words)).hex()


def unpacked(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The environment with the variables that ``CARRIER`` carries, and without ``CARRIER``."""
    carried = bytes.fromhex(environment.pop(CARRIER.encode()).decode())
    for pair in carried.split(b"\0"):
        name, equals, value = pair.partition(b"=")
        if equals:
            environment[name] = value
        else:
            environment.pop(name, None)
    return environment


def run(words: list[str], environment: dict[bytes, bytes]) -> int:
    """Become the command; on failure, return the exit code that ``env`` would."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    name, found = words[0], errno.ENOENT
    folders = [""] if "/" in name else os.get_exec_path(environment)  # type: ignore[arg-type]
    for folder in folders:
        path = name if "/" in name else f"{folder or '.'}/{name}"
        try:
            os.execve(path, words, environment)
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script without an interpreter line
                os.execve("/bin/sh", ["/bin/sh", path, *words[1:]], environment)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found = error.errno or errno.EACCES
    os.write(2, os.fsencode(f"{name}: {os.strerror(found)}\n"))
    return 127 if found == errno.ENOENT else 126


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], unpacked(dict(os.environb))))
