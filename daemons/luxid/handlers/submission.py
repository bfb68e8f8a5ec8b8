"""Accept submitted jobs.

Source: luxid.md 2.2, 2.3, 2.7.
"""

import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from common.access import Access, Role
from common.errors import (
    Denied,
    GantryError,
    InvalidRequest,
    JobQueueFull,
    OverLimit,
    PlacesReserved,
    QueueDrained,
    TooBusy,
)
from common.ids import JobId
from common.objects.index import ConfigIndex
from common.queue.filters import JobRejected, rejection
from common.queue.jobs import Job, to_timestamp
from common.settings import LuxidSettings
from common.system.log import get_log
from daemons.luxid.core.choice.limits import CountedUser
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, EtcdRoom
from daemons.luxid.core.resources import uses_of
from daemons.luxid.core.rights import Submitter, authorize
from daemons.luxid.core.submission.newjobs import (
    JobBounds,
    ParsedJob,
    Wanted,
    build_jobs,
    names_nodes,
    parse_jobs,
    unknown_node,
    with_checked_terms,
)
from daemons.luxid.files.store import Store
from daemons.luxid.files.submissionkeys import KeyClaim, SubmissionKeys, WantedKey, claim_by
from daemons.luxid.jobs import MAKING_WAY, JobEvents, LiveJobs
from daemons.luxid.submitters import Submitters
from daemons.luxid.turns import in_turns, lasting
from protocol.luxi.jobs import (
    Accepted,
    JobInput,
    OpInput,
    Refused,
    SubmitAnswer,
    SubmitJob,
    SubmitJobToDrainedQueue,
    SubmitManyJobs,
    SubmitOnce,
    SubmittedOnce,
)
from protocol.peer import Peer
from protocol.serving.service import MalformedArguments

# Read the opcodes of a submission.
#
# Source: luxid.md 1.4, 2.2.


async def read_jobs(inputs: Sequence[JobInput], bounds: JobBounds) -> Sequence[Wanted]:
    """For each the job, or why it is refused by itself.

    Raises: MalformedArguments: an opcode is malformed, which for a client is like malformed JSON (luxid.md 1.4).
    """
    try:
        parsed = await in_turns(parse_jobs(inputs, bounds))
    except GantryError as error:
        raise _malformed(error) from error
    return [_malformed(each) if isinstance(each, GantryError) else each for each in parsed]


def _malformed(error: GantryError) -> MalformedArguments:
    return MalformedArguments(error.message, **error.fields)


# Which jobs of a submission are taken, by who submits them and what they name; before an id is spent.
#
# Source: luxid.md 2.2; DESIGN sections 11 and 13.


@attrs.frozen
class Acceptance:
    """Judges the jobs of submissions.

    Args: configuration: returns the present one; called if a job names nodes.
    """

    submitters: Submitters
    configuration: Callable[[], Awaitable[ConfigIndex]]

    async def of(self, jobs: Sequence[Wanted], submitter: Submitter) -> Sequence[Wanted]:
        """For each job the job as it is taken, or the reason for its refusal.

        Raises: ConfigurationMissing: a job names a node, and the configuration cannot be read.
        """
        wanted = await in_turns(self._authorized(jobs, submitter))
        if not any(names_nodes(ops) for ops in wanted if not isinstance(ops, GantryError)):
            return wanted
        nodes = (await self.configuration()).nodes
        return [ops if isinstance(ops, GantryError) else unknown_node(ops, nodes) or ops for ops in wanted]

    def _authorized(self, jobs: Sequence[Wanted], submitter: Submitter) -> Generator[int, None, list[Wanted]]:
        """For each job the job, or the reason for its refusal, e.g. the submitter may not submit one of its opcodes."""
        authorized = []
        for ops in jobs:
            authorized.append(ops if isinstance(ops, GantryError) else self._authorized_one(ops, submitter))
            yield 1 if isinstance(ops, GantryError) else len(ops)
        return authorized

    def _authorized_one(self, ops: ParsedJob, submitter: Submitter) -> Wanted:
        host = self.submitters.host
        try:
            return with_checked_terms(authorize([ops], submitter, host)[0], submitter.name(host), time.time_ns())
        except (Denied, InvalidRequest) as error:
            return error


