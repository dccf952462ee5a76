"""Records: frozen dataclasses with slots, whose declaration takes some microseconds.

    class Resource(Record, order=True):
        memory: int = 0

The standard decorator compiles six methods for each class in some 0.6 ms, and importing its module loads a
quarter of what a command imports; a command that declares a hundred messages would pay for both at every
start. Here a method is compiled when a record of its class first needs it. To mypy a record is a frozen
dataclass; at run time an assignment to a field does not fail. To msgspec and to the functions of
``dataclasses`` it is a dataclass: the attributes that they look for are made when they first look.

Decisions: fast-start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from contextlib import contextmanager as contextmanager
    from contextlib import suppress as suppress
    from dataclasses import Field
    from enum import EnumMeta
    from typing import Any, ClassVar, TypeVar, dataclass_transform

    QuickEnum = EnumMeta
    T = TypeVar("T")
    RecordT = TypeVar("RecordT", bound="Record")
else:  # importing typing takes as long as declaring fifty records

    def dataclass_transform(**_):
        return lambda kind: kind

    def contextmanager(function):
        """contextlib's. Importing that takes half a millisecond, and most commands use nothing of it."""

        def managed(*arguments, **named):
            import contextlib

            return contextlib.contextmanager(function)(*arguments, **named)

        return managed

    class suppress:
        """As contextlib's."""

        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self._kinds)

    def QuickEnum(name, bases, namespace):
        """As ``metaclass=`` makes the enum in half the time, as those of the standard library are made. It has one
        base, no functions that it would need while it is made, and no member ``name`` or ``value``."""
        import enum

        made = enum._simple_enum(bases[0])(type(name, (), namespace))
        for member in made._member_map_.items():
            type.__setattr__(made, *member)  # else Python 3.11 calls a function for each access
        return made


class _Declared:
    """The default and the note of a field, as given to ``field``."""

    __slots__ = ("default", "default_factory", "note")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, note: Any) -> None:
        self.default = default
        self.default_factory = factory
        self.note = note


class _Missing:
    """The type of ``MISSING``, which stands for an argument that is not given."""

    def __repr__(self) -> str:
        return "…"


MISSING = _Missing()
"""The default of a field that has none."""


def field(
    *, default: Any = MISSING, default_factory: Callable[[], Any] | None = None, note: Any = None
) -> Any:
    """The default of a field: a value, or a factory that is called for each record; with a ``note`` for
    ``notes_of``."""
    return _Declared(default, default_factory, note)


def names_of(kind: type[Record]) -> tuple[str, ...]:
    """The names of a class's fields, in order."""
    return tuple(defaults_of(kind))


def defaults_of(kind: type[Record]) -> dict[str, Any]:
    """The defaults of a class's fields by name, in order; MISSING for a field without one."""
    declared: Any = kind
    return declared.__defaults__  # type: ignore[no-any-return]


def notes_of(kind: type[Record]) -> dict[str, Any]:
    """The notes on a class's own fields, by name."""
    declared: Any = kind
    return declared.__notes__  # type: ignore[no-any-return]


def replace(record: RecordT, **changes: Any) -> RecordT:
    """A copy of the record with other values in these fields. Raises TypeError for an unknown field."""
    key = (type(record), *changes)
    make = _COPIERS.get(key)
    if make is not None:
        return make(record, *changes.values())  # type: ignore[no-any-return]
    return _first_copy(record, key, changes)


def _first_copy(record: RecordT, key: tuple[Any, ...], changes: dict[str, Any]) -> RecordT:
    """The same for some first copies: to compile a function takes as long as making those."""
    kind: Any = type(record)
    _COPIED[key] = copied = _COPIED.get(key, 0) + 1
    if copied > _MADE_PLAINLY:
        _COPIERS[key] = maker(kind, kind, given=tuple(changes))
    for name in kind.__defaults__:
        if name not in changes:
            changes[name] = getattr(record, name)
    return kind(**changes)  # type: ignore[no-any-return]


_COPIERS: dict[tuple[Any, ...], Any] = {}
_COPIED: dict[tuple[Any, ...], int] = {}


def made_of(kind: type[RecordT], /, *sources: object, **more: Any) -> RecordT:
    """A record whose fields come from ``more``, else from the last of ``sources`` that has an attribute of
    that name, else from the default. Which attributes to read from sources of these types is determined once,
    and compiled."""
    key = (kind, tuple(more), *map(type, sources))
    make = _MAKERS.get(key)
    if make is None:
        make = _MAKERS[key] = maker(kind, *sources, given=tuple(more))
    return make(*sources, *more.values())  # type: ignore[no-any-return]


