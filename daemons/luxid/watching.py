"""The kernel's events about the queue's folders and the livelocks' folder, as calls.

The watches are made before the queue is read, so that nothing is missed in between.

Source: DESIGN sections 5 and 6; luxid.md 5.7.
"""

from collections.abc import Callable
from typing import Final

import attrs

from common.ids import JobId
from common.paths import Paths
from common.system.watch import EventKind, FolderEvent, FolderWatch

_PREFIX: Final = "job-"


@attrs.frozen
class FolderEvents:
    """The callbacks for events; called in the event loop, must not raise."""

    # called with the jobs whose files were replaced
    jobs_changed: Callable[[set[JobId]], None]
    # called with the jobs whose processes appended to their logs
    logs_grew: Callable[[set[JobId]], None]
    # called with the livelocks that an ended process had open, by their names within the folder
    livelocks_touched: Callable[[set[str]], None]
    # called when events were lost, and again and again while they cannot come: check everything
    overflow: Callable[[], None]


class QueueWatch:
    """The watches of luxid."""

    def __init__(self, paths: Paths) -> None:
        # every write of a job file is a rename (luxid.md 3)
        self._queue = FolderWatch(paths.queue, kinds=EventKind.MOVED_TO)
        self._logs = FolderWatch(paths.job_logs, kinds=EventKind.MODIFY)
        kinds = EventKind.CLOSE_WRITE | EventKind.DELETE | EventKind.MOVED_FROM
        self._livelocks = FolderWatch(paths.livelocks, kinds=kinds)

    def close(self) -> None:
        self._queue.close()
        self._logs.close()
        self._livelocks.close()

    async def follow_jobs(self, tell: FolderEvents) -> None:
        """Report changed job files until cancelled."""
        while True:
            _tell_of_jobs(await self._queue.events(), tell)

    def tell_of_jobs(self, tell: FolderEvents) -> None:
        """Report the job files that have changed so far."""
        _tell_of_jobs(self._queue.take(), tell)

    async def follow_logs(self, tell: FolderEvents) -> None:
        """Report logs that grew until cancelled."""
        while True:
            events = await self._logs.events()
            tell.logs_grew({job_id for event in events if (job_id := _job_of(event.name)) is not None})
            _tell_of_loss(events, tell)

    async def follow_livelocks(self, tell: FolderEvents) -> None:
        """Report livelocks that may have been released, until cancelled."""
        while True:
            events = await self._livelocks.events()
            tell.livelocks_touched({event.name for event in events if event.name})
            _tell_of_loss(events, tell)


def _tell_of_jobs(events: list[FolderEvent], tell: FolderEvents) -> None:
    if changed := {job_id for event in events if (job_id := _job_of(event.name)) is not None}:
        tell.jobs_changed(changed)
    _tell_of_loss(events, tell)


def _job_of(name: str) -> JobId | None:
    number = name[len(_PREFIX) :]
    if not name.startswith(_PREFIX) or not number.isascii() or not number.isdigit():
        return None
    return JobId(int(number))


def _tell_of_loss(events: list[FolderEvent], tell: FolderEvents) -> None:
    if any(event.needs_rescan for event in events):
        tell.overflow()
