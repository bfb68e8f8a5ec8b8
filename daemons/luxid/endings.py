"""Jobs that have ended or were archived, until the history takes them.

The parts that end jobs leave them here, at once and without waiting; the history takes them in groups. Costs an append
for each job.

Source: DESIGN section 16.
"""

from collections.abc import Iterable
from typing import Final

import attrs
import trio

from common.ids import JobId
from common.queue.jobs import Job

# jobs that wait here at most; of more, the history finds the files itself
MOST: Final = 10_000


@attrs.define
class Endings:
    """What the history does not know yet."""

    _ended: list[Job] = attrs.Factory(list)
    _archived: list[JobId] = attrs.Factory(list)
    # whether there were more than it keeps
    _has_lost: bool = False
    # number of changes that were left here
    _come: int = 0
    _some: trio.Event = attrs.Factory(trio.Event)

    def __len__(self) -> int:
        return len(self._ended)

    @property
    def come(self) -> int:
        """Number of changes that were left here so far."""
        return self._come

    def ended(self, job: Job) -> None:
        """The job is final and durable."""
        self._come += 1
        if len(self._ended) < MOST:
            self._ended.append(job)
        else:
            self._has_lost = True
        self._some.set()

    def archived(self, job_ids: Iterable[JobId]) -> None:
        """The files of these ended jobs are in the archive."""
        self._come += 1
        if len(self._archived) < MOST:
            self._archived.extend(job_ids)
        else:
            self._has_lost = True
        self._some.set()

    def poke(self) -> None:
        """Let the history look, though there may be nothing."""
        self._some.set()

    async def wait(self) -> None:
        """Return when there is something to take."""
        await self._some.wait()

    @property
    def has_some(self) -> bool:
        return self._some.is_set()

    def peek(self) -> tuple[list[Job], list[JobId]]:
        """What is here: the jobs that have ended, and those that were archived."""
        return list(self._ended), list(self._archived)

    def drop(self, ended: int, archived: int) -> bool:
        """Forget the first ones, which are in the history now; return whether others were lost meanwhile."""
        del self._ended[:ended]
        del self._archived[:archived]
        if not self._ended and not self._archived:
            self._some = trio.Event()
        lost, self._has_lost = self._has_lost, False
        return lost
