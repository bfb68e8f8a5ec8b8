"""Explain why jobs do not run: luxid's own reasons, and wconfd's knowledge of locks.

wconfd is queried for a bounded time. If it is away or slow, the other reasons are returned, with one more that
says what is missing.

Source: DESIGN section 6, "Explain".
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Final, TypeVar

import attrs
import trio

from common.errors import GantryError, InvalidRequest, Unavailable, explain_os_error
from common.ids import JobId
from common.locks import Owner
from common.queue.explanation import (
    BeingWritten,
    Ending,
    LevelWeight,
    NotKnown,
    Obstacle,
    Outlived,
    Reason,
    Span,
    TakenUp,
    Unreadable,
    assemble,
)
from common.queue.jobs import Job, JobState, Timestamp, to_seconds
from common.queue.sidefiles import SilenceNote
from common.system.inthread import give_way, in_thread
from common.system.livelock import is_alive
from daemons.luxid.core.copies.etcdroom import CommitsNow
from daemons.luxid.core.queue.dependents import all_dependencies
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.recovery import RecoveryRequest
from daemons.luxid.core.why.blockers import DirectWaits, HeldLock, LockOwner, lock_waits, rank, waits_of, way_from
from daemons.luxid.core.why.explain import FollowedJob, explain, lock_reasons
from daemons.luxid.core.why.waitgraph import LEAST, walk
from daemons.luxid.files.store import Store, WaitFiles
from daemons.luxid.jobs import JobTable, JobViews, LiveJobs
from daemons.luxid.processes.signals import job_process, pids_of
from protocol.client import Client
from protocol.luxi.why import (
    Blockers,
    ExplainJobs,
    ReadBlockers,
    ReadJobWaits,
    ReadLeftProcesses,
    ReadWaitGraph,
    WaitGraph,
)
from protocol.messages import Request
from protocol.peer import Peer
from protocol.wconfd.locks import ExplainHoldings, ExplainWait, HoldingsExplanation, ListLocksWaitingStatus

# seconds for all requests of one call to wconfd
WCONFD_S: Final = 2.0

R = TypeVar("R")


@attrs.frozen
class Explaining:
    """The method that explains.

    Args:
        wconfd: a client of its own, because a slow reply is abandoned with its connection.
        commits: how commits are doing; None: there is no lease.
    """

    _jobs: LiveJobs
    _store: Store
    _views: JobViews
    _wconfd: Client
    _commits: Callable[[], CommitsNow] | None = None
    # whether the processes are an external executor's, whose pids are not known for sure
    _is_external: bool = False

    async def explain_jobs(self, call: ExplainJobs, peer: Peer) -> tuple[tuple[Reason, ...] | None, ...]:
        asked = _WconfdRequests(self._wconfd, trio.current_time() + WCONFD_S)
        told: list[tuple[Reason, ...] | None] = []
        for job_id in call.job_ids:
            told.append(await self._explain(job_id, asked))
            # with many queued jobs each explanation takes a while
            await give_way()
        return tuple(told)

    async def read_left_processes(self, call: ReadLeftProcesses, peer: Peer) -> tuple[tuple[int, ...], ...]:
        left = []
        for job_id in call.job_ids:
            left.append(await self._left(job_id))
            # looking for a missing file takes a while, too
            await give_way()
        return tuple(left)

    async def _left(self, job_id: JobId) -> tuple[int, ...]:
        if self._jobs.phase(job_id) is not None:
            return ()
        job = self._jobs.table.get(job_id) or self._store.find_archived(job_id)
        return () if job is None else await in_thread(pids_of, job)

    async def _explain(self, job_id: JobId, asked: "_WconfdRequests") -> tuple[Reason, ...] | None:
        if job_id not in self._jobs.table:
            return None
        reasons: Sequence[Reason] = explain(self._jobs.queue, job_id, time.time(), self._shown)
        if unreadable := self._unreadable(job_id):
            # the reason for holding it replaces the note that it is held
            reasons = (*unreadable, *(each for each in reasons if not isinstance(each, BeingWritten)))
        if self._jobs.phase(job_id) is Phase.ORPHANED:
            reasons = (*reasons, *self._taken_up(job_id))
        elif self._jobs.phase(job_id) is Phase.RUNNING:
            told = (*await self._ending(job_id), *await self._silent_node(job_id))
            reasons = (*reasons, *told, *await self._lock_reasons(job_id, asked))
        elif reasons:
            reasons = (*map(Obstacle, sorted(self._jobs.obstacles)), *await self._dated(reasons, asked))
        return (*self._uncommitted(job_id), *reasons)

    def _uncommitted(self, job_id: JobId) -> tuple[Reason, ...]:
        """That its start, or what its process has done, may wait for etcd."""
        phase = self._jobs.phase(job_id)
        trouble = self._commits().trouble if self._commits is not None else ""
        return (Obstacle(trouble),) if trouble and phase in (Phase.STARTING, Phase.HELD, Phase.RUNNING) else ()

    def _taken_up(self, job_id: JobId) -> tuple[Reason, ...]:
        """That the job is to get another process, for its command on a node."""
        work = self._jobs.work_left(self._jobs.unended(job_id))
        return () if work is None else (TakenUp(work.node, self._jobs.processes.record(job_id).short_lives),)

    async def _ending(self, job_id: JobId) -> tuple[Reason, ...]:
        """The living processes of a job that is being killed, or whose process has died before its command."""
        job = self._jobs.unended(job_id)
        if self._jobs.processes.ask(job_id) is RecoveryRequest.KILL:
            return (Ending(await in_thread(pids_of, job)),)
        pids = None if self._is_external else await in_thread(_outlived_by, job)
        return () if pids is None else (Outlived(pids),)

    async def _silent_node(self, job_id: JobId) -> tuple[Reason, ...]:
        """The node that the job's process waits for."""
        owner = self._owner(job_id)
        if owner is None:
            return ()
        note = SilenceNote(self._store.paths.silence_note(job_id), owner.livelock)
        try:
            silent = await in_thread(note.read)
        except OSError as error:
            return (NotKnown("whether it waits for a node", explain_os_error(error)),)
        return () if silent is None else (silent,)

    async def _lock_reasons(self, job_id: JobId, asked: "_WconfdRequests") -> tuple[Reason, ...]:
        """The locks that the job's process waits for."""
        owner = self._owner(job_id)
        if owner is None or self._views.state(job_id) in (JobState.RUNNING, JobState.CANCELING):
            return ()
        try:
            return tuple(lock_reasons(await asked.ask(ExplainWait(owner))))
        except GantryError as error:
            return (NotKnown("which locks it waits for, if any", error.message),)

    async def _dated(self, reasons: Sequence[Reason], asked: "_WconfdRequests") -> Sequence[Reason]:
        """The reasons, completed with the instants since when the locks in them are held."""
        held = [holding for reason in reasons if isinstance(reason, LevelWeight) for holding in reason.held]
        owners = {job_id: self._owner(job_id) for holding in held if (job_id := holding.job_id) is not None}
        known = tuple(owner for owner in owners.values() if owner is not None)
        if not known:
            return reasons
        try:
            told = await asked.ask(ExplainHoldings(known))
        except GantryError as error:
            return (*reasons, NotKnown("for how long locks are held", error.message))
        return [_with_instants(each, told) if isinstance(each, LevelWeight) else each for each in reasons]

    def _owner(self, job_id: JobId) -> Owner | None:
        """The owner under which the job's process requests locks."""
        job = self._jobs.table.in_memory(job_id)
        return Owner(job_id, job.livelock) if job is not None and job.livelock is not None else None

    def _shown(self, job_id: JobId) -> FollowedJob | None:
        job = self._jobs.table.in_memory(job_id)
        if job is None:
            return None
        at = job.start_at or job.received_at
        return FollowedJob(self._views.of(job).state, to_seconds(at) if at else None)

    def _unreadable(self, job_id: JobId) -> tuple[Reason, ...]:
        """The files that are waited for: the job's own, and those of jobs that it waits for."""
        unread, awaited = self._jobs.unread, self._jobs.queue.waits_for(job_id)
        return tuple(Unreadable(each, why) for each in (job_id, *awaited) if (why := unread.reason(each)) is not None)