def maker(kind: type[RecordT], *sources: object, given: tuple[str, ...] = ()) -> Callable[..., RecordT]:
    """``made_of`` at the speed of the class itself: a function of such ``sources`` (or of objects of these types), and
    of the values of the fields ``given``."""
    found = {
        name: f"s{place}.{name}"
        for place, source in enumerate(sources)
        for name in names_of(kind)
        if hasattr(source, name)
    }
    found |= {name: name for name in given}
    scope: dict[str, Any] = {"_Kind": kind, "_New": object.__new__}
    parameters = ", ".join([*(f"s{place}" for place in range(len(sources))), *given])
    lines = [f"def make({parameters}):", "made = _New(_Kind)"]  # calling the class takes longer
    defaults = defaults_of(kind)
    for name, default in defaults.items():
        declared = isinstance(default, _Declared)
        scope[f"_{name}"] = default.default_factory if declared else default
        found.setdefault(name, f"_{name}()" if declared else f"_{name}")
        lines.append(f"made.{name} = {found[name]}")
        if default is MISSING and found[name] == f"_{name}":
            raise TypeError(f"{kind.__qualname__} needs {name}")
    if strange := found.keys() - defaults.keys():
        raise TypeError(f"{kind.__qualname__} has no {min(strange)}")
    exec("\n ".join([*lines, "return made"]), scope)
    return scope["make"]  # type: ignore[no-any-return]


_MAKERS: dict[tuple[Any, ...], Any] = {}


class _Fields:
    """``__dataclass_fields__`` of a record's class, made from its declaration when it is first read."""

    def __get__(self, instance: object, kind: Any) -> dict[str, Field[Any]]:
        import dataclasses

        # without a text of its own, dataclasses makes one of the signature, which takes as long as all else here
        body: dict[str, Any] = {
            "__annotations__": {},
            "__module__": kind.__module__,
            "__doc__": kind.__name__,
        }
        for name, default in kind.__defaults__.items():
            body["__annotations__"][name] = _annotation(kind, name)
            given = {} if default is MISSING else {"default": default}
            if isinstance(default, _Declared):
                given = {"default_factory": default.default_factory}
            body[name] = dataclasses.field(**given, kw_only=name in kind.__kw_only__)
        shadow: Any = dataclasses.dataclass(
            type(kind.__name__, (), body), init=False, repr=False, eq=False, match_args=False
        )
        kind.__dataclass_fields__ = shadow.__dataclass_fields__
        return shadow.__dataclass_fields__  # type: ignore[no-any-return]


def _annotation(kind: type, name: str) -> str:
    """The annotation of a field in the class, or in the base that declares it."""
    for one in kind.__mro__:
        if name in (found := vars(one).get("__annotations__", {})):
            return found[name]  # type: ignore[no-any-return]
    raise AttributeError(name)


class _Pattern:
    """A regular expression that is compiled when it is first used."""

    __slots__ = ("_arguments", "finditer", "fullmatch", "match", "search", "sub")

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        import re

        compiled = re.compile(*self._arguments)
        for method in self.__slots__[1:]:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used: half a millisecond that most commands save."""
    lazy: Any = _Pattern(text, flags)
    return lazy  # type: ignore[no-any-return]


# -- methods that are compiled for each class when they are first called -------------------------------------------


def _compiled(kind: Any, name: str) -> Any:
    """Compile the method ``name`` for ``kind``, set it on the class, and return it."""
    fields: dict[str, Any] = kind.__defaults__
    scope: dict[str, Any] = {"_missing": MISSING}
    if name == "__init__":
        positional, named, body = ["self"], list[str](), list[str]()
        for one, default in fields.items():
            wanted, value = one, one
            if isinstance(default, _Declared):
                scope[f"_{one}"] = default.default_factory
                wanted, value = f"{one}=_missing", f"_{one}() if {one} is _missing else {one}"
            elif default is not MISSING:
                scope[f"_{one}"] = default
                wanted = f"{one}=_{one}"
            (named if one in kind.__kw_only__ else positional).append(wanted)
            body.append(f"self.{one} = {value}")
        wanted_all = [*positional, *(["*", *named] if named else [])]
        lines = [f"def {name}({', '.join(wanted_all)}):", *(body or ["pass"])]
    elif name == "__hash__":
        lines = [f"def {name}(self):", f"return hash(({''.join(f'self.{one}, ' for one in fields)}))"]
    else:
        lines = [
            f"def {name}(self, other):",
            "if other.__class__ is not self.__class__: return NotImplemented",
        ]
        if name == "__eq__":
            lines.append(f"return {' and '.join(f'self.{one} == other.{one}' for one in fields) or 'True'}")
        else:
            mine, others = (f"({''.join(f'{side}.{one}, ' for one in fields)})" for side in ("self", "other"))
            lines.append(f"return {mine} {_ORDER[name]} {others}")
    exec("\n ".join(lines), scope)
    method = scope[name]
    method.__qualname__, method.__module__ = f"{kind.__qualname__}.{name}", kind.__module__
    setattr(kind, name, method)
    return method


def _pending(name: str) -> Any:
    """A method that compiles itself, on its first call, for the class that it is called on."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        for kind in type(self).__mro__:  # find the class that still lacks it; a class below may have its own
            if kind.__dict__.get(name) is method:
                return _compiled(kind, name)(self, *arguments, **named)
        raise AttributeError(name)

    method.__name__ = name
    return method


