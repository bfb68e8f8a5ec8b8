"""Work in steps (`daemons.luxid.turns`), done at once."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def result_of(work: Generator[int, None, T]) -> T:
    """What the work returns when all its steps are done. Raises: what it raises."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value