def _outlived_by(job: Job) -> tuple[int, ...] | None:
    """The processes that have outlived the job's own; None: that one lives, or nothing does."""
    if job.process_id is None or job.livelock is None or job_process(job) is not None or not is_alive(job.livelock):
        return None
    return pids_of(job)


class _WconfdRequests:
    """Requests to wconfd within the time limit of one call."""

    def __init__(self, wconfd: Client, deadline: float) -> None:
        self._wconfd = wconfd
        self._deadline = deadline

    async def ask(self, request: Request[R]) -> R:
        """Raises: GantryError: there is no reply; the message says why."""
        with trio.move_on_at(self._deadline):
            return await self._wconfd.call(request)
        raise Unavailable(f"wconfd gave no answer within {WCONFD_S:g} s")


def _with_instants(reason: LevelWeight, told: HoldingsExplanation) -> LevelWeight:
    since = {(str(each.owner), each.lock): each.since for each in told.held}
    held = tuple(attrs.evolve(each, since=since.get((each.owner, each.lock))) for each in reason.held)
    return attrs.evolve(reason, held=held)


# What holds the most jobs back.
#
# Theory. The answer is worked out without a pause, so luxid does nothing else meanwhile: for at most some 50 ms, as the
# number of steps is bounded. Callers who come together share an answer that was begun after their calls, and between
# two of them luxid has `SHARE` times as long for everything else.
#
# Source: DESIGN section 6, "Explain".


