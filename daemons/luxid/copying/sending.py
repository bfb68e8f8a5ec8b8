"""Sends one node what it lacks, until it has everything.

Theory. One task a node, so that the parts of its backlog arrive in order; contents of different jobs travel together.
Fresh changes go before the comparison of old files. After a failure the task pauses, for as long as the client leaves
the node alone; then it asks whether the node knows calls of ours, and begins with what the backlog says at that time.

What may be late is sent in turns of its own (`LateFiles`). A node that was not called for `IDLE_S` is asked for its
version: so an idle luxid learns that another node has become the master.

Source: noded.md 6, 8; DESIGN section 12.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from common.errors import GantryError, explain, explain_os_error
from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.copying.calls import CALL_S, LONG_CALL_S, CopiedJob, FoundJobs, QueueCalls, read_jobs, read_states
from daemons.luxid.copying.comparison import (
    PartDifference,
    QueueComparison,
    States,
    all_parts,
    beyond_facts,
    beyond_master,
    set_aside,
)
from daemons.luxid.core.copies.backlog import Backlog, CopyLag, Key, QueueFact, SendBatch, StateName
from daemons.luxid.core.copies.removals import Removals
from daemons.luxid.removals import Beyond, read_removals
from protocol.noded.call import Failed, FailureKind, NodeAddress
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.line import NodeLine, NotSent
from protocol.noded.membership import NodeVersion
from protocol.noded.statefiles import REMOVALS, JobqueuePurge, RemoveStateFiles

# Brings batches of a backlog to one node.
#
# Theory. A node daemon of Gantry gets all files of a batch in few calls, in the order in which the master wrote them:
# keys and notes of submissions, the serial, jobs; then moves, then removals. One of Ganeti gets a call for each file,
# several at a time. What a failed call has done is unknown, and sent again.
#
# Of the files of ours beside the jobs, other nodes get the keys of submissions, since a client that repeats a
# submission after a failover would submit twice, the notes of batches, since half a batch would be taken for a whole
# one, and the histories of waits. Keys and notes go before their jobs. A history is no acknowledged state: it follows
# some seconds later, and is left out if it is too large. Log lines of running jobs and the output of commands stay on
# the master: Ganeti copies no lines either, the lines are in the job's file at its next change, and output is not
# durable.
#
# Source: noded.md 6, 8; DESIGN sections 12 and 13.


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


# What others may hear of copies on their way.


def _nothing(*_: object) -> None:
    pass


@attrs.frozen
class SenderEvents:
    """Hears what candidates get."""

    # a candidate may have got some of these
    sent: Callable[[Iterable[Key]], None] = _nothing
    # a candidate was compared, or does not reply
    standing_changed: Callable[[], None] = _nothing
    # other nodes are candidates
    candidates_changed: Callable[[], None] = _nothing


NOBODY: Final = SenderEvents()


# The turn to purge a node of Ganeti's: only one at a time may lack most of the queue.
#
# Ganeti's calls cannot remove a single job, so a node that has one too many loses all, and gets everything anew.
# Removed jobs concern all candidates alike; without turns none of them would have the queue for a while.


class PurgeTurn:
    """Belongs to one sender, from its purge until its node has everything, or is away."""

    def __init__(self) -> None:
        self._holder: object = None
        # those that wait, with functions that wake them
        self._waiting: dict[object, Callable[[], None]] = {}

    def take(self, sender: object, wake: Callable[[], None]) -> bool:
        """Whether the turn is this sender's now; if not, it is woken when the turn is free."""
        if self._holder is None:
            self._holder = sender
        if self._holder is sender:
            return True
        self._waiting[sender] = wake
        return False

    def give_back(self, sender: object) -> None:
        """Pass it on, if this sender has it."""
        if self._holder is not sender:
            return
        self._holder = None
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()


