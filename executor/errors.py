"""The errors of the executor. How a container ends is never an error: it is a ContainerStatus."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The lines of a text, such as an error's three, as one."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    told = [line if line[-1] in ".,:;" else f"{line};" for line in lines if line]
    return " ".join(told).removesuffix(";")


def reason_of(error: Exception) -> str:
    """Why the system refused a call, for an error's ``because``: "no such file or directory". Only a first word that is
    no abbreviation begins with a small letter: names in the text stay as they are."""
    text = str(getattr(error, "strerror", None) or error)
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


class ExplainedError(Exception):
    """An error for people: ``message`` says what happened, ``because`` why, ``hint`` what to type."""

    def __init__(self, message: str, *, because: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.because = because
        self.hint = hint

    @property
    def brief(self) -> str:
        """The message and its reason, in one line."""
        return f"{self.message}: {self.because}" if self.because else self.message

    def __str__(self) -> str:
        parts = [self.message]
        if self.because:
            parts.append(f"because: {self.because}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n  ".join(parts)


class ExecutorError(ExplainedError):
    """The base of all errors of this package."""


class CgroupError(ExecutorError):
    """A cgroup could not be used."""


class CgroupUnavailableError(CgroupError):
    """The host has no writable controller of that kind; ``hint`` says what to type."""


class CgroupWriteError(CgroupError):
    """The kernel refused a value for a cgroup file."""


class LaunchError(ExecutorError):
    """A container could not be started."""


class CannotLaunchError(LaunchError):
    """A container could not be started. ``exit_code``: 127 not found, 126 not executable, 125 any failure of
    yopp."""

    def __init__(self, message: str, exit_code: int = 125, *, because: str = "", hint: str = "") -> None:
        super().__init__(message, because=because, hint=hint)
        self.exit_code = exit_code


class ContainerNotFoundError(ExecutorError):
    """No container with that id is known."""


class StateStoreError(ExecutorError):
    """A record could not be written or read."""


class InvalidResourceError(ExecutorError):
    """A container asks for more than this executor can ever give."""


class InvalidTransitionError(ExecutorError):
    """An event or command that contradicts a container's state: a bug, reported with the container's history."""

    def __init__(
        self, container_id: str, state: object, event: object, story: tuple[object, ...] = ()
    ) -> None:
        lines = "\n".join(f"    {entry}" for entry in story)
        super().__init__(f"{container_id} is {state}, which cannot take {event}\n{lines}")
        self.container_id = container_id
        self.state = state
        self.event = event
        self.story = story
