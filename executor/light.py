"""``dataclass(frozen=True, slots=True)`` as type checkers see it, declared in a fifth of the time.

The standard decorator compiles six methods for each frozen class in some 0.6 ms, which a command that declares a
hundred messages pays at every start. Here only ``__init__`` is compiled; comparison, hash and representation are
shared functions over the fields. The price: an assignment to a field does not fail at run time. It still fails in
mypy, which sees the standard decorator.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, order: bool = False, **more: Any) -> Any:
        """Declare a frozen dataclass; what needs more than that is left to the standard decorator."""
        if not frozen or order:
            return dataclasses.dataclass(frozen=frozen, slots=slots, order=order, **more)

        def declare(kind: type) -> type:
            made = dataclasses.dataclass(kind, eq=False, repr=False, slots=slots, **more)
            made.__eq__ = _eq
            made.__hash__ = _hash
            if "__repr__" not in kind.__dict__:
                made.__repr__ = _repr
            return made

        return declare


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)


def _hash(self: Any) -> int:
    return hash(tuple([getattr(self, name) for name in self.__dataclass_fields__]))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{self.__class__.__qualname__}({shown})"