def _begin(self: Any, *arguments: Any, **named: Any) -> None:
    """The ``__init__`` of a class until it has made some records: compiling one takes as long as making those."""
    kind: Any = type(self)
    if "__init__" not in kind.__dict__ or kind.__init__ is not _begin:  # a class below has its own
        kind = next(one for one in kind.__mro__ if vars(one).get("__init__") is _begin)
    _MADE[kind] = made = (
        _MADE.get(kind, 0) + 1
    )  # an attribute of the class would cost the caches of all its others
    fields, positional = kind.__defaults__, kind.__match_args__[: len(arguments)]
    fits = len(arguments) == len(positional)
    if named and fits:
        fits = named.keys() <= fields.keys() and named.keys().isdisjoint(positional)
    if made <= _MADE_PLAINLY and fits:
        for name, value in zip(positional, arguments):  # noqa: B905  (they are as many)
            setattr(self, name, value)
        for name, default in fields.items():
            if name in named:
                setattr(self, name, named[name])
            elif name not in positional:
                if default is MISSING:
                    break
                declared = type(default) is _Declared
                setattr(self, name, default.default_factory() if declared else default)
        else:
            return
    _compiled(kind, "__init__")(self, *arguments, **named)  # this also reports errors in the arguments


_MADE_PLAINLY = 20
_MADE: dict[type, int] = {}
_METHODS = {"__init__": _begin, "__eq__": _pending("__eq__"), "__hash__": _pending("__hash__")}
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_ORDERING = {name: _pending(name) for name in _ORDER}
_FIELDS = _Fields()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Declaring(type):
    """Makes a record of each class below Record, which may take ``kw_only``, ``order`` and ``frozen`` as
    keyword arguments; ``frozen`` is for mypy alone."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        kw_only: bool = False,
        order: bool = False,
        frozen: bool = True,
        **options: Any,
    ) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, namespace)  # Record itself
        defaults: dict[str, Any] = {}
        named: set[str] = set()
        notes: dict[str, Any] = {}
        for base in bases:
            defaults |= getattr(base, "__defaults__", {})
            named |= getattr(base, "__kw_only__", set())
        slots: list[str] = []
        hints = namespace.get("__annotations__")
        if hints is None:  # none, or not text: Python 3.14 makes those when they are asked for (PEP 749)
            annotate = namespace.get("__annotate__") or namespace.get("__annotate_func__")
            namespace["__annotations__"] = hints = {} if annotate is None else annotate(1)
        for one, kind in hints.items():
            if isinstance(kind, str) and kind.startswith("ClassVar["):
                continue
            if one not in defaults:
                slots.append(one)
            if kw_only:
                named.add(one)
            default = namespace.pop(one, MISSING)
            if type(default) is _Declared:
                notes[one] = default.note
                default = default if default.default_factory is not None else default.default
            defaults[one] = default
        namespace["__slots__"] = (*slots, *namespace.get("__slots__", ()))
        namespace["__defaults__"] = defaults
        namespace["__kw_only__"] = named
        namespace["__notes__"] = notes
        namespace["__match_args__"] = tuple([one for one in defaults if one not in named])
        namespace["__dataclass_fields__"] = _FIELDS
        for method, pending in (_METHODS | _ORDERING if order else _METHODS).items():
            namespace.setdefault(method, pending)
        return super().__new__(cls, name, bases, namespace, **options)


class Record(metaclass=_Declaring):
    """The base of all records."""

    __slots__ = ()
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names_of(type(self)))
        return f"{type(self).__qualname__}({shown})"