# When a node is sent what it may wait for: fresh changes that nobody waits for, and histories of waits.
#
# Theory. A short job is written four times within some milliseconds. Where nobody waits for its copies, they are
# gathered for `GATHER_S`: the job is sent once, as it is then, which costs this node and the other one a call and a
# write for many jobs instead of four for each. A change that some node lacks is held elsewhere meanwhile.
#
# Histories change with nearly every job, and they are large: those of changed jobs are compared together, `LATER_S`
# after the first of them changed.


# seconds in which changes are gathered, where nobody waits for their copies
GATHER_S: Final = 0.25
# files of a batch; so many are not gathered any longer
FILES_AT_ONCE: Final = 64
# seconds from the change of a history to its copy
LATER_S: Final = 5.0


class FreshChanges:
    """Fresh changes. Args: for_s: seconds; 0: somebody waits for each of them."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        # by trio's clock
        self.until = 0.0

    def begin(self) -> None:
        """The node lacks something since now, or was just sent the last batch."""
        self.until = trio.current_time() + self._for_s

    def holds(self, backlog: Backlog) -> bool:
        """Whether all that the node lacks may wait for more."""
        return backlog.is_compared and len(backlog) < FILES_AT_ONCE and trio.current_time() < self.until


class LateFiles:
    """Files that may have changed, and whose copies may be late."""

    def __init__(self) -> None:
        self._names: set[StateName] = set()
        # when they are compared, by trio's clock
        self.due_at = float("inf")

    @property
    def is_due(self) -> bool:
        return self.due_at <= trio.current_time()

    def hasten(self) -> bool:
        """Have them compared now; return whether there are any."""
        if self._names:
            self.due_at = trio.current_time()
        return bool(self._names)

    def add(self, names: Iterable[StateName]) -> bool:
        """Return whether there were none."""
        is_first = not self._names
        if is_first:
            self.due_at = trio.current_time() + LATER_S
        self._names.update(names)
        return is_first

    def take(self) -> frozenset[StateName]:
        """Return all of them; none is left."""
        names, self._names, self.due_at = frozenset(self._names), set(), float("inf")
        return names


# The rules by which the candidates get copies.


@attrs.frozen
class CopyRules:
    # port of all node daemons
    port: int
    # name of this node
    own_name: str
    # whether changes wait for the attempt to copy them
    waits: bool = True
    # whether the mastership is held under a lease: the configuration may name the master before
    has_lease: bool = False

    @property
    def gather_s(self) -> float:
        """Seconds in which changes are gathered before they are sent; 0: somebody waits for each of them."""
        return 0.0 if self.waits else GATHER_S


# entries beyond which the backlog of a node that is away is dropped; it is compared later
MOST_KEPT: Final = 50_000
# seconds without a call after which a node is asked
IDLE_S: Final = 30.0
_log: Final = get_log(__name__)


class NodeSender:
    """Sends to one node; start `run`.

    Args:
        gather_s: seconds in which fresh changes are gathered; 0: somebody waits for each of them.
    """

    def __init__(
        self,
        node: NodeAddress,
        paths: Paths,
        calls: QueueCalls,
        client: NodeClient,
        turn: PurgeTurn,
        told: SenderEvents = NOBODY,
        *,
        is_new: bool,
        gather_s: float = 0.0,
    ) -> None:
        self.node = node
        # when it began to fail, by trio's clock; None: it replies
        self.failed_since: float | None = None
        self.backlog = Backlog(is_new=is_new)
        self.line = NodeLine(node, client)
        # why the last attempt failed; None: it did not
        self.failure: str | None = None
        # whether it has made a change wait for the whole limit, and lacks something since
        self.is_slow = False
        # whether a node says that another one is the master
        self.is_outdated = False
        # when it began to lack something, by trio's clock; None: it has everything
        self.behind_since: float | None = trio.current_time()
        # what the last comparison has shown; None: it is not over
        self.verdict: CopyLag | None = None
        # files that it has set aside, and that the master lacks, as the last comparison has shown
        self.beyond: Sequence[str] = ()
        # ends `run`
        self.scope = trio.CancelScope()
        self._paths = paths
        self._calls = calls
        self._turn_to_purge = turn
        self._told = told
        self._delivery = NodeDelivery(paths, calls, self.line, self.backlog)
        self._work = trio.Event()
        # whether it was asked since its last failure which calls it knows
        self._is_probed = False
        # whether it is logged when it has everything: at the beginning, and after it was away
        self._is_told_of = True
        # set after each attempt, and replaced
        self._turned = trio.Event()
        self._comparison: QueueComparison | None = None
        # what this comparison has found so far
        self._found = CopyLag(0.0)
        self._gathering = FreshChanges(gather_s)
        # histories of waits
        self._late = LateFiles()
        # whether they are being compared
        self._compares_late = False

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
        """A change has waited for it until the time was over."""
        if not self.is_away:
            self.is_slow = self._is_told_of = True
            _log.warning(
                "copies.slow", node=self.node.name, effect="changes do not wait for it until it has everything"
            )

    def wake(self) -> None:
        """The backlog has more."""
        if self.behind_since is None:
            self.behind_since = trio.current_time()
            self._gathering.begin()
        self._work.set()

    def compare_later(self, names: Iterable[StateName]) -> None:
        """These files may have changed; their copies may be late."""
        if self._late.add(names):
            # it waits for something else
            self._work.set()

    async def until_attempted(self, keys: Sequence[Key], number: int) -> None:
        """Return when the node has these changes, or an attempt to send them failed."""
        while self.backlog.lacks(keys, number) and not self.is_away:
            await self._turned.wait()

    async def until_complete(self) -> None:
        """Return when the node has everything, late histories, too, or an attempt has failed."""
        if self._late.hasten():
            self._work.set()
        while self.is_lacking and not self.is_away:
            await self._turned.wait()

    @property
    def is_lacking(self) -> bool:
        """Whether it is known to lack something, or histories are being compared, or are about to be."""
        return not self.backlog.is_empty or self._late.is_due or self._compares_late

    async def run(self) -> None:
        """Send until cancelled, or until the node says that another one is the master."""
        try:
            with self.scope:
                await self._run()
        finally:
            self._turn_to_purge.give_back(self)
            self._turn()

    async def _run(self) -> None:
        pauses = retry_pauses()
        while not self.is_outdated:
            try:
                if not self._is_probed:
                    # before all else: another daemon may be there since the last failure
                    await self._probe()
                elif self._late.is_due:
                    await self._compare_late()
                elif self.backlog.is_empty:
                    self._complete()
                    await self._wait()
                elif self._gathering.holds(self.backlog):
                    await trio.sleep_until(self._gathering.until)
                else:
                    await self._step()
            except (NotSent, OSError, GantryError) as error:
                self._fail(_failed_of(error))
                await trio.sleep(self.line.pause_s(next(pauses)))
            else:
                self.failure, self.failed_since, pauses = None, None, retry_pauses()
                self._turn()

    def _complete(self) -> None:
        if self._is_told_of:
            _log.info("copies.complete", node=self.node.name)
            self._is_told_of = False
        self._turn_to_purge.give_back(self)
        self.is_slow, self.behind_since, self._work = False, None, trio.Event()
        self._turn()

    async def _wait(self) -> None:
        """Wait for work; when there was none for long, see whether this node is still the master."""
        idle_at = self.line.heard_at + IDLE_S
        with trio.CancelScope(deadline=min(self._late.due_at, idle_at)) as scope:
            await self._work.wait()
        if scope.cancelled_caught and idle_at <= trio.current_time():
            await self.line.call(NodeVersion(), CALL_S)
            if self.line.tells_epoch and not self.backlog.takes_ours:
                # Ganeti's node daemon was replaced by ours
                await self._probe()

    async def _compare_late(self) -> None:
        names = self._late.take()
        if self.backlog.takes_ours:
            self._compares_late = True
            try:
                comparison = self.comparison()
                self._note(await comparison.compare(States(sorted(names))))
            except BaseException:
                self.compare_later(names)
                raise
            finally:
                self._compares_late = False

    def comparison(self) -> QueueComparison:
        """A new comparison of everything."""
        parts = partial(all_parts, self._paths, takes_ours=self.backlog.takes_ours)
        return QueueComparison(self._paths, self._calls, self.line, parts)

    def _fail(self, failed: Failed) -> None:
        if failed.kind in (FailureKind.TIMEOUT, FailureKind.LOST):
            self.backlog.doubt()
            self._comparison = None
        if len(self.backlog) > MOST_KEPT:
            self.backlog.forget()
            self._comparison = None
        if self.failure is None:
            effect = "what it lacks is sent when it can be reached"
            self.failed_since = trio.current_time()
            _log.error("copies.failed", node=self.node.name, reason=failed.text, lacks=len(self.backlog), effect=effect)
        self.failure, self._is_told_of, self._is_probed = failed.text, True, False
        self.is_outdated = failed.kind is FailureKind.OUTDATED
        self._told.standing_changed()
        self._turn_to_purge.give_back(self)
        self._turn()

    def _turn(self) -> None:
        self._turned.set()
        self._turned = trio.Event()

    async def _step(self) -> None:
        """Raises: NotSent, OSError, GantryError."""
        if self.backlog.needs_purge and self._turn_to_purge.take(self, self.wake):
            await self._purge()
        elif not (batch := self.backlog.take(FILES_AT_ONCE)).is_empty:
            try:
                await self._delivery.send(batch)
            finally:
                self._gathering.begin()
                self._told.sent((*batch.facts, *batch.jobs, *batch.states))
        elif self.backlog.needs_comparison:
            await self._compare_some()
        else:
            # another node is being purged
            self._work = trio.Event()
            await self._work.wait()

    async def _probe(self) -> None:
        """Find out whether the node knows calls of ours.

        Ganeti's releases end a call that they do not know in different ways, some by hanging up. None tells an epoch.
        """
        await self.line.call(NodeVersion(), CALL_S)
        if self.line.tells_epoch is not self.backlog.takes_ours:
            # its parts were for the daemon that was there
            self._comparison = None
        if self.line.tells_epoch:
            self.backlog.is_of_ours()
        else:
            if self.backlog.takes_ours:
                effect = "it does not get keys of submissions and histories of waits"
                _log.warning("copies.of_ganeti", node=self.node.name, effect=effect)
            self.backlog.is_of_ganeti()
        self._is_probed = True

    async def _purge(self) -> None:
        _log.warning("copies.purge", node=self.node.name, reason="it may have jobs that are no longer here")
        await self.line.call(JobqueuePurge(), LONG_CALL_S)
        self._comparison = None
        self.backlog.purged()

    async def _compare_some(self) -> None:
        if self._comparison is None:
            self._comparison, self._found = self.comparison(), CopyLag(time.time())
            # these are sent without a comparison
            self.backlog.begin_comparison()
            return
        found = await self._comparison.step()
        if found is not None:
            self._note(found)
            await self._delivery.remove(found.beyond)
            return
        self.beyond = (await set_aside(self._paths, self.line)).lost if self.backlog.takes_ours else ()
        if self.beyond:
            _log.error("copies.beyond", node=self.node.name, **beyond_facts(self.beyond))
        self._comparison = None
        self.backlog.compared()
        self.verdict = self._found
        self._told.standing_changed()
        _log.info("copies.compared", node=self.node.name, **self.verdict.facts)

    def _note(self, found: PartDifference) -> None:
        for key, needs_content in found.differ.items():
            self.backlog.differs(key, needs_content=needs_content)
        self.backlog.seen(found.jobs)
        self._found = self._found.with_more([*found.differ, *map(StateName, found.beyond.names)])


def _failed_of(error: NotSent | OSError | GantryError) -> Failed:
    """Why a node was not sent something."""
    if isinstance(error, NotSent):
        return error.failed
    text = explain(error)
    return Failed(FailureKind.UNSENT, text)
