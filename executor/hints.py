"""The names of ``typing`` that are needed while a program runs, without the 4 ms that its import takes.

To type checkers they are typing's own. At run time annotations are not evaluated, and these names mean nothing;
``Generic[...]`` remembers in ``__orig_bases__`` what it was given.

Decisions: fast-start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import ClassVar as ClassVar
    from typing import Final as Final
    from typing import Generic as Generic
    from typing import Protocol as Protocol
    from typing import TypeAlias as TypeAlias
    from typing import TypeGuard as TypeGuard
    from typing import TypeVar as TypeVar
    from typing import cast as cast
else:
    Any = object

    class ClassVar:
        """What may stand before a type in brackets."""

        __class_getitem__ = classmethod(lambda cls, _: cls)

    Final = TypeAlias = TypeGuard = ClassVar

    class Generic:
        """A base that may be given types."""

        __slots__ = ()
        __class_getitem__ = classmethod(type(list[int]))

    class Protocol:
        """A base of what nobody asks whether something is one of."""

    def TypeVar(name, *_, **__):
        """Nothing but a name."""
        return name

    def cast(kind, value):
        """The value as it is."""
        return value