# bound of the work for one answer; a step takes about a microsecond
MOST_STEPS: Final = 10_000
SHARE: Final = 10.0
MOST_BLOCKERS: Final = 30
# nodes of a graph, and edges for each of them
MOST_NODES: Final = 2_000
_EDGES: Final = 4
# seconds to wait for wconfd
_LOCKS_S: Final = 1.0


@attrs.define(eq=False)
class Blocking:
    """The methods that rank what holds jobs back, and that show who waits for whom.

    Args: wconfd: a client of its own, because a slow reply is abandoned with its connection.
    """

    _jobs: LiveJobs
    _wconfd: Client
    _gate: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    # answers that were begun so far
    _begun: int = attrs.field(default=0, init=False)
    # the last one that was ended, and its number among those
    _last: Blockers | None = attrs.field(default=None, init=False)
    _last_number: int = attrs.field(default=0, init=False)
    # when the next one may begin, by trio's clock
    _next_at: float = attrs.field(default=0.0, init=False)

    async def read_blockers(self, call: ReadBlockers, _: Peer) -> Blockers:
        """Raises: InvalidRequest: too many are asked for. Cost: as `rank`."""
        if not 1 <= call.most <= MOST_BLOCKERS:
            raise InvalidRequest(f"at most {MOST_BLOCKERS} blockers are told, and at least 1; got {call.most}")
        found = await self._found()
        return attrs.evolve(found, blockers=found.blockers[: call.most], longest=found.longest[: call.most])

    async def _found(self) -> Blockers:
        before = self._begun
        async with self._gate:
            if self._last is not None and self._last_number > before:
                return self._last
            await trio.sleep_until(self._next_at)
            self._begun += 1
            locks, unknown = await self._locks()
            began = trio.current_time()
            self._last, self._last_number = self._ranked(locks, unknown), self._begun
            self._next_at = trio.current_time() + SHARE * (trio.current_time() - began)
            return self._last

    async def read_wait_graph(self, call: ReadWaitGraph, _: Peer) -> WaitGraph:
        """Raises: InvalidRequest: too many nodes are asked for. Cost: as `walk`."""
        if not LEAST <= call.most <= MOST_NODES:
            raise InvalidRequest(f"a graph has at most {MOST_NODES} nodes, and at least {LEAST}; got {call.most}")
        async with self._gate:
            await trio.sleep_until(self._next_at)
            locks, unknown = await self._locks()
            began = trio.current_time()
            waits = waits_of(self._jobs.queue, locks, self._since)
            starts = [each for each in call.job_ids if each in self._jobs.table] if call.job_ids else _waiting(waits)
            found = walk(waits, starts, call.most, _EDGES * call.most, MOST_STEPS, self._over)
            self._next_at = trio.current_time() + SHARE * (trio.current_time() - began)
        return attrs.evolve(found, unknown=unknown)

    def _over(self, job_id: JobId) -> tuple[JobId, ...]:
        """The ended jobs on which a live one depends."""
        job = self._jobs.table.in_memory(job_id)
        if job is None:
            return ()
        found = dict.fromkeys(JobId(each.job_id) for each in all_dependencies(job))
        return tuple(each for each in found if each >= 0 and self._jobs.phase(each) is None)

    async def _locks(self) -> tuple[Mapping[LockOwner, Sequence[HeldLock]], str]:
        """Which locks are waited for, and why that is not known."""
        try:
            status = await _WconfdRequests(self._wconfd, trio.current_time() + _LOCKS_S).ask(ListLocksWaitingStatus())
        except GantryError as error:
            return {}, error.message
        busy = self._jobs.queue.busy()
        # a job whose process died a moment ago waits no longer
        found = lock_waits(status).items()
        return {owner: held for owner, held in found if isinstance(owner, str) or owner in busy}, ""

    def _ranked(self, locks: Mapping[LockOwner, Sequence[HeldLock]], unknown: str) -> Blockers:
        queue = self._jobs.queue
        waits = waits_of(queue, locks, self._since)
        ranked = rank(waits, MOST_BLOCKERS, MOST_STEPS)
        first = [entry.job.job_id for entry in islice(queue.without_process(), MOST_BLOCKERS)]
        in_process = [owner for owner in locks if not isinstance(owner, str)]
        waiting = sorted((*first, *in_process), key=lambda job_id: (self._since(job_id) or inf, job_id))
        counts = queue.counts()
        number = counts.ready + counts.blocked + counts.held + len(in_process)
        ways = tuple(way_from(waits, job_id) for job_id in waiting[:MOST_BLOCKERS])
        return Blockers(ranked.blockers, ways, number, unknown, ranked.is_partial)

    def _since(self, job_id: JobId) -> float | None:
        """Since when a job has waited for its locks, or for all that keeps it from its next opcode."""
        job = self._jobs.table.in_memory(job_id)
        index = None if job is None else job.next_index
        if job is None or index is None:
            return None
        asked_at = job.ops[index].start_at if self._jobs.phase(job_id) is Phase.RUNNING else None
        return _seconds(asked_at or (job.ops[index - 1].end_at if index else None) or job.received_at)


