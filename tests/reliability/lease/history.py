"""What happened while masters came and went: what each client asked and was told, and what the jobs did.

Times are of the clock that all processes of a machine share, so that one can say which of two exchanges came first.
"""

import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

import attrs

from tests.reliability.ledger import Outcome

_LINE: Final = re.compile(r"(enter|clash|leave) (\S+) (\S+) (\S+)(?: at (\S+))?")


@attrs.frozen
class Submit:
    """Answer: ids of the jobs, in order."""

    key: str
    # of each job; its command leaves its own in the ledger
    tokens: tuple[str, ...]


@attrs.frozen
class Look:
    """Answer: state of the job; None: there is none."""

    job_id: int


@attrs.frozen
class Cancel:
    """Answer: whether the job is canceled."""

    job_id: int


@attrs.frozen
class Write:
    """Give a thing another value: a priority, a filter rule, a tag, a limit. Values of one thing are never repeated."""

    name: str
    # None: it is removed
    value: object


@attrs.frozen
class Read:
    """Answer: value of the thing; None: it is not there."""

    name: str


Asked = Submit | Look | Cancel | Write | Read


@attrs.frozen
class Told:
    """One exchange of a client with a master."""

    client: str
    asked: Asked
    # nanoseconds
    began: int
    ended: int
    outcome: Outcome
    answer: object = None
    # name of the node that answered; empty: none did
    by: str = ""

    @property
    def is_sure(self) -> bool:
        return self.outcome is Outcome.ANSWERED

    def is_before(self, other: "Told") -> bool:
        """It was over, with an answer, before the other one began."""
        return self.is_sure and self.ended < other.began


class Notes:
    """The exchanges of one client in a file, to which each is added at once; a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, told: Told) -> None:
        self._file.write(pickle.dumps(told))


def read_notes(path: Path) -> Iterator[Told]:
    """The exchanges in such a file; one that was cut off is not among them."""
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return


@attrs.frozen
class Line:
    """What a command has told of itself: that it has begun, had company under its lock, or has come to its end."""

    event: str
    token: str
    lock: str
    node: str
    # seconds since the epoch; 0: it does not say
    at: float = 0.0


def read_lines(text: str) -> list[Line]:
    """The lines of a ledger, in the order in which they were written. One command writes each line by one call."""
    return [Line(found[1], found[2], found[3], found[4], float(found[5] or 0)) for found in _LINE.finditer(text)]


@attrs.frozen
class EndedJob:
    """A job as it is at the end."""

    state: str
    token: str


@attrs.frozen
class Rest:
    """What there is when all has come to rest."""

    jobs: Mapping[int, EndedJob]
    # name -> value of all things that were written
    things: Mapping[str, object] = attrs.Factory(dict)
