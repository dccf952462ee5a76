"""Options and checks of the commands that submit jobs."""

from __future__ import annotations

from ...errors import UsageError
from ..frame.options import Annotated, option

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
