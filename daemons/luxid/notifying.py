"""Submits the jobs that tell of others."""

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import attrs
import orjson
import trio

from common.durable.atomicfile import write_file
from common.errors import Conflict, GantryError, Unavailable
from common.ids import JobId
from common.notify import BatchEnd, JobLocation, Subject, message_id, payload
from common.objects.index import ConfigIndex
from common.paths import Paths
from common.queue.jobs import FINAL, Job, Timestamp, to_seconds
from common.queue.reasons import Batch, JobOwner, batch_of, next_try, owner_of
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.telling import Occasions, delivery, is_delivery
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.outboxes import PendingNotice

# Whether all jobs of a batch have ended.
#
# Theory. The ids of a batch's jobs follow one another, and ids of other jobs may lie at the edges. The first that has
# not ended is remembered for each batch, so that all ends of a batch together look once at each of its jobs. A client
# chooses the id of its batch, so two owners may have the same, and one of them may use it again.
#
# A client states the size of its batch, so no file is looked for beyond the last id that was given.
#
# Source: DESIGN section 16.


# id and owner of a batch
_Key = tuple[str, JobOwner | None]


@attrs.define
class BatchEnds:
    """Looks at the live jobs. Args: serial: returns the last id that was given to a job."""

    _paths: Paths
    _jobs: LiveJobs
    _serial: Callable[[], JobId]
    # batch -> first job that may not have ended
    _next: dict[_Key, int] = attrs.Factory(dict)

    def find(self, job: Job, batch: Batch) -> BatchEnd | None:
        """The end of the job's batch; None: it has not ended."""
        first = max(1, job.job_id - batch.place + 1)
        last = min(job.job_id + batch.size - batch.place, self._serial())
        key = (batch.batch_id, owner_of(job))
        known = self._next.pop(key, first)
        # a place elsewhere is of another batch with this id
        at = known if first <= known <= last else first
        while at <= last and not self._is_awaited(JobId(at), job.job_id, key):
            at += 1
        if at <= last:
            self._next[key] = at
            return None
        counts = Counter(
            state.value
            for job_id in range(first, last + 1)
            if (state := self._jobs.queue.ended.get(JobId(job_id))) is not None and self._may_be_of(JobId(job_id), key)
        )
        return BatchEnd(batch.batch_id, dict(counts), job.received_at[0] if job.received_at else 0)

    def _is_awaited(self, job_id: JobId, ended: JobId, key: _Key) -> bool:
        if job_id not in self._jobs.table:
            # a later one may be durable, and about to be shown; earlier ones were shown before
            return job_id > ended and os.path.lexists(self._paths.job_file(job_id))
        job = self._jobs.table.in_memory(job_id)
        return job is not None and job.next_index is not None and self._may_be_of(job_id, key)

    def _may_be_of(self, job_id: JobId, key: _Key) -> bool:
        job = self._jobs.table.in_memory(job_id)
        batch = None if job is None else batch_of(job)
        return job is None or (batch is not None and (batch.batch_id, owner_of(job)) == key)


# Submits a job for each event that somebody is to be told of.
#
# Theory. The job is submitted under a key that follows from the event, so it is there once, however often it is
# submitted. A crash between the end of a job and that submission loses nothing: at the start, all jobs that have ended
# since an instant in a file are looked at again, and what was submitted before is known by its key. The instant moves
# on behind the clock by so much that an end that luxid hears of late is not passed over, and by less than keys are
# kept.
#
# Another node that becomes the master looks as far back as keys are kept, if telling was on there or a delivery is in
# the queue.
#
# Source: DESIGN section 16; everyday.md section h.


# submissions under way at once; they share writes
_AT_ONCE: Final = 16
# seconds after which the instant is moved on, and by which it stays behind the clock
_MOVE_S: Final = 600.0
_BEHIND_S: Final = 3600.0
# seconds that another master looks back at most: less than keys are kept
_LOOK_BACK_S: Final = 23 * 3600.0
_log: Final = get_log(__name__)
# submits a job of luxid under a key; returns its id, or that of the job that was submitted before
SubmitOwn = Callable[[Mapping[str, object], str], Awaitable[JobId]]