# result for one job: its id, or the reason for its refusal
Answer = JobId | GantryError
# number of jobs that become visible before other tasks run
_ADDED_AT_ONCE: Final = 100
# number of opcodes from which a submission makes masses of objects
_LARGE: Final = 1000
_log: Final = get_log(__name__)


@attrs.frozen
class Answered:
    """What became of the jobs of a submission."""

    answers: Sequence[Answer]
    # whether they were submitted before, under the same key
    is_earlier: bool = False

    def to_wire(self) -> tuple[SubmitAnswer, ...]:
        return tuple(
            Refused(each.message) if isinstance(each, GantryError) else Accepted(each) for each in self.answers
        )


@attrs.define
class _Arrival:
    """Jobs that are counted before the queue counts them."""

    user: CountedUser | None
    # those that are left
    count: int


class SubmissionHandlers:
    """The methods that submit jobs.

    Args:
        privileged: roles; its administrators may submit to a drained queue.
        room: tells whether more jobs can be committed.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        events: JobEvents,
        settings: LuxidSettings,
        keys: SubmissionKeys,
        privileged: Access,
        submitters: Submitters,
        bounds: JobBounds,
        acceptance: Acceptance,
        room: EtcdRoom = BOUNDLESS,
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._events = events
        self._has_strict_uses = settings.strict_uses
        self._keys = keys
        self._privileged = privileged
        self._submitters = submitters
        self._bounds = bounds
        self._acceptance = acceptance
        self._room = room
        # number of jobs that are being written, or become visible
        self._arriving = 0

    async def submit_job(self, call: SubmitJob, peer: Peer) -> JobId:
        submitter = await self._submitters.of(peer, call.user)
        (answer,) = (await self._submit([call.job], claim_by(call.key), peer, submitter)).answers
        return _taken(answer)

    async def submit_job_to_drained_queue(self, call: SubmitJobToDrainedQueue, peer: Peer) -> JobId:
        caller = peer.by or peer
        if self._privileged.role_of(caller.uid, caller.all_groups) < Role.ADMIN:
            raise Denied(
                f"user {caller.uid} may not submit to a drained queue; root, the daemon's own user and those in "
                "'uids' or 'admin' of '[access]' may"
            )
        submitter = await self._submitters.of(peer)
        jobs = await self._acceptance.of(await read_jobs([call.job], self._bounds), submitter)
        (answer,) = await self._take(jobs, peer, submitter)
        return _taken(answer)

    async def submit_many_jobs(self, call: SubmitManyJobs, peer: Peer) -> tuple[SubmitAnswer, ...]:
        """Each job has its own result; a refused job refuses only the jobs that refer to it.

        A malformed opcode refuses the whole call, like any malformed message; Ganeti does the same.
        """
        submitter = await self._submitters.of(peer, call.user, call.by_job)
        return (await self._submit_many(call.jobs, claim_by(call.key), peer, submitter)).to_wire()

    async def submit_once(self, call: SubmitOnce, peer: Peer) -> SubmittedOnce:
        """As `submit_many_jobs`; the caller is told whether the jobs were submitted before."""
        submitter = await self._submitters.of(peer, call.user, call.by_job)
        answered = await self._submit_many(call.jobs, claim_by(call.key, is_named=True), peer, submitter)
        return SubmittedOnce(answered.to_wire(), answered.is_earlier)

    async def submit_own(self, op: OpInput, key: str) -> JobId:
        """Submit a job of luxid's own, also to a drained queue; return its id, or that of the earlier one of the key.

        Raises: Conflict: the key was used for another job. GantryError: why it is refused. OSError.
        """
        host = self._submitters.host
        own = Submitter(host.uid, host.login, Role.FULL)
        parsed = await read_jobs([(op,)], self._bounds)
        jobs = await self._acceptance.of(parsed, own)
        async with self._keys.claim(own.key_owner, WantedKey(key, is_named=True), parsed) as claim:
            if claim.earlier is not None:
                return claim.earlier.first_id
            (answer,) = await self._take(jobs, Peer(os.getpid(), host.uid, os.getgid()), own, claim)
            return _taken(answer)

    async def _submit_many(
        self, inputs: Sequence[JobInput], key: WantedKey | None, peer: Peer, submitter: Submitter
    ) -> Answered:
        is_large = sum(map(len, inputs)) > _LARGE
        with lasting() if is_large else contextlib.nullcontext():
            return await self._submit(inputs, key, peer, submitter)

    async def submit_as(self, job: JobInput, key: str, submitter: Submitter, peer: Peer) -> JobId:
        """Take a job that luxid itself has made, for a user. Raises: as `submit_job`."""
        return _taken((await self._submit([job], claim_by(key), peer, submitter)).answers[0])

    async def _submit(
        self, inputs: Sequence[JobInput], key: WantedKey | None, peer: Peer, submitter: Submitter
    ) -> Answered:
        """Take the jobs, or return the earlier results if they were sent before; count them."""
        began, counts = time.perf_counter(), self._jobs.counts
        try:
            answered = await self._answers(inputs, key, peer, submitter)
        except GantryError:
            counts.refused += len(inputs)
            raise
        counts.submission.add(time.perf_counter() - began)
        return answered

    async def _answers(
        self, inputs: Sequence[JobInput], key: WantedKey | None, peer: Peer, submitter: Submitter
    ) -> Answered:
        parsed = await read_jobs(inputs, self._bounds)
        jobs = await self._acceptance.of(parsed, submitter)
        if key is None or not parsed:
            self._check_drained()
            return Answered(await self._take(jobs, peer, submitter) if parsed else [])
        async with self._keys.claim(submitter.key_owner, key, parsed) as claim:
            if claim.earlier is not None:
                _log.info("submission.repeated", jobs=claim.earlier.count, first=claim.earlier.first_id, **peer.named)
                earlier = claim.earlier.answers
                return Answered([InvalidRequest(each) if isinstance(each, str) else each for each in earlier], True)
            self._check_drained()
            return Answered(await self._take(jobs, peer, submitter, claim))

    async def _take(
        self, wanted: Sequence[Wanted], peer: Peer, submitter: Submitter, claim: KeyClaim | None = None
    ) -> list[Answer]:
        if MAKING_WAY in self._jobs.obstacles:
            raise TooBusy(f"{MAKING_WAY}; try again")
        self._room.check()
        arrival = self._let_arrive(len(wanted), submitter)
        try:
            if pause_s := self._room.pause_s(len(wanted)):
                await trio.sleep(pause_s)
                self._room.check()
            built = await self._build(wanted, submitter)
            jobs = [job for job in built if isinstance(job, Job)]
            if jobs:
                refused = {place: job.message for place, job in enumerate(built) if isinstance(job, GantryError)}
                await self._write(jobs, refused, claim)
            self._jobs.counts.submitted += len(jobs)
            self._jobs.counts.refused += len(built) - len(jobs)
            self._tally(built)
            parsed = [ops for ops, job in zip(wanted, built, strict=True) if isinstance(job, Job)]
            taken = [ops for ops in parsed if not isinstance(ops, GantryError)]
            await in_turns(self._add(jobs, taken, peer, submitter, arrival))
        finally:
            self._arrived(arrival, arrival.count)
        return [job.job_id if isinstance(job, Job) else job for job in built]

    async def _build(self, wanted: Sequence[Wanted], submitter: Submitter) -> Sequence[Job | GantryError]:
        """Build the jobs with their ids; return the ids of refused jobs, unless later ones were reserved meanwhile."""
        now_ns = time.time_ns()
        received = (to_timestamp(now_ns / 1e9), now_ns)
        # other submissions can get the next ids while these jobs are made
        first, count = self._store.reserve_ids(len(wanted)), 0
        try:
            built = await in_turns(build_jobs(wanted, first, received, submitter.owner, self._refusal))
            count = sum(isinstance(job, Job) for job in built)
            return built
        finally:
            self._store.give_back_ids(JobId(first + count), len(wanted) - count)

    async def _write(self, jobs: Sequence[Job], refused: Mapping[int, str], claim: KeyClaim | None) -> None:
        """Make the jobs durable, together with the key of the submission."""
        try:
            await self._store.add_jobs(jobs, [claim.file(jobs, refused)] if claim else [])
        except (TypeError, ValueError) as error:
            self._store.give_back_ids(jobs[0].job_id, len(jobs))
            raise InvalidRequest(f"an opcode cannot be written as JSON: {error}") from error
        if claim is not None:
            await claim.fulfil(jobs, refused)

    def _add(
        self, jobs: Sequence[Job], parsed: Sequence[ParsedJob], peer: Peer, submitter: Submitter, arrival: _Arrival
    ) -> Generator[int, None, None]:
        """Make the jobs visible when all of them are durable; each step yields its number of opcodes."""
        for start in range(0, len(jobs), _ADDED_AT_ONCE):
            slice_ = jobs[start : start + _ADDED_AT_ONCE]
            for job, ops in zip(slice_, parsed[start : start + _ADDED_AT_ONCE], strict=True):
                _log.info("job.queued", job=job.job_id, opcodes=len(job.ops), **_who(peer, submitter))
                secrets = [op.secret_parameters() for op in ops]
                if any(secrets):
                    self._jobs.processes.record(job.job_id).secrets = secrets
            # from here on the queue counts them
            self._arrived(arrival, len(slice_))
            self._events.add(slice_)
            yield sum(len(job.ops) for job in slice_)

    def _check_drained(self) -> None:
        if self._store.is_drained:
            raise QueueDrained

    def _refusal(self, job: Job) -> GantryError | None:
        """Return why this job, as built, is refused; None: it is taken."""
        if (rule := self._jobs.queue.rejecting_rule(job)) is not None:
            return JobRejected(rejection(rule), uuid=rule.uuid)
        if self._has_strict_uses and (why := self._jobs.queue.units.stock.refusal(uses_of(job))):
            return InvalidRequest(why)
        return None

    def _tally(self, built: Iterable[Job | GantryError]) -> None:
        """Count the jobs that rules rejected."""
        for each in built:
            if isinstance(each, JobRejected):
                self._jobs.queue.loads.rejections.count(str(each.fields["uuid"]))

    def _let_arrive(self, count: int, submitter: Submitter) -> _Arrival:
        """Count jobs that are submitted, until the queue counts them.

        Raises: OverLimit: this user has too many. JobQueueFull: all have; PlacesReserved: all but operators.
        """
        users, owner = self._jobs.queue.users, submitter.owner
        if submitter.http_user is None:
            users.note_role(submitter.uid, submitter.role)
        user, bounds = users.user_of(owner), users.bounds
        if user is not None and users.queued(user.key) + count > bounds.queued_per_user:
            raise OverLimit(
                f"user {submitter.name(self._submitters.host)!r:.80} has {users.queued(user.key)} jobs in the queue, "
                f"of at most {bounds.queued_per_user}, and {count} more do not fit; jobs on hold count, too; wait "
                "until some have started, or have an administrator raise 'max_queued_jobs_per_user' in '[limits]'",
                limit=bounds.queued_per_user,
            )
        queued = self._jobs.queue.counts().waiting_to_start + self._arriving
        if queued + count > bounds.queued:
            raise JobQueueFull(
                f"the queue holds {queued} of at most {bounds.queued} jobs, {count} more do not fit; "
                "wait until some have started, or raise max_queued_jobs in '[luxid]'"
            )
        if user is not None and not user.is_operator and users.all_queued + count > bounds.queue_places:
            raise PlacesReserved(
                f"the queue holds {users.all_queued} jobs of users without the role 'operate', of at most "
                f"{bounds.queue_places}, and {count} more do not fit: the last {bounds.queued - bounds.queue_places} "
                "places are reserved ('reserved_queue_places' in '[limits]'); wait until some have started",
                limit=bounds.queue_places,
            )
        self._arriving += count
        users.queue(user, count)
        return _Arrival(user, count)

    def _arrived(self, arrival: _Arrival, count: int) -> None:
        """Count so many of these jobs as submitted no longer: they are in the queue, or were not taken."""
        arrival.count -= count
        self._arriving -= count
        self._jobs.queue.users.queue(arrival.user, -count)


def _taken(answer: Answer) -> JobId:
    """Raises: the reason why the job was refused."""
    if isinstance(answer, GantryError):
        raise answer
    return answer


def _who(peer: Peer, submitter: Submitter) -> dict[str, object]:
    who = {**peer.named, "uid": submitter.uid}
    return who if submitter.uid == peer.uid else {**who, "by_uid": peer.uid}
