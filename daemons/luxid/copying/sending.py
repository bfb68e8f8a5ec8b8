"""Sends one node what it lacks, until it has everything.

Theory. One task a node, so that the parts of its backlog arrive in order; contents of different jobs travel together.
Fresh changes go before the comparison of old files. After a failure the task pauses, for as long as the client leaves
the node alone; then it begins with what the backlog says at that time.

Source: noded.md 6, 8; DESIGN section 12.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import trio

from common.errors import GantryError, explain_os_error
from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.wire import structure
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.masterfiles import FoundJob, all_jobs, digests, read_jobs
from daemons.luxid.core.copies.backlog import Backlog, Batch, Key
from daemons.luxid.core.copies.comparing import differing
from protocol.noded.call import NodeCall
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Replied
from protocol.noded.queue import JobqueuePurge
from protocol.noded.verifying import Check

# jobs of a batch, and of these the contents that travel at a time
JOBS_AT_ONCE: Final = 64
CONTENTS_AT_ONCE: Final = 8
# entries beyond which the backlog of a node that is away is dropped; it is compared later
MOST_KEPT: Final = 50_000
# limits of time, seconds: a call of a file, and a call about many files
CALL_S: Final = 10.0
LONG_CALL_S: Final = 120.0
R = TypeVar("R")
_log: Final = get_log(__name__)


class _NotSent(Exception):
    """A call to the node has failed, or a file cannot be read here."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)
        self.failed = failed


