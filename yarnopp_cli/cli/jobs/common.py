"""Options and checks of the commands that submit jobs: how many containers, and which resources each has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from executor.light import pattern
from executor.records import GPU, MEMORY_MB, VCORES, Others, Resource, counted

from ...errors import UsageError
from ...settings.resource_types import MOST, wrong_name
from ..frame.options import Annotated, BadValueError, option, size_mb

MOST_CONTAINERS = 100_000

Count = Annotated[int, option("-n, --num-containers N", "Number of containers.", min=1, max=MOST_CONTAINERS)]
Detach = Annotated[bool, option("-d, --detach", "Return at once; the job continues in the cluster.")]


def both_types() -> UsageError:
    """The refusal of a command line that asks for both execution types."""
    return UsageError.exclusive(
        "-O and -G", "a container is opportunistic or guaranteed", "give one of them; -G is the default"
    )


def check_size(vcores: int | None, memory: int | None) -> None:
    """Raise UsageError for a size that no container can have."""
    if vcores is not None and vcores < 0:
        raise UsageError(
            f"a container of {vcores} vcores", because="a number of vcores is not negative", hint="--vcores 1"
        )
    if memory is not None and memory < 1:
        raise UsageError(
            f"a container of {memory} MB", because="a container needs memory", hint="--memory 512"
        )


def tags(given: list[str] | None) -> tuple[str, ...]:
    """The tags of an application, each once: options, and commas within one."""
    if not given:
        return ()
    from ..frame.filters import comma_words

    return tuple(dict.fromkeys(one for text in given for one in comma_words(text)))


# -- resources of a container: --gpus N and --resource NAME=N --------------------------------------------------

Gpus = Annotated[
    int | None, option("--gpus N", "GPUs of each container: --resource yarn.io/gpu=N.", min=0, max=MOST)
]
Resources = Annotated[
    list[str] | None,
    option("--resource NAME=N", "What else each container needs, of yarn.resource-types (repeatable)."),
]


_RESOURCE = pattern(r"(\d{1,18})\s*([kmgtp]?)(?:i?b?)?", re.ASCII | re.IGNORECASE)


def others_of(gpus: int | None, words: Iterable[str]) -> Others:
    """The resources that these options request. Raises UsageError."""
    amounts: dict[str, int] = {} if gpus is None else {GPU: gpus}
    for word in words:
        name, number = (piece.strip() for piece in word.partition("=")[::2])
        wrong = amount_fault(name, number)
        if not wrong and name in amounts:
            wrong = f"{name} is given twice"
        if wrong:
            raise UsageError(
                f"--resource {word!r} is refused", because=wrong, hint="for example --resource license=1"
            )
        amounts[name] = int(number)
    return counted(amounts)


def resources(text: str) -> Resource:
    """YARN's ``memory-mb=512,vcores=2,yarn.io/gpu=1``; ``memory`` may have a unit, and an amount that is not given is
    -1. Raises UsageError."""
    memory, vcores, others = -1, -1, dict[str, int]()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        match = _RESOURCE.fullmatch(value)
        if not equals or match is None:
            raise UsageError(
                f"{part!r} is not a resource",
                because="a resource is a name and a whole number",
                hint="write memory-mb=512,vcores=2",
            )
        if name in ("memory", "memory-mb"):
            try:
                memory = size_mb(match[1] + match[2]) if match[2] else int(match[1])
            except BadValueError as error:
                raise UsageError(
                    f"{part!r} is not a resource", because=str(error), hint="write memory-mb=512"
                ) from None
        elif name == "vcores" and not match[2]:
            vcores = int(match[1])
        elif wrong := amount_fault(name, value):
            raise UsageError(
                f"{part!r} is not a resource", because=wrong, hint="memory-mb=512,vcores=2,yarn.io/gpu=1"
            )
        else:
            others[name] = int(value)
    return Resource(memory, vcores, counted(others))


def amount_fault(name: str, number: str) -> str:
    """The error in an amount of a type; "" for none."""
    if name in (MEMORY_MB, VCORES, "memory"):
        return "memory and vcores have their own options: --memory, --vcores"
    if wrong := wrong_name(name):
        return wrong
    plain = number.isascii() and number.isdigit() and len(number) <= len(str(MOST))
    return "" if plain and int(number) <= MOST else f"an amount is a whole number up to {MOST}"
