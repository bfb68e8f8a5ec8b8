"""What subscribers of luxid's feed are told: what has changed lately, and who wants to hear of it."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from common.ids import JobId

# Which subscriber wants to hear of which job: a change of a job is told to those who named it, and to no others.
#
# Source: DESIGN section 6.


S = TypeVar("S")


class Interests(Generic[S]):
    """The subscribers by the jobs that they named. Cost: O(jobs named) to come and go, O(1) for each one told."""

    def __init__(self) -> None:
        self._by_job: dict[JobId, dict[S, None]] = {}

    def add(self, subscriber: S, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            self._by_job.setdefault(job_id, {})[subscriber] = None

    def drop(self, subscriber: S, job_ids: Iterable[JobId]) -> None:
        """Harmless when repeated."""
        for job_id in job_ids:
            named_by = self._by_job.get(job_id)
            if named_by is not None:
                named_by.pop(subscriber, None)
                if not named_by:
                    del self._by_job[job_id]

    def of(self, job_id: JobId) -> Iterator[S]:
        """The subscribers who named this job."""
        return iter(self._by_job.get(job_id, ()))

    def __len__(self) -> int:
        """The number of jobs that somebody named."""
        return len(self._by_job)


# The jobs that have changed lately, each with the serial of its last change.
#
# Theory. Changes are told in turns, and each turn has a serial. A subscriber that comes back names the last turn that
# it knows, and is told the present state of each job that has changed since: so nothing is kept of a change but its
# job. The number of jobs is bounded; who has missed more than they tell begins anew. Nothing is kept while nobody
# subscribes: then all earlier places are lost.
#
# Source: DESIGN section 6.


MOST: Final = 10_000


class RecentChanges:
    """Args:
    incarnation: of this luxid; a place of another one means nothing here.
    most: jobs to remember.
    """

    def __init__(self, incarnation: str, most: int = MOST) -> None:
        self._incarnation = incarnation
        self._most = most
        self._serial = 0
        # what changed in this turn or before it is not known job by job
        self._floor = 0
        # turn of the last change, oldest first
        self._turns: OrderedDict[JobId, int] = OrderedDict()

    @property
    def position(self) -> str:
        """The last turn, for subscribers."""
        return f"{self._incarnation}:{self._serial}"

    @property
    def serial(self) -> int:
        """The last turn."""
        return self._serial

    def turn(self, changed: Iterable[JobId]) -> None:
        """A turn with changes of these jobs. Cost: O(1) for each."""
        self._serial += 1
        for job_id in changed:
            self._turns[job_id] = self._serial
            self._turns.move_to_end(job_id)
        while len(self._turns) > self._most:
            _, self._floor = self._turns.popitem(last=False)

    def forget(self) -> None:
        """Lose all earlier places: from here on changes are not noted."""
        self._serial += 1
        self._floor = self._serial
        self._turns.clear()

    def read(self, position: str) -> int | None:
        """The turn of a place from which a subscriber can go on; None: there is no going on from there."""
        incarnation, _, serial = position.rpartition(":")
        if incarnation != self._incarnation or not serial.isascii() or not serial.isdigit():
            return None
        turn = int(serial[:20])
        return turn if self._floor <= turn <= self._serial else None

    def since(self, turn: int, among: Sequence[JobId] | None = None) -> list[JobId] | None:
        """The jobs that have changed after this turn; None: that is not known any more.

        Args: among: look at these only.
        Cost: O(jobs in `among`), else O(jobs in the answer).
        """
        if turn < self._floor:
            return None
        if among is not None:
            return [job_id for job_id in among if self._turns.get(job_id, 0) > turn]
        changed: list[JobId] = []
        for job_id, changed_in in reversed(self._turns.items()):
            if changed_in <= turn:
                break
            changed.append(job_id)
        return changed
