"""Records: to everybody who looks they are dataclasses, though nothing is compiled before it is used."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from executor.light import (
    QuickEnum,
    Record,
    contextmanager,
    field,
    made_of,
    maker,
    names_of,
    notes_of,
    replace,
    suppress,
)

pytestmark = pytest.mark.pure


class Point(Record, order=True):
    """Two numbers."""

    x: int = 0
    y: int = 0


class Named(Point, kw_only=True):
    """With a name."""

    KIND: ClassVar[str] = "named"
    name: str
    words: list[str] = field(default_factory=list)


class Placed(Named):
    """With a place, that is positional."""

    place: str = field(default="here", note="where")


def test_the_fields_are_those_of_the_bases_and_then_its_own() -> None:
    assert names_of(Placed) == ("x", "y", "name", "words", "place")
    assert Placed.__match_args__ == ("x", "y", "place")  # type: ignore[attr-defined]
    one = Placed(1, 2, "there", name="n")
    assert (one.x, one.y, one.place, one.name, one.words, one.KIND) == (1, 2, "there", "n", [], "named")
    assert repr(one) == "Placed(x=1, y=2, name='n', words=[], place='there')"
    assert notes_of(Placed) == {"place": "where"}


def test_what_is_made_anew_is_made_for_each() -> None:
    first, second = Named(name="a"), Named(name="a")
    first.words.append("w")
    assert second.words == []
    assert first != second


@pytest.mark.parametrize("arguments, named", [((1, 2, 3), {}), ((), {"z": 1}), ((1,), {"x": 1})])
def test_other_arguments_are_type_errors(arguments: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(*arguments, **named)
    with pytest.raises(TypeError, match="name"):
        Named()  # type: ignore[call-arg]
    for _ in range(50):  # the first copies and the compiled ones
        with pytest.raises(TypeError):
            replace(Point(), z=1)
        changed = replace(one := Point(1, 2), y=5)
        assert changed == Point(1, 5) and one == Point(1, 2) and type(changed) is Point
        assert replace(one) == one and replace(one) is not one


def test_they_are_compared_by_class_and_by_value() -> None:
    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Named(1, 2, name="")
    assert Point(1, 2) != (1, 2)
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2
    assert sorted([Point(2, 1), Point(1, 5)]) == [Point(1, 5), Point(2, 1)]
    assert (
        Point(1, 2) <= Point(1, 2) < Point(1, 3) and Point(2, 0) >= Point(1, 9) and Point(2, 0) > Point(1, 9)
    )
    with pytest.raises(TypeError):
        assert Point() < 3  # type: ignore[operator]


def test_a_class_and_the_one_below_it_each_have_their_own_methods() -> None:
    class Above(Record):
        a: int = 0

    class Below(Above):
        b: int = 0

    assert Above(1) == Above(1)
    assert hash(Above(1)) == hash(Above(1))
    assert Below(1, 2) != Below(1, 3)
    assert Below(1, 2).b == 2


def test_it_is_a_dataclass_to_those_who_look() -> None:
    assert dataclasses.is_dataclass(Placed)
    fields = {one.name: one for one in dataclasses.fields(Placed)}
    assert list(fields) == list(names_of(Placed))
    assert fields["words"].default_factory is list
    assert fields["name"].default is dataclasses.MISSING and fields["name"].kw_only
    assert fields["place"].default == "here" and fields["place"].type == "str"
    assert dataclasses.replace(Point(1, 2), y=5) == replace(Point(1, 2), y=5) == Point(1, 5)
    assert dataclasses.asdict(Named(name="n")) == {"x": 0, "y": 0, "name": "n", "words": []}


@pytest.mark.parametrize("one", [Point(1, 2), Placed(1, 2, "p", name="n", words=["w"])])
def test_it_survives_copies_and_wires(one: Any) -> None:
    assert copy.deepcopy(one) == copy.copy(one) == pickle.loads(pickle.dumps(one)) == one
    assert msgspec.json.decode(msgspec.json.encode(one), type=type(one)) == one
    assert not hasattr(one, "__dict__")


def test_its_declaration_imports_nothing() -> None:
    program = (
        "import sys; sys.path.insert(0, 'executor'); before = set(sys.modules)\n"
        "import light\n"
        "class P(light.Record):\n    __annotations__ = {'x': 'int'}\n"
        "assert P(3).x == 3\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    told = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["__future__", "light"]


class _Usual(enum.StrEnum):
    """Of the standard library."""

    ONE = "one"
    TWO = "two"
    UNO = "one"


class _Quick(enum.StrEnum, metaclass=QuickEnum):
    """Ours."""

    ONE = "one"
    TWO = "two"
    UNO = "one"


class _Number(enum.IntEnum, metaclass=QuickEnum):
    __hash__ = int.__hash__
    NONE = 0
    LOST = -100


def test_a_quick_enum_is_as_any_other() -> None:
    assert type(_Quick) is type(_Usual) and vars(_Quick).keys() == vars(_Usual).keys()
    for kind in (_Quick, _Usual):
        assert list(kind) == [kind.ONE, kind.TWO] and kind.UNO is kind.ONE is kind("one") is kind["ONE"]
        assert vars(kind)["TWO"] is kind.TWO  # read without a call
        assert (str(kind.ONE), f"{kind.ONE}", repr(kind.ONE)) == (
            "one",
            "one",
            f"<{kind.__name__}.ONE: 'one'>",
        )
        assert kind.ONE == "one" and {kind.ONE: 1}["one"] == 1 and len(kind) == 2
        with pytest.raises(ValueError, match=f"'three' is not a valid {kind.__qualname__}"):
            kind("three")
        assert copy.deepcopy(kind.TWO) is pickle.loads(pickle.dumps(kind.TWO)) is kind.TWO
        assert msgspec.json.decode(msgspec.json.encode(kind.TWO), type=kind) is kind.TWO
    assert _Number(-100) is _Number.LOST == -100 and repr(_Number.LOST) == "<_Number.LOST: -100>"
    assert msgspec.json.decode(b"-100", type=_Number) is _Number.LOST and f"{_Number.NONE}" == "0"


@pytest.mark.parametrize("how", ["__annotations__", "__annotate__", "__annotate_func__"])
def test_annotations_need_not_be_text(how: str) -> None:
    hints: dict[str, Any] = {"size": int | None, "name": str}
    body = {
        how: hints if how == "__annotations__" else lambda form: hints,
        "name": "n",
        "__module__": __name__,
    }
    kind: Any = type(Record)("Plain", (Record,), body)
    assert names_of(kind) == ("size", "name") and (kind(3).size, kind(3).name) == (3, "n")
    assert [one.type for one in dataclasses.fields(kind)] == [int | None, str]


def test_suppress_and_contextmanager_are_as_contextlibs() -> None:
    with suppress(KeyError, OSError):
        raise FileNotFoundError
    with pytest.raises(ValueError), suppress(KeyError):
        raise ValueError
    left: list[str] = []

    @contextmanager
    def entered(name: str, *, end: str) -> Iterator[str]:
        try:
            yield name
        finally:
            left.append(end)

    with pytest.raises(KeyError), entered("a", end="b") as name:
        raise KeyError(name)
    assert name == "a" and left == ["b"]


class _Size(Record):
    memory: int
    vcores: int = 1
    name: str = ""


class _Listed(Record):
    kind: str
    items: list[int] = field(default_factory=list)


class _Shown(Record):
    memory: int
    vcores: int = 0
    title: str = "none"


def test_a_record_is_made_of_what_others_have_under_the_same_names() -> None:
    assert made_of(_Shown, _Size(5, 2)) == _Shown(5, 2)
    assert made_of(_Shown, _Size(5, 2), title="t", vcores=9) == _Shown(5, 9, "t")
    assert made_of(_Shown, _Shown(1, 1, "first"), _Size(5, 2)) == _Shown(5, 2, "first"), "the last one counts"
    assert made_of(_Shown, _Size(5, 2), _Shown(1, 1, "last")) == _Shown(1, 1, "last")
    assert made_of(_Shown, None, _Size(7)) == _Shown(7, 1)
    with pytest.raises(TypeError):
        made_of(_Shown, None)
    with pytest.raises(TypeError):
        made_of(_Shown, _Size(5), colour="red")
    make = maker(_Shown, _Size, given=("title",))
    assert make(_Size(5, 2), "t") == made_of(_Shown, _Size(5, 2), title="t")
    with pytest.raises(TypeError):
        maker(_Shown, _Size, given=("colour",))
    with pytest.raises(TypeError):
        maker(_Shown, given=("title",))
    one, other = made_of(_Listed, kind="x"), made_of(_Listed, kind="x")
    assert one == _Listed("x") and one.items == [] and one.items is not other.items
