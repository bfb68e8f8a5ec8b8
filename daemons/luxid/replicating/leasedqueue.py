"""luxid's part in a mastership under a lease: commits in etcd, copies on the candidates, and the replay at its start.

Source: DESIGN section 14.
"""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Final

import trio

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.lease.deadline import Deadline, FullnessReader, boottime
from common.lease.grant import Grant, read_grant
from common.lease.records import EtcdKeys, RunningJob
from common.queue.jobs import Job, to_timestamp
from common.queue.sidefiles import note_words
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.copying.nodecopies import NodeCopies
from daemons.luxid.copying.sending import CopyRules
from daemons.luxid.core.copies.etcdroom import CommitsNow, EtcdRoom
from daemons.luxid.core.copies.restoring import has_process
from daemons.luxid.core.queue.recovery import RecoveryRequest
from daemons.luxid.replicating.etcdcopies import EtcdCopies, QueueChanges
from daemons.luxid.replicating.replaying import EtcdQueue, Laying, ReplayedChanges, Uncommitted, read_found
from daemons.luxid.replicating.shrinking import Shrinking
from protocol.client import Client
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import Commits
from protocol.etcd.kv import EtcdFull
from protocol.noded.files import WireNames
from protocol.wconfd.config import ListNodesBehind

_NAME: Final = "luxid"
_CONFIG: Final = "config.data"
# seconds for wconfd to reply
_WCONFD_S: Final = 5.0
_log: Final = get_log(__name__)