class NodeSender:
    """Sends to one node; start `run`."""

    def __init__(self, node: NodeAddress, paths: Paths, calls: QueueCalls, client: NodeClient, *, is_new: bool) -> None:
        self.node = node
        self.backlog = Backlog(is_new=is_new)
        # why the last attempt failed; None: it did not
        self.failure: str | None = None
        # whether it has made a change wait for the whole limit, and lacks something since
        self.is_slow = False
        # whether a node says that another one is the master
        self.is_outdated = False
        # when it began to lack something, by trio's clock; None: it has everything
        self.behind_since: float | None = trio.current_time()
        self._paths = paths
        self._calls = calls
        self._client = client
        # ends `run`
        self.scope = trio.CancelScope()
        self._work = trio.Event()
        # whether it is logged when it has everything: at the beginning, and after it was away
        self._is_told_of = True
        # set after each attempt, and replaced
        self._turned = trio.Event()
        # what is still to compare
        self._listing: Iterator[Sequence[JobId]] | None = None
        self._chunk: Sequence[JobId] | None = None

    @property
    def is_away(self) -> bool:
        """Whether changes do not wait for it."""
        return self.failure is not None or self.is_slow or self.has_left

    @property
    def has_left(self) -> bool:
        """Whether it is no longer sent to."""
        return self.scope.cancel_called

    @property
    def why_it_lacks(self) -> str:
        return self.failure or f"{self.node} is slow"

    def made_wait(self) -> None:
        """A change has waited for it in vain."""
        if not self.is_away:
            self.is_slow = self._is_told_of = True
            _log.warning(
                "copies.slow", node=self.node.name, effect="changes do not wait for it until it has everything"
            )

    def wake(self) -> None:
        """The backlog has more."""
        if self.behind_since is None:
            self.behind_since = trio.current_time()
        self._work.set()

    async def until_attempted(self, keys: Sequence[Key], number: int) -> None:
        """Return when the node has these changes, or an attempt to send them failed."""
        while self.backlog.lacks(keys, number) and not self.is_away:
            await self._turned.wait()

    async def run(self) -> None:
        """Send until cancelled, or until the node says that another one is the master."""
        with self.scope:
            await self._run()
        self._turn()

    async def _run(self) -> None:
        pauses = retry_pauses()
        while not self.is_outdated:
            if self.backlog.is_empty:
                self._complete()
                await self._work.wait()
            try:
                await self._step()
            except _NotSent as error:
                self._fail(error.failed)
                await trio.sleep(self._pause_s(next(pauses)))
            else:
                self.failure, pauses = None, retry_pauses()
                self._turn()

    def _complete(self) -> None:
        if self._is_told_of:
            _log.info("copies.complete", node=self.node.name)
            self._is_told_of = False
        self.is_slow, self.behind_since, self._work = False, None, trio.Event()

    def _fail(self, failed: Failed) -> None:
        if failed.kind in (FailureKind.TIMEOUT, FailureKind.LOST):
            self.backlog.doubt()
            self._listing = self._chunk = None
        if len(self.backlog) > MOST_KEPT:
            self.backlog.forget()
        if self.failure is None:
            effect = "what it lacks is sent when it can be reached"
            _log.error("copies.failed", node=self.node.name, reason=failed.text, lacks=len(self.backlog), effect=effect)
        self.failure, self._is_told_of = failed.text, True
        self.is_outdated = failed.kind is FailureKind.OUTDATED
        self._turn()

    def _pause_s(self, at_least_s: float) -> float:
        silence = self._client.silence(self.node.name)
        return max(at_least_s, silence.until - trio.current_time() if silence is not None else 0.0)

    def _turn(self) -> None:
        self._turned.set()
        self._turned = trio.Event()

    async def _step(self) -> None:
        try:
            if self.backlog.needs_purge:
                await self._purge()
            elif not (batch := self.backlog.take(JOBS_AT_ONCE)).is_empty:
                await self._send(batch)
            else:
                await self._compare_some()
        except OSError as error:
            raise _NotSent(Failed(FailureKind.UNSENT, explain_os_error(error))) from error
        except GantryError as error:
            raise _NotSent(Failed(FailureKind.UNSENT, error.message)) from error

    async def _purge(self) -> None:
        _log.warning("copies.purge", node=self.node.name, reason="it may have jobs that are no longer here")
        await self._call(JobqueuePurge(), LONG_CALL_S)
        self._listing = self._chunk = None
        self.backlog.purged()

    async def _send(self, batch: Batch) -> None:
        for fact in batch.facts:
            await self._call(await self._calls.fact(fact), CALL_S)
            self.backlog.arrived(batch, fact)
        jobs = await in_thread(read_jobs, self._paths, tuple(batch.jobs), abandon_on_cancel=True)
        for job_id in jobs.gone:
            self.backlog.gone(batch, job_id)
        self.backlog.seen(jobs.found)
        await self._send_contents(batch, jobs.found)
        for job_id, error in jobs.unreadable.items():
            self.backlog.postpone(jobs.unreadable)
            text = f"job {job_id} is not copied: {explain_os_error(error)}"
            raise _NotSent(Failed(FailureKind.UNSENT, text)) from error

    async def _send_contents(self, batch: Batch, found: Mapping[JobId, FoundJob]) -> None:
        failures: dict[JobId, Failed] = {}
        places = trio.CapacityLimiter(CONTENTS_AT_ONCE)

        async def send(job_id: JobId, content: bytes) -> None:
            async with places:
                try:
                    await self._call(self._calls.content(job_id, content), CALL_S)
                except _NotSent as error:
                    failures[job_id] = error.failed

        async with trio.open_nursery() as nursery:
            for job_id, job in found.items():
                if batch.jobs[job_id] or not job.is_archived:
                    nursery.start_soon(send, job_id, job.content)
        arrived = [job_id for job_id in found if job_id not in failures]
        for job_id in arrived:
            if not found[job_id].is_archived:
                self.backlog.arrived(batch, job_id)
        await self._move(batch, [job_id for job_id in arrived if found[job_id].is_archived])
        if failures:
            self.backlog.postpone(failures)
            raise _NotSent(next(iter(failures.values())))

    async def _move(self, batch: Batch, job_ids: Sequence[JobId]) -> None:
        if not job_ids:
            return
        try:
            await self._call(self._calls.move(job_ids), CALL_S)
        except _NotSent as error:
            self.backlog.not_moved(job_ids)
            if error.failed.kind is FailureKind.REFUSED and not all(batch.jobs[job_id] for job_id in job_ids):
                # it lacks one of the files, perhaps because the reply to an earlier move was lost
                return
            raise
        for job_id in job_ids:
            self.backlog.arrived(batch, job_id)

    async def _compare_some(self) -> None:
        if self._listing is None:
            self._listing = all_jobs(self._paths)
            # these are sent without a comparison
            self.backlog.begin_comparison()
            return
        if self._chunk is None:
            self._chunk = await in_thread(_next, self._listing)
        if self._chunk is None:
            self._listing = None
            self.backlog.compared()
            return
        await self._compare(self._chunk)
        self._chunk = None

    async def _compare(self, job_ids: Sequence[JobId]) -> None:
        jobs = await in_thread(read_jobs, self._paths, job_ids, abandon_on_cancel=True)
        ours = await in_thread(digests, jobs)
        reply = await self._call(self._calls.digests(job_ids), LONG_CALL_S)
        found = self._read_digests(reply.get(Check.FILES.value))
        differ = differing(ours, self._calls.live(job_ids, found), self._calls.archived(job_ids, found))
        for job_id, needs_content in differ.items():
            self.backlog.differs(job_id, needs_content=needs_content)
        for job_id in jobs.unreadable:
            self.backlog.differs(job_id)
        self.backlog.seen(job_ids)

    def _read_digests(self, value: object) -> Mapping[str, str]:
        try:
            return structure(value, dict[str, str], Check.FILES.value)
        except GantryError as error:
            text = f"{self.node} does not tell which files it has: {error.message}"
            raise _NotSent(Failed(FailureKind.GARBLED, text)) from error

    async def _call(self, call: NodeCall[R], limit_s: float) -> R:
        outcomes = await self._client.call_nodes([self.node], call, limit_s)
        outcome = outcomes[self.node.name]
        if isinstance(outcome, Replied):
            return outcome.value
        text = f"{self.node} is offline"
        raise _NotSent(outcome if isinstance(outcome, Failed) else Failed(FailureKind.UNSENT, text))


def _next(listing: Iterator[Sequence[JobId]]) -> Sequence[JobId] | None:
    return next(listing, None)