class JobNotifier:
    """Tells of the jobs that rules name.

    Args:
        configuration: returns the present one.
        serial: returns the last id that was given to a job.
    """

    def __init__(
        self,
        settings: Settings,
        jobs: LiveJobs,
        configuration: Callable[[], Awaitable[ConfigIndex]],
        serial: Callable[[], JobId],
    ) -> None:
        self._rules = settings.notify
        self._may_be_new = settings.cluster.has_nodes
        self._path = settings.paths.notify_since
        self._paths = settings.paths
        self._jobs = jobs
        self._notices = jobs.notices
        self._configuration = configuration
        self._serial = serial
        self._moved_at = 0.0

    def recover(self, found: Iterable[Job]) -> None:
        """Begin to take events, with those of jobs that have ended before; the jobs are in the table."""
        if not self._rules.is_on:
            self._forget()
            return
        occasions = Occasions(self._rules.rules, BatchEnds(self._paths, self._jobs, self._serial).find)
        self._notices.occasions = occasions
        jobs = list(found)
        since = self._since(jobs, time.time())
        self._note(since)
        ended = sorted((job for job in jobs if job.state in FINAL), key=_ended_at)
        last_of = {_key_of(job, batch): job.job_id for job in ended if (batch := batch_of(job)) is not None}
        for job in ended:
            self._notices.note_end(job)
            batch = batch_of(job)
            if batch is not None and last_of[_key_of(job, batch)] != job.job_id:
                # all its jobs are in the table: for each of them the whole batch would be looked at
                occasions.ended_early(job, batch)
                continue
            events = occasions.ended(job)
            if _ended_at(job) >= since:
                self._notices.put(job, events)
        for job in jobs:
            failed = None if job.state in FINAL else next_try(job)
            if failed is not None and failed.end_at >= since:
                self._notices.retried(job)
        _log.info("notify.on", rules=len(self._rules.rules), since=since, looked_at_again=len(self._notices))

    async def run(self, submit: SubmitOwn) -> None:
        """Submit what is to be told, until cancelled."""
        if not self._rules.is_on:
            return
        while True:
            events: list[PendingNotice] = []
            # the instant moves on without events, too: a late one would be behind the keys that say what was told
            with trio.move_on_after(_MOVE_S):
                events = await self._notices.first(_AT_ONCE)
            async with trio.open_nursery() as nursery:
                for each in events:
                    nursery.start_soon(self._tell, submit, each)
            await self._move_on()

    async def _tell(self, submit: SubmitOwn, each: PendingNotice) -> None:
        """Submit the delivery of one event, as soon as the queue takes it."""
        for pause_s in retry_pauses():
            try:
                job_id = await submit(await self._delivery(each), each.key)
            except NoLongerMaster:
                # luxid ends; the next master tells
                await trio.sleep_forever()
            except Conflict:
                # it was told as the job was then
                break
            except (GantryError, OSError) as error:
                rule = each.event.rule
                # by its code: the configuration may be what cannot be had
                if isinstance(error, OSError) or error.code == Unavailable.code:
                    _log.warning("notify.delayed", job=each.job.job_id, rule=rule, reason=error, retry_s=pause_s)
                    await trio.sleep(pause_s)
                    continue
                effect = "nobody is told of it"
                _log.error("notify.refused", job=each.job.job_id, rule=rule, reason=error, effect=effect)
                break
            else:
                _log.info("notify.queued", job=each.job.job_id, rule=each.event.rule, by_job=job_id)
                break
        self._notices.remove(each.key)

    async def _delivery(self, each: PendingNotice) -> Mapping[str, object]:
        """Raises: GantryError: the configuration cannot be read now."""
        cluster = (await self._configuration()).cluster
        place = JobLocation(cluster.cluster_name, cluster.uuid, self._rules.job_url)
        subject = Subject.of(each.job)
        text = payload(each.event, subject, place)
        message = message_id(each.event, each.job, place)
        return delivery(each.event, subject, text, message, self._rules.rules, self._rules.at_once)

    # the instant

    def _since(self, jobs: Iterable[Job], now_s: float) -> float:
        found = self._read()
        if found is None:
            # a node that was no master before; without any delivery, telling has just been switched on
            told = (to_seconds(job.received_at) for job in jobs if is_delivery(job) and job.received_at)
            found = min(told, default=now_s)
        return max(found, now_s - _LOOK_BACK_S) if self._may_be_new else found

    def _read(self) -> float | None:
        try:
            return float(orjson.loads(self._path.read_bytes())["since"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            # keys tell what was told already
            effect = f"looked at what has ended in {_LOOK_BACK_S / 3600:.0f} hours"
            _log.error("notify.unreadable", file=self._path, reason=error, effect=effect)
            return time.time() - _LOOK_BACK_S

    async def _move_on(self) -> None:
        now_s = time.time()
        if not len(self._notices) and abs(now_s - self._moved_at) >= _MOVE_S:
            await in_thread(self._note, now_s - _BEHIND_S)

    def _note(self, since: float) -> None:
        """Write the instant; a disk that refuses is tried again with the next one."""
        try:
            write_file(self._path, orjson.dumps({"since": since}), mode=0o640)
        except OSError as error:
            effect = "after a restart what was not told may be passed over, if the file is missing"
            _log.error("notify.not_noted", file=self._path, reason=error, effect=effect)
        else:
            self._moved_at = time.time()

    def _forget(self) -> None:
        """What ends while telling is off is not told later."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("notify.not_forgotten", file=self._path, reason=error)


def _ended_at(job: Job) -> float:
    at: Timestamp | None = job.end_at or job.received_at
    return 0.0 if at is None else to_seconds(at)


def _key_of(job: Job, batch: Batch) -> tuple[str, JobOwner | None, int]:
    """What the jobs of a batch have in common, and no others; of an id that was used again, too."""
    return batch.batch_id, owner_of(job), job.job_id - batch.place