class LeasedQueue:
    """Start `run`, then call `replay` and `settle` before the queue is read, and `begin` after that.

    Raises: NoLongerMaster: this node holds no mastership. InvalidRequest: no etcd is set. DamagedFile, OSError.
    """

    def __init__(self, settings: Settings, names: WireNames) -> None:
        self._paths = settings.paths
        grant = _grant(settings)
        self._grant = grant
        self._keys = EtcdKeys(settings.etcd.prefix)
        self._deadline = _deadline(settings)
        fullness = FullnessReader(self._paths.fullness_file)
        self.room = EtcdRoom(lambda: fullness.level)
        self._wconfd = Client(self._paths.wconfd_socket, daemon="wconfd")
        self._client = EtcdClient(EtcdAddress.of(settings))
        self.commits = Commits(self._client, self._keys, grant.fence, self._deadline, writer=_NAME)
        self._changes = QueueChanges(self._paths, self._keys, RunningJob(node=grant.node, epoch=grant.fence.epoch))
        self.shrinking = Shrinking(
            self.commits,
            self._keys,
            grant.node,
            grant.fence.epoch,
            settings.keeperd.stale_s,
            senders=lambda: self.nodes.senders,
            name=self._changes.name,
            without_config=self._without_config,
        )
        rules = CopyRules(settings.noded.port, grant.node, waits=False, has_lease=True)
        self.nodes = NodeCopies(self._paths, names, rules, self.shrinking.told)
        self.copies = EtcdCopies(self._paths, self._changes, self.commits, self.nodes, self.shrinking.made)
        self._has_ended = trio.Event()
        self._laid = Uncommitted()
        self._is_kept_small = False

    def now(self) -> CommitsNow:
        """What users are told of etcd."""
        state, done = self.commits.state, self.commits.statistics()
        since = state.silent_since_s
        return CommitsNow(
            len(self.copies.entries),
            self.copies.waiting,
            0.0 if since is None else max(0.0, boottime() - since),
            state.is_full,
            done.durations,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit for others, until cancelled or the mastership is lost; for `nursery.start`.

        Raises: NoLongerMaster: before it has begun.
        """
        async with self._client, trio.open_nursery() as nursery:
            nursery.start_soon(self._client.ask_leader_first)
            await self._commit(task_status)
            nursery.cancel_scope.cancel()

    async def _commit(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self.commits.run(task_status=task_status)
        finally:
            self._has_ended.set()

    async def until_lost(self) -> NoLongerMaster:
        """Return when nothing can be committed any more."""
        await self._has_ended.wait()
        return NoLongerMaster(self.commits.state.lost or "nothing is committed in etcd any more")

    async def replay(self) -> JobId:
        """Make the files here what etcd says; return the highest id of a job that it knows.

        Raises: NoLongerMaster, Unavailable; DamagedFile: etcd has values that are not ours. OSError.
        """
        dirty = await self.commits.read([self._keys.dirty, self._keys.running])
        found = read_found(dirty, self._changes, self._keys)
        began = time.perf_counter()
        laying = Laying(self._paths, self._changes, self._grant.node, to_timestamp(time.time()))
        laid = await in_thread(laying.lay, found)
        self._take_over(found, laid)
        self._laid = Uncommitted(laid)
        with contextlib.suppress(EtcdFull):
            # else `settle` does it, when others make room
            await self._commit_laid()
        await in_thread(self._restore_asks, found.running)
        await self.shrinking.begin()
        took_s = round(time.perf_counter() - began, 3)
        facts = {"entries": len(found.fates), "committed": len(laid.fates), "of_old_masters": len(laid.over)}
        _log.info("queue.replayed", epoch=self._grant.fence.epoch, took_s=took_s, **facts)
        return laid.highest_id

    async def commit_ask(self, job_id: JobId, ask: str, by: str, *, is_orphan: bool) -> None:
        """Let each next master know that the end of a job was asked for; as `EtcdCopies.asking`.

        While etcd is full it is not committed: the request holds here all the same.

        Raises: NoLongerMaster.
        """
        try:
            await self.copies.asking(job_id, ask, by, is_orphan=is_orphan)
        except NoLongerMaster:
            raise
        except GantryError as error:
            _log.warning("job.ask_not_committed", job=job_id, reason=error, effect="only this node knows of it")

    def _restore_asks(self, running: Mapping[JobId, RunningJob]) -> None:
        """Write the messages that the processes here, and the rest of luxid, go by."""
        for job_id, held in running.items():
            if not held.ask:
                continue
            # its next process is noted with it, too
            self._changes.asked(job_id, held.ask, held.by)
            try:
                note_words(self._paths.asker_note(job_id), held.by)
                if held.ask == RecoveryRequest.KILL.value:
                    self._paths.kill_message(job_id).touch()
            except OSError as error:
                _log.error("job.ask_not_restored", job=job_id, reason=error, effect="ask for its end again")

    async def settle(self, nursery: trio.Nursery) -> None:
        """Commit what `replay` could not, for want of room in etcd; call it when the candidates are about to be known.

        What they have is forgotten from then on, and makes room.

        Raises: NoLongerMaster, InvalidRequest.
        """
        if self.commits.state.is_full:
            self._keep_small(nursery)
        for pause_s in retry_pauses():
            try:
                await self._commit_laid()
            except NoLongerMaster:
                raise
            except Unavailable as error:
                _log.error("queue.not_replayed", reason=error, effect="no job is served until it is", retry_s=pause_s)
            else:
                self.shrinking.look_at_all()
                return
            await trio.sleep(pause_s)

    def begin(self, jobs: Iterable[Job], nursery: trio.Nursery) -> None:
        """Take in the jobs of the queue as it was read, and keep etcd small from now on."""
        for job in jobs:
            if has_process(job):
                self.copies.hands.found(job)
        self._keep_small(nursery)

    def _keep_small(self, nursery: trio.Nursery) -> None:
        if not self._is_kept_small:
            self._is_kept_small = True
            nursery.start_soon(self.shrinking.run, self.copies.entries, self.copies.hands)

    async def _without_config(self) -> frozenset[str]:
        """The candidates that lack the configuration. Raises: GantryError: wconfd does not tell."""
        with trio.move_on_after(_WCONFD_S):
            told = await self._wconfd.call(ListNodesBehind())
            return frozenset(each.name for each in told if _CONFIG in each.lacks)
        raise Unavailable("wconfd does not tell which candidates have the configuration")

    def _take_over(self, found: EtcdQueue, laid: ReplayedChanges) -> None:
        """What etcd has are entries of this master, made here."""
        entries = self.copies.entries
        for key, revision in found.revisions.items():
            entries.committed((key,), revision)
        # before all changes that candidates hear of; what is to be committed instead counts from then on
        entries.made(found.revisions.keys() - laid.fates.keys(), 0)
        for job_id in laid.running | laid.over:
            self.copies.hands.begun(job_id)

    async def _commit_laid(self) -> None:
        """Raises: NoLongerMaster, InvalidRequest; Unavailable: some of it is not committed."""
        for key in self._laid.take_too_large():
            _log.error("commit.too_large", file=self._changes.name(key), effect="etcd keeps what it has of it")
            self.copies.entries.made((key,), 0)
        while (part := self._laid.part()) is not None:
            fates, passing = part
            await self.copies.commit(fates, passing)
            self.copies.entries.made(fates, 0)
            self._laid.committed(fates, passing)


def _grant(settings: Settings) -> Grant:
    grant = read_grant(settings.paths.grant_file)
    if grant is None:
        raise NoLongerMaster("this node does not hold the mastership; 'gantry cluster' tells who does")
    return grant


def _deadline(settings: Settings) -> Deadline:
    try:
        return Deadline(settings.paths.deadline_file)
    except FileNotFoundError:
        raise NoLongerMaster(
            "keeperd has not been started on this node; 'gantry cluster' tells who is the master"
        ) from None
