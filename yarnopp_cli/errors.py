"""Errors for users: what happened, why, and what to type next, with a documented exit code.

Every error that leaves a command is a YoppError. ``exception`` is YARN's name for it on the wire and in REST bodies.
"""

from __future__ import annotations

from executor.errors import ExplainedError
from executor.errors import one_line as one_line
from executor.errors import reason_of as reason_of
from executor.hints import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing import Self

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_NOT_RUNNING = 3
EXIT_NO_SUCH = 66
EXIT_UNREACHABLE = 69
EXIT_BUG = 70
EXIT_OUTPUT_LOST = 74
EXIT_TRY_AGAIN = 75
EXIT_NOT_PERMITTED = 77
EXIT_CONFIGURATION = 78
EXIT_TIMEOUT = 124
EXIT_CANNOT_START = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141
EXIT_HADOOP_USAGE = 255


_SHOWN_AS_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"


def is_seen(mark: str) -> bool:
    """Whether a terminal shows a visible character, or the character is the plain blank. Python's ``isprintable`` is
    also true for variation selectors, fillers and other characters that Unicode defines as ignorable or blank."""
    selects = "\ufe00" <= mark <= "\ufe0f" or "\U000e0100" <= mark <= "\U000e01ef"
    return mark.isprintable() and not selects and mark not in _SHOWN_AS_BLANKS


def unseen(text: str) -> str:
    """``U+00A0 (no-break space)``: the characters of a text that a terminal shows as nothing or as a blank, except the
    blank itself, each once; "" for none."""
    found = dict.fromkeys(mark for mark in text if not is_seen(mark))
    if not found:
        return ""
    import unicodedata  # A shared library of its own.

    return ", ".join(f"U+{ord(one):04X} ({unicodedata.name(one, 'unnamed').lower()})" for one in found)


class YoppError(ExplainedError):
    """``message`` says what happened, ``because`` why, ``hint`` what to type. All three are one line each.

    ``sought`` is the id or name that was not found, if that is the error: YARN's web services have a separate sentence
    for it (``in_yarn``), which REST documents use.
    """

    exit_code: int = EXIT_FAILURE
    exception: ClassVar[str] = "YarnException"
    in_yarn: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        because: str = "",
        hint: str = "",
        exit_code: int | None = None,
        sought: str = "",
    ) -> None:
        super().__init__(message, because=because, hint=hint)
        self.sought = sought
        if exit_code is not None:
            self.exit_code = exit_code

    @property
    def web_message(self) -> str:
        """The message of YARN's web services for this error; yopp's own if they have none."""
        if not (self.sought and self.in_yarn):
            return self.message
        kind = "app attempt" if self.sought.startswith("appattempt_") else "app"
        return self.in_yarn.format(self.sought, kind=kind)


class UsageError(YoppError):
    """The command line is wrong or contradictory."""

    exit_code = EXIT_USAGE
    exception = "BadRequestException"

    @classmethod
    def exclusive(cls, both: str, because: str, hint: str = "leave out one of them") -> Self:
        """The refusal of a command line that has ``both``: ``-d and --joblog``."""
        return cls(f"{both} exclude each other", because=because, hint=hint)


class ConfigurationError(YoppError):
    """A configuration file, or a ``-D``, is wrong."""

    exit_code = EXIT_CONFIGURATION


class UnknownPropertyError(ConfigurationError):
    """No property has that name; the hint names the nearest one."""


class InvalidPropertyError(ConfigurationError):
    """A property has a value of the wrong type or outside its bounds, or two contradict each other."""


class ConnectionFailedError(YoppError):
    """A daemon cannot be reached; the hint says how to start one."""

    exit_code = EXIT_UNREACHABLE


class NoAnswerError(ConnectionFailedError):
    """A daemon is connected and does not answer: whether it has performed the request is unknown."""


class StoppedDaemonError(NoAnswerError):
    """A daemon does not answer because its process is stopped, by SIGSTOP or a debugger."""


class TimedOutError(YoppError):
    """The time of ``--timeout`` has expired."""

    exit_code = EXIT_TIMEOUT


class InvalidIdError(YoppError):
    """A text is not an identifier of the expected form."""

    exit_code = EXIT_USAGE
    exception = "IllegalArgumentException"
    in_yarn = "invalid container id, {}"  # YARN has a sentence for container ids only.


class RemoteError(YoppError):
    """A refusal of a daemon, with YARN's name."""


class NotKnownError(RemoteError):
    """No entity has this id. ``noun`` is the kind of the missing entity, ``group`` the group of commands that lists
    it."""

    exit_code = EXIT_NO_SUCH
    noun: ClassVar[str] = ""
    group: ClassVar[str] = ""

    @classmethod
    def of(cls, sought: str, because: str) -> Self:
        """The error for a command that was given this id."""
        hint = f"`yopp {cls.group or cls.noun} list -a` lists the known ones"
        return cls(f"no {cls.noun} {sought}", because=because, hint=hint, sought=sought)


class ApplicationNotFoundError(NotKnownError):
    """No such application."""

    exception = "ApplicationNotFoundException"
    in_yarn = "{kind} with id: {} not found"
    noun, group = "application", "app"


class ContainerNotFoundError(NotKnownError):
    """No such container."""

    exception = "ContainerNotFoundException"
    in_yarn = "container with id, {}, not found"
    noun = "container"


class NodeNotFoundError(NotKnownError):
    """No such node."""

    exception = "NotFoundException"
    in_yarn = "nodeId, {}, is not found"
    noun = "node"


class InvalidResourceRequestError(RemoteError):
    """An ask that no node could ever satisfy, or that the configuration forbids."""

    exception = "InvalidResourceRequestException"


class AccessDeniedError(RemoteError):
    """No ACL names the caller."""

    exit_code = EXIT_NOT_PERMITTED
    exception = "AccessControlException"


class InvalidTokenError(RemoteError):
    """A token is forged, expired, or for another purpose."""

    exit_code = EXIT_NOT_PERMITTED
    exception = "InvalidToken"


class InvalidStateError(RemoteError):
    """A request that is not possible in the state of its entity (YARN's ``InvalidApplicationMasterRequest…``)."""


class MastersNotHostedError(RemoteError):
    """This cluster's masters run in clients and containers: ``yopp.resourcemanager.hosted-masters`` is false."""


class NotYetSupportedError(RemoteError):
    """A request that this version knows but does not support."""

    exception = "UnsupportedOperationException"


class ShuttingDownError(RemoteError):
    """The daemon is ending itself: start or find another one."""

    exit_code = EXIT_UNREACHABLE
    exception = "ServiceStoppingException"


REMOTE_ERRORS: dict[str, type[YoppError]] = {
    kind.__name__: kind
    for kind in (
        YoppError,
        UsageError,
        ConfigurationError,
        ConnectionFailedError,
        InvalidIdError,
        RemoteError,
        ApplicationNotFoundError,
        ContainerNotFoundError,
        NodeNotFoundError,
        InvalidResourceRequestError,
        AccessDeniedError,
        InvalidTokenError,
        InvalidStateError,
        MastersNotHostedError,
        NotYetSupportedError,
        ShuttingDownError,
    )
}
"""The errors that travel over the wire, by class name."""
