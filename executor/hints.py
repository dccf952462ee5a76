"""The names of ``typing`` that programs need at run time, without the 4 ms that importing it takes.

To type checkers they are typing's own. At run time annotations are not evaluated, and these names have no
meaning; ``Generic[...]`` keeps its arguments in ``__orig_bases__``.

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
        """Accepts a type in brackets, and ignores it."""

        __class_getitem__ = classmethod(lambda cls, _: cls)

    Final = TypeAlias = TypeGuard = ClassVar

    class Generic:
        """A base class that accepts types in brackets."""

        __slots__ = ()
        __class_getitem__ = classmethod(type(list[int]))

    class Protocol:
        """A base class for protocols that are never used with isinstance."""

    def TypeVar(name, *_, **__):
        """Return the name: at run time a type variable is nothing else."""
        return name

    def cast(kind, value):
        """Return the value unchanged."""
        return value
