"""Wait for changes of one job.

Source: luxid.md 8.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.commands.output import read_marks, read_output
from common.errors import InvalidRequest, JobLost, NotFound, PrerequisiteError, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.queue.jobs import Job
from common.queue.reasons import OutputRange, output_of_try, tried_index, tries_of
from common.system.inthread import in_thread
from daemons.luxid.broadcasts import wait_for_any
from daemons.luxid.core.query.jobs import JobView, newer_entries, row_of, select_fields
from daemons.luxid.core.rights import OwnerRight, Viewer
from daemons.luxid.feed.feed import Feed, begin
from daemons.luxid.feed.stream import FeedStream, FollowedOutputs, JobSubscription
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobViews, LiveJobs
from daemons.luxid.outputs import LONGEST_PIECE, OutputWatch, decode_whole
from protocol.luxi.feed import FeedBegin, Subscribe
from protocol.luxi.jobs import JobOutput, OutputStream, OutputTime, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.luxi.queries import FieldValue, JobSnapshot, WaitForJobChange
from protocol.peer import Peer
from protocol.serving.route import Stream

LONGEST_WAIT_S: Final = 89.0


@attrs.frozen
class _News:
    change: JobSnapshot
    is_final: bool

    def differs_from(self, previous: object) -> bool:
        return bool(self.change.entries) or not _is_same(self.change.values, previous)


class Waiting:
    """The method that waits for a job; thousands may wait at once, and each is woken only by its own job.

    Args:
        catch_up: takes in changes of job files that have happened but were not reported yet.
    """

    def __init__(self, jobs: LiveJobs, store: Store, views: JobViews, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._jobs = jobs
        self._store = store
        self._views = views
        self._catch_up = catch_up

    async def wait_for_job_change(self, call: WaitForJobChange, peer: Peer) -> JobSnapshot:
        if call.job_id not in self._jobs.table:
            raise JobLost(f"there is no job {call.job_id} in the queue")
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        timeout_s = max(0.0, min(call.timeout, LONGEST_WAIT_S))
        with self._jobs.changes.listen(call.job_id) as broadcast:
            with trio.move_on_after(timeout_s):
                while True:
                    news = await self._news(call, viewer)
                    if news.is_final or news.differs_from(call.previous):
                        return news.change
                    await broadcast.wait()
            return JobSnapshot((await self._news(call, viewer)).change.values, ())

    def _look(self, call: WaitForJobChange) -> JobView:
        """Raises: JobLost: the job is gone, even from the archive."""
        job = self._jobs.table.get(call.job_id)
        if job is not None:
            return self._views.of(job)
        archived: Job | None = self._store.find_archived(call.job_id)
        if archived is None:
            raise JobLost(f"the file of job {call.job_id} cannot be read")
        return JobView(archived, is_archived=True)

    async def _news(self, call: WaitForJobChange, viewer: Viewer) -> _News:
        after = _last_known(call)
        view = self._look(call)
        may_see = viewer.may_see(view.job)
        fresh = self._views.newer_log(view.job, after) if after is not None and may_see else []
        if fresh:
            # a client that reads a line must find the job in the state that it had when it wrote the line
            await self._catch_up()
            view = self._look(call)
        view = self._views.seen_by(viewer, view)
        is_final = view.job.is_final
        try:
            values = tuple(row_of(view, select_fields(call.fields)))
        except PrerequisiteError:
            # not an error here: older clients expect this (luxid.md 8)
            return _News(JobSnapshot((None,) * len(call.fields), ()), is_final)
        if after is None:
            return _News(JobSnapshot(values, ()), is_final)
        entries = [entry for op in view.job.ops for entry in newer_entries(op, after)]
        first = view.job.next_log_serial
        newest = (entry for entry in fresh if entry.serial >= first)
        return _News(JobSnapshot(values, (*entries, *newest)), is_final)


def _last_known(call: WaitForJobChange) -> float | None:
    """The log serial after which entries are new; None: no entries are wanted."""
    serial = call.previous_serial
    if serial is None:
        return 0
    if isinstance(serial, int | float) and not isinstance(serial, bool):
        return serial
    return 0 if call.fields == ("status",) else None


def _is_same(values: tuple[FieldValue, ...], previous: object) -> bool:
    # a value may have tuples on one side and lists on the other
    return list(values) == previous or _canonical(values) == _canonical(previous)


def _canonical(value: object) -> object:
    return orjson.loads(ascii_json(value))


# Read the output of a job's commands; ours.


WHOLE: Final = OutputRange(0, None)
# marks of one reply about times
MOST_TIMES: Final = 10_000
# no output is so long
NO_END: Final = 2**63


class OutputHandlers:
    """The method that reads output."""

    def __init__(self, jobs: LiveJobs, store: Store, watch: OutputWatch) -> None:
        self._jobs = jobs
        self._store = store
        self._paths = store.paths
        self._watch = watch

    async def read_job_output(self, call: ReadJobOutput, peer: Peer) -> JobOutput:
        """Raises: JobLost: the job does not exist, not even in the archive. Denied: it belongs to another user.

        NotFound: it has had no such try. Unavailable: as `read`.
        """
        await self.check_may_read(call.job_id, peer)
        part = await self._part(call)
        answer = self.read(call, part)
        timeout_s = min(call.timeout, LONGEST_WAIT_S)
        if answer.text or answer.is_end or timeout_s <= 0:
            return answer
        with (
            self._watch.listen(call.job_id) as printed,
            self._jobs.changes.listen(call.job_id) as changed,
            trio.move_on_after(timeout_s),
        ):
            while not ((answer := self.read(call, part)).text or answer.is_end):
                await wait_for_any(printed, changed)
                part = await self._part(call)
        return answer

    async def read_output_times(self, call: ReadOutputTimes, peer: Peer) -> OutputTimes:
        """Raises: as `read_job_output`."""
        await self.check_may_read(call.job_id, peer)
        wanted = NO_END if call.end is None else min(call.end, NO_END)
        with _telling_what_is_unreadable(call.job_id):
            found = await in_thread(read_marks, self._base(call), call.offset, wanted, MOST_TIMES)
        times = tuple(OutputTime(mark.offset, mark.at) for mark in found.marks)
        return OutputTimes(times, None if found.end == wanted else found.end)

    async def check_may_read(self, job_id: JobId, peer: Peer) -> None:
        """Raises: as `read_job_output`."""
        if job_id not in self._jobs.table and not self._store.is_archived(job_id):
            raise JobLost(f"there is no job {job_id}, neither in the queue nor in the archive")
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if viewer.sees_all:
            return
        viewer.check_owned(await self._job(job_id), OwnerRight.READ_OUTPUT)

    async def _job(self, job_id: JobId) -> Job:
        """Raises: JobLost: its file cannot be read."""
        job = self._jobs.table.get(job_id)
        if job is None:
            job = await in_thread(self._store.find_archived, job_id)
        if job is None:
            raise JobLost(f"the file of job {job_id} cannot be read")
        return job

    async def _part(self, call: ReadJobOutput) -> OutputRange:
        """Where the wanted output lies. Raises: JobLost; NotFound: the job has had no such try."""
        if call.of_try is None:
            return WHOLE
        job = await self._job(call.job_id)
        part = output_of_try(job, call.of_try, is_error=call.stream is OutputStream.ERROR)
        if part is None:
            index = tried_index(job)
            count = 1 if index is None else len(tries_of(job.ops[index])) + 1
            known = "one try" if count == 1 else f"{count} tries"
            raise NotFound(f"job {call.job_id} has had {known}; there is no try {call.of_try}")
        return part

    def read(self, call: ReadJobOutput, part: OutputRange = WHOLE) -> JobOutput:
        """Read at once what there is. Raises: Unavailable: a file cannot be read at the moment.

        Args: part: where the wanted output lies.
        """
        # checked before reading: all output is written before the job ends
        is_final = self._is_final(call.job_id)
        with _telling_what_is_unreadable(call.job_id):
            piece = read_output(self._base(call), max(call.offset, part.begin), LONGEST_PIECE)
        # of a try that is over all has been written
        is_over = is_final or part.end is not None
        content = piece.content if part.end is None else piece.content[: max(part.end - piece.offset, 0)]
        if not content:
            return JobOutput("", piece.offset, is_over)
        if call.as_bytes:
            return JobOutput(content.decode("latin-1"), piece.offset + len(content), False)
        text, size = decode_whole(content, is_end=False)
        if not size and is_over:
            text, size = decode_whole(content, is_end=True)
        return JobOutput(text, piece.offset + size, False)

    def _base(self, call: ReadJobOutput | ReadOutputTimes) -> Path:
        is_error = call.stream is OutputStream.ERROR
        return self._paths.error_output_file(call.job_id) if is_error else self._paths.output_file(call.job_id)

    def _is_final(self, job_id: JobId) -> bool:
        return self._jobs.phase(job_id) is None


@contextlib.contextmanager
def _telling_what_is_unreadable(job_id: JobId) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unavailable(f"the output of job {job_id} cannot be read: {reason}; try again") from error


# Subscribe to luxid's feed; ours.


@attrs.frozen
class Subscribing:
    """The method that subscribes."""

    _feed: Feed
    _output: OutputHandlers
    _watch: OutputWatch

    async def subscribe(self, call: Subscribe, peer: Peer) -> Stream[FeedBegin]:
        """Raises: InvalidRequest, PrerequisiteError: the arguments do not fit together, or a field is unknown.
        JobLost, Denied: as `OutputHandlers.read_job_output`. Unavailable: output cannot be followed, or too much
        changes.
        """
        serials = None if call.log_after is None else _by_job(call.ids or (), call.log_after)
        wish = JobSubscription.of(Viewer(peer.uid, peer.role, peer.caller), call.fields)
        for job_id in {place.job_id for place in call.outputs or ()}:
            await self._output.check_may_read(job_id, peer)
        ids = None if call.ids is None else tuple(dict.fromkeys(call.ids))
        outputs = FollowedOutputs(self._output.read, self._watch, call.outputs) if call.outputs else None
        stream = FeedStream(self._feed, frozenset(call.topics), wish, ids, serials, outputs)
        try:
            await begin(self._feed, attrs.evolve(call, ids=ids), stream)
        except BaseException:
            stream.close()
            raise
        return stream


def _by_job(job_ids: Sequence[JobId], serials: Sequence[int]) -> dict[JobId, int]:
    if len(job_ids) != len(serials):
        raise InvalidRequest(
            f"'log_after' must have one serial for each of 'ids', got {len(serials)} for {len(job_ids)} jobs"
        )
    return dict(zip(job_ids, serials, strict=True))
