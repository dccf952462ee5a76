"""The files of a `pi` job: one input a map, the reduce's result. They are removed when the job has ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator

from ..errors import YoppError
from ..masters.pi import INPUT, RESULT, map_input
from . import halton

LOCK = "lock"
_PREFIX = "QuasiMonteCarlo_"


def program() -> tuple[str, ...]:
    """How a container runs ``halton.py``: this interpreter, with as little of it as there can be."""
    return (sys.executable, "-I", "-S", os.path.abspath(halton.__file__))


class PiDirectory:
    """``QuasiMonteCarlo_<millis>_<random>`` under a parent directory, that only this user may read.

    While its maker lives it is locked; ``clear_abandoned`` removes those whose maker has died.
    """

    def __init__(self, parent: str, millis: int) -> None:
        """Make it. Raises YoppError where that is impossible."""
        self._lock = -1
        self.path = f"{parent}/{_PREFIX}{millis}_{int.from_bytes(os.urandom(4), 'big')}"
        try:
            _make(parent, self.path)
            self._lock = os.open(f"{self.path}/{LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def write_inputs(self, maps: int, samples: int) -> Iterator[int]:
        """Write each map's input; yields its number after each. Raises YoppError, e.g. on a full disk."""
        for index in range(maps):
            try:
                with open(f"{self.path}/{INPUT.format(index=index)}", "w", encoding="ascii") as file:
                    file.write(map_input(index, samples))
            except OSError as error:
                raise _unusable(self.path, error) from None
            yield index

    def hand_over(self) -> None:
        """The detached master uses and removes it from now on: it is neither locked nor abandoned."""
        os.unlink(f"{self.path}/{LOCK}")
        self._unlock()

    def remove(self) -> None:
        """Remove it with its files; may be called twice."""
        remove_directory(self.path)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def read_result(path: str) -> tuple[int, int]:
    """What the reduce wrote: points inside and outside. Raises YoppError."""
    try:
        return halton.read_pair(f"{path}/{RESULT}")
    except (OSError, ValueError) as error:
        raise YoppError("the reduce left no result", because=str(error)) from None


def remove_directory(path: str) -> None:
    """Remove a job's directory; what cannot be removed is left."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
        os.rmdir(path)
        os.rmdir(os.path.dirname(path))  # only goes if it was the last one


def _make(parent: str, path: str) -> None:
    """Make both; another job that ends may remove an empty parent in between."""
    os.makedirs(parent, mode=0o700, exist_ok=True)
    clear_abandoned(parent)
    for last in (False, False, True):
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            os.mkdir(path, 0o700)
            return
        except FileNotFoundError:
            if last:
                raise


def clear_abandoned(parent: str) -> None:
    """Remove the directories of jobs whose client was killed: those with a lock that nobody holds."""
    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(f"{entry.path}/{LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_directory(entry.path)
            finally:
                os.close(lock)


def _unusable(path: str, error: OSError) -> YoppError:
    return YoppError(
        f"cannot write the job's files in {path}",
        because=error.strerror or str(error),
        hint="the state directory must be writable and have room; --run-dir names another one",
    )
