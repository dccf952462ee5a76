"""Reads the words of a well-formed command line by the declarations of its command, without the parser library.

Importing typer takes three times as long as the rest of a short command. This module therefore reads the command line
first; it leaves all that it does not fully understand (help, errors, Hadoop's spellings) to typer, which reads the
same declarations. A test checks that both read the same values. It never prints and never guesses.

Decisions: fast-start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType

from executor.hints import Any
from executor.light import MISSING, Record, defaults_of

from .options import LARGEST, BadValueError, OptionDeclaration, Options


class Parameter(Record):
    """One option or argument of a command: its ``name`` in the function, its type, and its default, MISSING if there
    is none. ``kind`` is the type of one value, ``several`` whether it takes more than one; ``marks`` are the other
    marks of its type."""

    name: str
    declared: OptionDeclaration
    annotated: Any
    default: Any = MISSING
    marks: tuple[Any, ...] = ()
    group: tuple[str, type[Options]] | None = None

    @property
    def several(self) -> bool:
        """Whether it may be given several times."""
        return getattr(self._inner, "__origin__", None) is list

    @property
    def kind(self) -> Any:
        """The type of one value: str, int, float, bool or an enum."""
        return self._inner.__args__[0] if self.several else self._inner

    @property
    def _inner(self) -> Any:
        if isinstance(self.annotated, UnionType):
            (inner,) = (one for one in self.annotated.__args__ if one is not NoneType)
            return inner
        return self.annotated

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its spellings, without those that negate it; empty for an argument."""
        return tuple(one.partition("/")[0] for one in self.declared.spellings)

    @property
    def takes_value(self) -> bool:
        """Whether a value follows it."""
        return self.kind is not bool and not self.declared.settings.get("count")

    def value_of(self, word: str) -> Any:
        """The value of a word. Raises BadValueError, ValueError, or the error of its own parser."""
        settings, kind = self.declared.settings, self.kind
        if "parser" in settings:
            return settings["parser"](word)
        if kind in (int, float):
            number = kind(word)
            least, most = (-LARGEST, LARGEST) if kind is int else (number, number)
            if not settings.get("min", least) <= number <= settings.get("max", most):
                raise BadValueError(word)
            return number
        return kind(word) if issubclass(kind, Enum) else word

    def absent(self, environ: Mapping[str, str]) -> Any:
        """The value if it is not given."""
        settings = self.declared.settings
        if text := environ.get(settings.get("envvar", ""), ""):
            return self.value_of(text)
        if "parser" in settings and self.default not in (None, MISSING):
            return settings["parser"](self.default)
        return self.default


def parameters(function: Callable[..., Any]) -> Sequence[Parameter]:
    """The options and arguments that a command's function declares, in its order, without ``session``."""
    declared: Sequence[Parameter] | None = getattr(function, "parameters", None)
    if declared is not None:
        return declared
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    given = dict(zip(reversed(names), reversed(defaults), strict=False))
    found: list[Parameter] = []
    for name in names:
        if name == "session":
            continue
        annotation = _evaluated(function.__annotations__[name], function.__globals__)
        if isinstance(annotation, type):
            found += _parts(name, annotation)
        else:
            found.append(parameter(name, annotation, given.get(name, MISSING)))
    return found


def _parts(group: str, kind: type[Options]) -> Iterator[Parameter]:
    """The options of a group."""
    defaults, scope = defaults_of(kind), vars(sys.modules[kind.__module__])
    for name, default in defaults.items():
        yield parameter(name, _evaluated(kind.__annotations__[name], scope), default, (group, kind))


def _evaluated(annotation: Any, scope: dict[str, Any]) -> Any:
    """An evaluated type, which may be given as text; most texts are only a name, which need not be compiled."""
    if isinstance(annotation, str):
        return scope[annotation] if annotation in scope else eval(annotation, scope)
    return annotation


def parameter(
    name: str, annotation: Any, default: Any, group: tuple[str, type[Options]] | None = None
) -> Parameter:
    """A parameter from its evaluated type, ``Annotated[TYPE, option(…), MARKS…]``."""
    declared, *marks = annotation.__metadata__
    return Parameter(name, declared, annotation.__origin__, default, tuple(marks), group)


def grouped(own: Iterable[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command's function from the values of its own options; the options of a group are one
    argument."""
    arguments: dict[str, Any] = {}
    groups: dict[tuple[str, type[Options]], dict[str, Any]] = {}
    for one in own:
        if one.name in values:
            into = arguments if one.group is None else groups.setdefault(one.group, {})
            into[one.name] = values[one.name]
    return arguments | {name: kind(**parts) for (name, kind), parts in groups.items()}


def read(
    own: Iterable[Parameter],
    words: Sequence[str],
    *,
    interspersed: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any] | None:
    """The values of all parameters by name; None if the words are not understood. Without ``interspersed``, all words
    after the first argument are arguments, whatever their form."""
    every = list(own)
    options: dict[str, tuple[Parameter, bool]] = {}
    for one in every:
        for spelling in one.declared.spellings:
            yes, _, no = spelling.partition("/")
            options[yes] = one, True
            if no:
                options[no] = one, False
    values: dict[str, Any] = {}
    arguments: list[str] = []
    left = list(reversed(words))
    try:
        while left:
            word = left.pop()
            if word == "--":
                arguments += reversed(left)
                break
            if word == "-" or not word.startswith("-"):
                arguments.append(word)
                if not interspersed:
                    arguments += reversed(left)
                    break
            elif word.startswith("--"):
                name, equals, text = word.partition("=")
                one, meant = options[name]
                if one.takes_value:
                    _take(values, one, one.value_of(text if equals else left.pop()))
                elif equals:
                    return None
                else:
                    _flag(values, one, meant)
            else:
                letters = word[1:]
                while letters:
                    (one, meant), letters = options[f"-{letters[0]}"], letters[1:]
                    if one.takes_value:
                        _take(values, one, one.value_of(letters or left.pop()))
                        break
                    _flag(values, one, meant)
        _place([one for one in every if not one.spellings], arguments, values)
        for one in every:
            if one.name not in values:
                values[one.name] = one.absent(environ)
                if values[one.name] is MISSING:
                    return None
    except (BadValueError, LookupError, ValueError):
        return None
    return values


def _take(values: dict[str, Any], one: Parameter, value: Any) -> None:
    if one.several:
        values.setdefault(one.name, []).append(value)
    else:
        values[one.name] = value


def _flag(values: dict[str, Any], one: Parameter, meant: bool) -> None:
    values[one.name] = values.get(one.name, 0) + 1 if one.kind is int else meant


def _place(places: Sequence[Parameter], words: Sequence[str], values: dict[str, Any]) -> None:
    """Assign words to the arguments: an argument that takes several gets the words that the others leave. Raises
    ValueError."""
    for at, one in enumerate(places):
        if one.several:
            after = len(places) - at - 1
            end = max(at, len(words) - after)
            if words[at:end]:
                values[one.name] = [one.value_of(word) for word in words[at:end]]
            if len(words) - end < after:
                raise ValueError("too few arguments")
            for offset, last in enumerate(places[at + 1 :]):
                values[last.name] = last.value_of(words[end + offset])
            return
        if at < len(words):
            values[one.name] = one.value_of(words[at])
    if len(words) > len(places):
        raise ValueError("too many arguments")
