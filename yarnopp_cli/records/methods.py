"""The declaration of every request: the method that it calls, and the response that answers it."""

from __future__ import annotations

from executor.hints import Any, ClassVar, Generic, TypeVar
from executor.light import Record

ResponseT = TypeVar("ResponseT")

MOST_TEXT = 2_500_000
"""The maximum number of characters of text in one container, or in a message that could be divided: even if each
character has to be escaped, a line of the protocol has room for them (``rpc.wire.MAX_LINE_BYTES``). Linux usually
allows fewer for all arguments and variables together (execve(2)).
"""


class Request(Record, Generic[ResponseT]):
    """The base of all requests: ``class GetThingRequest(Request["GetThingResponse"])`` calls ``getThing``.

    ``method`` is for requests whose method is not named like their class. The response is named by a string,
    since it is declared below its request, in the same module or in one that the module imports.
    """

    METHOD: ClassVar[str]

    def __init_subclass__(cls, method: str = "") -> None:
        name = cls.__name__.removesuffix("Request")
        if (
            "METHOD" not in cls.__dict__
        ):  # a dataclass with slots is created a second time, with its attributes
            cls.METHOD = method or name[0].lower() + name[1:]


Methods = dict[str, type[Request[Any]]]
"""Which requests a daemon answers, by their methods."""
