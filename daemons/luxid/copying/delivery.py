"""Brings batches of a backlog to one node.

Theory. A node daemon of Gantry gets all files of a batch in few calls, in the order in which the master wrote them:
keys and notes of submissions, the serial, jobs; then moves, then removals. One of Ganeti gets a call for each file,
several at a time. What a failed call has done is unknown, and sent again.

Of the files of ours beside the jobs, other nodes get the keys of submissions, since a client that repeats a submission
after a failover would submit twice, the notes of batches, since half a batch would be taken for a whole one, and the
histories of waits. Keys and notes go before their jobs. A history is no acknowledged state: it follows some seconds
later, and is left out if it is too large. Log lines of running jobs and the output of commands stay on the master:
Ganeti copies no lines either, the lines are in the job's file at its next change, and output is not durable.

Source: noded.md 6, 8; DESIGN sections 12 and 13.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import trio

from common.errors import explain_os_error
from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.copying.calls import (
    CALL_S,
    CopiedJob,
    FoundJobs,
    QueueCalls,
    read_jobs,
    read_states,
)
from daemons.luxid.copying.comparison import beyond_master
from daemons.luxid.core.copies.backlog import Backlog, Key, QueueFact, SendBatch, StateName
from daemons.luxid.core.copies.removals import Removals
from daemons.luxid.removals import Beyond, read_removals
from protocol.noded.call import Failed, FailureKind
from protocol.noded.clients.line import NodeLine, NotSent
from protocol.noded.statefiles import REMOVALS, RemoveStateFiles

# contents that travel at a time to a node of Ganeti
CONTENTS_AT_ONCE: Final = 8
# bytes of contents in one call; a file with more goes alone. Packed, they grow by a third at most
PARCEL_BYTES: Final = 4 * 2**20
_SERIAL: Final = "queue/serial"
# key -> name below the folder of data, and content
Files = Mapping[Key, tuple[str, bytes]]


class NodeDelivery:
    """Sends to one node; what has arrived leaves the backlog."""

    def __init__(self, paths: Paths, calls: QueueCalls, line: NodeLine, backlog: Backlog) -> None:
        self._paths = paths
        self._calls = calls
        self._line = line
        self._backlog = backlog

    async def send(self, batch: SendBatch) -> None:
        """Raises: NotSent, OSError: what has not arrived stays in the backlog."""
        jobs = await in_thread(read_jobs, self._paths, tuple(batch.jobs), abandon_on_cancel=True)
        if self._backlog.takes_ours:
            await self._send_together(batch, jobs)
        else:
            await self._send_facts(batch, batch.facts)
            removals = await in_thread(read_removals, self._paths) if jobs.gone else Removals()
            for job_id in jobs.gone:
                if job_id in removals.jobs:
                    self._backlog.gone(batch, job_id)
                else:
                    # the node may have the last copy, and can only be purged of all
                    self._backlog.arrived(batch, job_id)
            self._backlog.seen(jobs.found)
            await self._send_contents(batch, jobs.found)
        for job_id, error in jobs.unreadable.items():
            self._backlog.postpone(jobs.unreadable)
            text = f"job {job_id} is not copied: {explain_os_error(error)}"
            raise NotSent(Failed(FailureKind.UNSENT, text)) from error

    async def remove(self, beyond: Beyond) -> None:
        """Take files away that the master has not, at a node that knows calls of ours. Raises: NotSent."""
        if beyond.removed:
            await self._line.call(RemoveStateFiles(tuple(beyond.removed)), CALL_S)
        if beyond.lost:
            await self._line.call(RemoveStateFiles(tuple(beyond.lost), keeps=True), CALL_S)

    async def _send_together(self, batch: SendBatch, jobs: FoundJobs) -> None:
        states = await in_thread(read_states, self._paths, batch.states) if batch.states else {}
        files: dict[Key, tuple[str, bytes]] = {}
        for name, content in states.items():
            if content is not None:
                files[name] = name, content
        if QueueFact.SERIAL in batch.facts:
            files[QueueFact.SERIAL] = _SERIAL, await in_thread(self._paths.serial_file.read_bytes)
        for job_id, job in jobs.found.items():
            if batch.jobs[job_id] or not job.is_archived:
                files[job_id] = f"queue/job-{job_id}", job.content
        moved: set[Key] = {job_id for job_id, job in jobs.found.items() if job.is_archived}
        for parcel in _parcels(files):
            await self._send_parcel(parcel)
            self._arrived(batch, parcel.keys() - moved)
        await self._send_facts(batch, [fact for fact in batch.facts if fact is not QueueFact.SERIAL])
        await self._move(batch, [job_id for job_id in jobs.found if job_id in moved])
        await self._remove_gone(batch, jobs.gone, [name for name in states if name not in files])

    async def _send_parcel(self, files: Files) -> None:
        try:
            await self._line.call(self._calls.write(dict(files.values())), CALL_S)
        except NotSent as error:
            if error.failed.kind is FailureKind.REFUSED and list(files) == [REMOVALS]:
                # a node daemon of an earlier release; it gets the record when it is a later one
                return
            if error.failed.kind is not FailureKind.REFUSED or len(files) == 1:
                self._backlog.postpone(files)
                raise
            # perhaps only one of them is refused
            for key, file in files.items():
                await self._send_parcel({key: file})

    async def _remove_gone(self, batch: SendBatch, jobs: Sequence[JobId], states: Sequence[StateName]) -> None:
        names = [*states, *(name for job_id in jobs for name in _names_of(self._paths, job_id))]
        if names:
            await self.remove(await beyond_master(self._paths, self._line, names))
        self._arrived(batch, [*states, *jobs])

    def _arrived(self, batch: SendBatch, keys: Iterable[Key]) -> None:
        for key in keys:
            self._backlog.arrived(batch, key)

    async def _send_facts(self, batch: SendBatch, facts: Sequence[QueueFact]) -> None:
        for fact in facts:
            await self._line.call(await self._calls.fact(fact), CALL_S)
            self._backlog.arrived(batch, fact)

    async def _send_contents(self, batch: SendBatch, found: Mapping[JobId, CopiedJob]) -> None:
        failures: dict[JobId, Failed] = {}
        places = trio.CapacityLimiter(CONTENTS_AT_ONCE)

        async def send(job_id: JobId, content: bytes) -> None:
            async with places:
                try:
                    await self._line.call(self._calls.content(job_id, content), CALL_S)
                except NotSent as error:
                    failures[job_id] = error.failed

        async with trio.open_nursery() as nursery:
            for job_id, job in found.items():
                if batch.jobs[job_id] or not job.is_archived:
                    nursery.start_soon(send, job_id, job.content)
        arrived = [job_id for job_id in found if job_id not in failures]
        for job_id in arrived:
            if not found[job_id].is_archived:
                self._backlog.arrived(batch, job_id)
        await self._move(batch, [job_id for job_id in arrived if found[job_id].is_archived])
        if failures:
            self._backlog.postpone(failures)
            raise NotSent(next(iter(failures.values())))

    async def _move(self, batch: SendBatch, job_ids: Sequence[JobId]) -> None:
        if not job_ids:
            return
        try:
            await self._line.call(self._calls.move(job_ids), CALL_S)
        except NotSent as error:
            self._backlog.not_moved(job_ids)
            if error.failed.kind is FailureKind.REFUSED and not all(batch.jobs[job_id] for job_id in job_ids):
                # it lacks one of the files, perhaps because the reply to an earlier move was lost
                return
            raise
        for job_id in job_ids:
            self._backlog.arrived(batch, job_id)


def _parcels(files: Files) -> Iterator[Files]:
    """In order, each with as much as one call may carry."""
    parcel: dict[Key, tuple[str, bytes]] = {}
    size = 0
    for key, file in files.items():
        if parcel and size + len(file[1]) > PARCEL_BYTES:
            yield parcel
            parcel, size = {}, 0
        parcel[key] = file
        size += len(file[1])
    if parcel:
        yield parcel


def _names_of(paths: Paths, job_id: JobId) -> tuple[str, str]:
    places = (paths.job_file(job_id), paths.archived_job_file(job_id))
    return str(places[0].relative_to(paths.data)), str(places[1].relative_to(paths.data))
