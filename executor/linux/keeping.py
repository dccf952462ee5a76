"""Programs of this package that run by themselves, as they were when this process began: an upgrade in place may take
them away, or put others there, which expect other arguments."""

from __future__ import annotations

import os
import stat


class KeptProgram:
    """A file of this package, whose content is kept in memory. Raises OSError if it cannot be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            self._identity = _identity(os.fstat(file.fileno()))
            self._content = file.read()

    def at(self, directory: str) -> str:
        """Where it is: in its own place, or as a copy in ``directory``, if that place has another by now. Raises
        OSError if the copy cannot be written."""
        try:
            if _identity(os.stat(self.path)) == self._identity:
                return self.path
        except OSError:
            pass  # it was removed
        copy = os.path.join(directory, os.path.basename(self.path))
        try:
            facts = os.lstat(copy)
            if stat.S_ISREG(facts.st_mode) and facts.st_size == len(self._content):
                with open(copy, "rb") as file:
                    if file.read() == self._content:
                        return copy
        except FileNotFoundError:
            pass
        new = f"{copy}.new"
        with open(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(self._content)
        os.replace(new, copy)
        return copy


def _identity(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