def _waiting(waits: DirectWaits) -> list[JobId]:
    """The jobs that wait: for locks, for other jobs, and the first at each gate."""
    found = [each for each in waits.locks if not isinstance(each, str)]
    first = [gate.first for gate in waits.gates if gate.first is not None]
    return [*found, *first, *waits.targets]


# Return what jobs waited for.
#
# Source: DESIGN section 6, "Explain".


@attrs.frozen
class JobWaitHandlers:
    """The method about the waits of jobs."""

    _table: JobTable
    _queue: JobQueue
    _store: Store
    _waits: WaitFiles

    async def read_job_waits(self, call: ReadJobWaits, _: Peer) -> tuple[tuple[Span, ...] | None, ...]:
        return tuple([await self._history(job_id) for job_id in call.job_ids])

    async def _history(self, job_id: JobId) -> tuple[Span, ...] | None:
        job = self._table.get(job_id)
        if job is None:
            job = await in_thread(self._store.find_archived, job_id)
        else:
            await give_way()
        if job is None:
            return None
        return self._assembled(job)

    def _assembled(self, job: Job) -> tuple[Span, ...]:
        # no await in between: a span that leaves memory is in the file by then
        written = self._waits.read(job.job_id)
        current = self._queue.spans(job.job_id, time.time())
        ended_at = _seconds(job.end_at or job.received_at) if job.next_index is None else None
        return assemble(written, current, _seconds(job.received_at) or 0.0, ended_at)


def _seconds(stamp: Timestamp | None) -> float | None:
    return to_seconds(stamp) if stamp is not None else None
