"""The program of a `pi` container: counts points of a Halton sequence inside and outside a circle.

``halton.py map INPUT OUTPUT`` reads ``offset size`` and writes ``inside outside``; ``halton.py reduce
DIRECTORY MAPS`` sums the maps' files into ``reduce-out``. Started as a plain file with ``python -I -S``: it
imports nothing of yopp, and of the standard library only what the interpreter has loaded anyway. The
arithmetic is exactly that of Hadoop's QuasiMonteCarlo in doubles, so that the digits are the same.
"""

import os
import sys

BASES = (2, 3)
DIGITS = (63, 40)
"""The bases of the two coordinates, and how many digits are kept of each."""

STATUS_EVERY = 1000


class _Coordinate:
    """One coordinate: digits of the index in one base, their weights, and the radical inverse they make."""

    def __init__(self, base: int, count: int, index: int) -> None:
        self.base = base
        self.weights = []
        self.digits = []
        self.value = 0.0
        weight = 1.0
        for _ in range(count):
            weight = weight / base
            index, digit = divmod(index, base)
            self.weights.append(weight)
            self.digits.append(digit)
            self.value += digit * weight

    def step(self) -> float:
        """Go to the next index.

        Carries through the digits, and corrects the value by each change as it happens.
        """
        digits, weights, last = self.digits, self.weights, self.base - 1
        value = self.value
        for place, digit in enumerate(digits):
            value += weights[place]
            if digit != last:
                digits[place] = digit + 1
                break
            digits[place] = 0
            value -= weights[place - 1] if place else 1.0
        self.value = value
        return value


def points(offset: int, count: int) -> "list[tuple[float, float]]":
    """The points after the first ``offset`` ones."""
    x, y = (_Coordinate(base, digits, offset) for base, digits in zip(BASES, DIGITS))  # noqa: B905
    return [(x.step(), y.step()) for _ in range(count)]


def count_inside(offset: int, size: int, status: "object" = None) -> int:
    """How many of the ``size`` points after the first ``offset`` lie in the circle of radius 1/2 around (1/2,
    1/2).
    """
    x, y = (_Coordinate(base, digits, offset) for base, digits in zip(BASES, DIGITS))  # noqa: B905
    step_x, step_y = x.step, y.step
    inside = 0
    for done in range(0, size, STATUS_EVERY):
        for _ in range(min(STATUS_EVERY, size - done)):
            dx = step_x() - 0.5
            dy = step_y() - 0.5
            if dx * dx + dy * dy <= 0.25:
                inside += 1
        if callable(status) and size - done >= STATUS_EVERY:
            status(f"Generated {done + STATUS_EVERY} samples.\n")
    return inside


def read_pair(path: str) -> "tuple[int, int]":
    """The two numbers in a file. Raises ValueError if there are not two."""
    # A FIFO of that name would be waited for, a link to a device be read for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), encoding="ascii") as file:
        first, second = file.read(100).split()
    return int(first), int(second)


def write_pair(path: str, first: int, second: int) -> None:
    """Write two numbers into a file atomically.

    A map that is killed leaves no partial result.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="ascii") as file:
        file.write(f"{first} {second}\n")
    os.replace(temporary, path)


def run_map(source: str, target: str) -> None:
    """One map."""
    offset, size = read_pair(source)
    inside = count_inside(offset, size, sys.stderr.write)
    write_pair(target, inside, size - inside)


def run_reduce(directory: str, maps: int) -> None:
    """The reduce."""
    pairs = [read_pair(f"{directory}/part-m-{index:05d}") for index in range(maps)]
    write_pair(f"{directory}/reduce-out", sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs))


if __name__ == "__main__":
    if sys.argv[1] == "map":
        run_map(sys.argv[2], sys.argv[3])
    else:
        run_reduce(sys.argv[2], int(sys.argv[3]))
