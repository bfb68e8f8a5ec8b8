"""Find what the master's queue has lost, and fetch it from the candidates.

Theory. A job is lost if somebody proves it, and it is in neither queue nor archive nor the record of removals: a
candidate has its file, or this node has its row in the history, its output, its waits or its key. Other holes are ids
that were never used. What is fetched is written like any change of the queue, so the candidates get it again, and what
they have set aside is not missed any more. `core.copies.restoring` decides what a job becomes; nothing starts by
itself.

Source: DESIGN section 11, "a job that is missing on the master".
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from common.access import Role, check_role
from common.durable.atomicfile import FileWrite
from common.errors import Conflict, DamagedFile, GantryError, NotFound, Unavailable, explain_os_error
from common.ids import JobId
from common.paths import ARCHIVE_FOLDER_JOBS
from common.queue.explanation import WaitKind
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.queue.sidefiles import jobs_in, spans_in
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.copies.restoring import furthest, restored, why_started
from daemons.luxid.core.queue.entry import AT_REST
from daemons.luxid.core.submission.keyed import key_of
from daemons.luxid.files.store import Store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.history.index import PastIndex
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.removals import read_removals
from daemons.luxid.retention import is_on_disk, outputs, with_processes
from daemons.luxid.scheduler import Scheduler
from protocol.client import Client
from protocol.luxi.daemon import LostFile, Repair, Repaired
from protocol.noded.statefiles import ARCHIVE, SUBMISSIONS, WAITS, is_command_key, job_of, job_of_key, original_name
from protocol.peer import Peer
from protocol.wconfd.locks import ListGhosts, ListLocksWaitingStatus

if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies

# lost files of one reply
MOST: Final = 1000
# waits that only a job that is being started, or had started, has
_STARTED: Final = (WaitKind.START, WaitKind.LOCKS, WaitKind.RETRY)
_NOTE: Final = re.compile(rf"{SUBMISSIONS}/batch-\d+-\d+", re.ASCII)
_log: Final = get_log(__name__)


@attrs.frozen
class _Copy:
    node: str
    content: bytes
    is_archived: bool


@attrs.define
class _Found:
    """What candidates have."""

    jobs: dict[JobId, list[_Copy]] = attrs.field(factory=dict)
    # keys and histories of waits, by name
    others: dict[str, list[_Copy]] = attrs.field(factory=dict)
    unasked: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class _Restored:
    job: Job
    is_archived: bool


class Repairs:
    """The method that tells and fetches. Args: nodes: None: there are no candidates."""

    def __init__(
        self,
        store: Store,
        jobs: LiveJobs,
        scheduler: Scheduler,
        keys: SubmissionKeys,
        past: PastHistory,
        nodes: "NodeCopies | None",
    ) -> None:
        self._store = store
        self._paths = store.paths
        self._jobs = jobs
        self._scheduler = scheduler
        self._keys = keys
        self._past = past
        self._nodes = nodes
        self._wconfd = Client(store.paths.wconfd_socket, daemon="wconfd")
        self._turn = trio.Lock()

    async def repair(self, call: Repair, peer: Peer) -> Repaired:
        """Raises: Denied: the caller may only ask. Conflict: a job to forget is here. NotFound: it never was.

        Unavailable: files, the history or the locks cannot be read now, so nothing can be judged.
        """
        if not call.is_dry or call.forget:
            check_role(peer.role, Role.ADMIN, peer.caller, "the repair of the queue")
            _log.info("queue.repair", fetches=not call.is_dry, forgets=len(call.forget), **peer.named)
        async with self._turn:
            try:
                if call.forget:
                    await self._forget(call.forget)
                done = await self._repair(is_dry=call.is_dry)
                if not call.is_dry and self._nodes is not None:
                    # what is told of the candidates is anew
                    await self._nodes.lost()
                return done
            except OSError as error:
                raise Unavailable(f"what is lost cannot be told now: {explain_os_error(error)}; try again") from error

    async def _forget(self, job_ids: Sequence[int]) -> None:
        for job_id in job_ids:
            if not 0 < job_id <= self._store.serial:
                raise NotFound(f"there is no job {job_id}")
            if JobId(job_id) in self._jobs.table or await in_thread(is_on_disk, self._paths, job_id):
                raise Conflict(f"job {job_id} is not lost; 'gnt-job info {job_id}' shows it")
        await self._store.files.forget(job_ids)

    async def _repair(self, *, is_dry: bool) -> Repaired:
        found = await self._on_candidates()
        known = await self._known_here()
        job_ids = sorted({*found.jobs, *known})[:MOST]
        signs = await self._signs([job_id for job_id in job_ids if job_id in found.jobs], found)
        rows, fetched = [], list[_Restored]()
        for name, copies in sorted(found.others.items()):
            rows.append(await self._other(name, copies, is_dry=is_dry))
        lost = []
        for job_id in job_ids:
            row, job = self._judged(job_id, found.jobs.get(job_id, ()), known.get(job_id, ()), signs.get(job_id, ()))
            if not is_dry and job is not None:
                row = await self._fetch(row, job)
                if row.is_done:
                    fetched.append(job)
            lost.append(row)
        await self._take_over(fetched)
        left = len({*found.jobs, *known}) - len(job_ids)
        return Repaired((*lost, *rows), found.unasked, left)

    # what is lost

    async def _on_candidates(self) -> _Found:
        found = _Found()
        for node, names in (await self._nodes.lost() if self._nodes is not None else {}).items():
            if isinstance(names, str):
                found.unasked[node] = names
                continue
            assert self._nodes is not None
            wanted = [name for name in names if not _NOTE.fullmatch(original_name(name) or name)]
            try:
                contents = await self._nodes.read(node, wanted[: 2 * MOST])
            except Unavailable as error:
                found.unasked[node] = error.message
                continue
            for name, content in contents.items():
                original = original_name(name) or name
                copy = _Copy(node, content, original.startswith(f"{ARCHIVE}/"))
                job_id = job_of(original)
                if job_id is None:
                    found.others.setdefault(original, []).append(copy)
                else:
                    found.jobs.setdefault(job_id, []).append(copy)
        return found

    async def _known_here(self) -> Mapping[JobId, Sequence[str]]:
        """The jobs that this node knows of and has no file of, with what tells of them."""
        removals = await in_thread(read_removals, self._paths)
        told: dict[str, Collection[int]] = {
            "history": await self._past.change(_ids_of),
            "output": await in_thread(outputs, self._paths),
            "waits": await in_thread(_jobs_of_waits, self._store),
            "key": {job_id for key in self._keys.known for job_id in key.job_ids},
        }
        live, serial = frozenset(self._jobs.table.ids()), self._store.serial

        def missing() -> Mapping[JobId, Sequence[str]]:
            ids = {each for ids in told.values() for each in ids}
            # what was removed before the record was begun is not in it
            lost = (each for each in ids if removals.begun_at < each <= serial and each not in removals.jobs)
            return {
                JobId(each): [what for what, ids in told.items() if each in ids]
                for each in lost
                if each not in live and not is_on_disk(self._paths, each)
            }

        return await in_thread(missing)

    async def _signs(self, job_ids: Sequence[JobId], found: _Found) -> Mapping[JobId, Sequence[str]]:
        """What shows that jobs had started. Raises: Unavailable: the locks, the history or a node cannot be asked."""
        if not job_ids:
            return {}
        status, ghosts = await self._wconfd.call(ListLocksWaitingStatus()), await self._wconfd.call(ListGhosts())
        owners = {owner.ident for lock in status.held for owner, _ in lock[1]}
        owners |= {pending.owner.ident for pending in status.pending} | {ghost.owner.ident for ghost in ghosts}
        told: dict[str, Collection[int | str]] = {
            "its locks": owners,
            "the history": await self._past.change(_ids_of),
            "its output": await in_thread(outputs, self._paths),
            "its livelock": await in_thread(with_processes, self._paths),
            "its log": await in_thread(_jobs_of_logs, self._store),
            "a command here": await in_thread(_jobs_of_commands, self._store),
        }
        for node in sorted({copy.node for job_id in job_ids for copy in found.jobs[job_id]}):
            assert self._nodes is not None
            told[f"a command on node {node}"] = await self._nodes.commands(node)
        told["its waits"] = await in_thread(_started_by_waits, self._store, job_ids, found.others)
        return {job_id: [what for what, ids in told.items() if job_id in ids] for job_id in job_ids}

    def _judged(
        self, job_id: JobId, copies: Sequence[_Copy], known: Sequence[str], signs: Sequence[str]
    ) -> tuple[LostFile, _Restored | None]:
        name, nodes = f"queue/job-{job_id}", tuple(sorted({copy.node for copy in copies}))
        row = LostFile(name, job_id, nodes, tuple(known))
        if not copies:
            return row, None
        in_memory = self._jobs.table.in_memory(job_id)
        if in_memory is not None:
            if self._jobs.phase(job_id) not in (None, *AT_REST):
                return attrs.evolve(row, failure="its process is running, and writes its file"), None
            why = "luxid has it in memory"
            return attrs.evolve(row, becomes=_becomes(in_memory), why=why), _Restored(in_memory, is_archived=False)
        read, damage = [], ""
        for copy in copies:
            try:
                read.append((copy, decode_job(copy.content, f"the copy on node '{copy.node}'")))
            except DamagedFile as error:
                damage = error.message
        if not read:
            return attrs.evolve(row, failure=damage), None
        node, copied = furthest([(copy.node, job) for copy, job in read])
        job = restored(copied, node, signs, time.time())
        why = f"it had started: {why_started(copied, signs)}" if copied.next_index is not None and signs else ""
        is_archived = copied.next_index is None and any(copy.is_archived for copy, _ in read)
        if copied.next_index is not None and job.next_index is None:
            why = f"it had started: {why_started(copied, signs)}"
        if is_archived:
            row = attrs.evolve(row, file=f"{ARCHIVE}/{job_id // ARCHIVE_FOLDER_JOBS}/job-{job_id}")
        return attrs.evolve(row, becomes=_becomes(job), why=why), _Restored(job, is_archived)

    # fetching

    async def _fetch(self, row: LostFile, wanted: _Restored) -> LostFile:
        try:
            await self._store.save(wanted.job)
        except GantryError as error:
            return attrs.evolve(row, failure=error.message)
        return attrs.evolve(row, is_done=True)

    async def _take_over(self, fetched: Sequence[_Restored]) -> None:
        """Serve what is durable here again; all at once, as some may wait for others."""
        new = [each for each in fetched if each.job.job_id not in self._jobs.table]
        self._scheduler.restored(each.job for each in new)
        archived = [each.job.job_id for each in new if each.is_archived]
        if archived:
            await self._store.archive(archived)
            self._scheduler.archived(archived)

    async def _other(self, name: str, copies: Sequence[_Copy], *, is_dry: bool) -> LostFile:
        """A key or a history of waits; of several copies the longest is the latest."""
        row = LostFile(name, nodes=tuple(sorted(copy.node for copy in copies)), becomes="kept")
        if is_dry:
            return row
        content = max((copy.content for copy in copies), key=len)
        path = self._paths.data / name
        try:
            if not await in_thread(os.path.lexists, path):
                key = key_of(name, content) if name.startswith(f"{SUBMISSIONS}/") else None
                await self._store.files.replace([FileWrite(path, content)])
                if key is not None:
                    self._keys.restore(key)
        except OSError as error:
            return attrs.evolve(row, failure=explain_os_error(error))
        except GantryError as error:
            return attrs.evolve(row, failure=error.message)
        return attrs.evolve(row, is_done=True)


def _becomes(job: Job) -> str:
    return "held" if job.next_index is not None else job.state.value


def _ids_of(index: PastIndex) -> Collection[int]:
    """All jobs that have a row, whether their files were removed or not."""
    size = ARCHIVE_FOLDER_JOBS
    return {
        job_id for folder in index.folders(size) for job_id in index.places(range(folder * size, (folder + 1) * size))
    }


def _jobs_of_waits(store: Store) -> Collection[int]:
    names = [name for name in os.listdir(store.paths.waits) if name.isascii() and name.isdigit()]
    return {job_id for name in names for job_id in jobs_in((store.paths.waits / name).read_bytes())}


def _jobs_of_logs(store: Store) -> Collection[int]:
    return _numbers(name.removeprefix("job-") for name in os.listdir(store.paths.job_logs) if name.startswith("job-"))


def _jobs_of_commands(store: Store) -> Collection[int]:
    """Of commands that masters have run on this node."""
    try:
        names = os.listdir(store.paths.node_commands)
    except FileNotFoundError:
        return ()
    keys = {name.rpartition(".")[0] for name in names}
    return {job_of_key(key) for key in keys if is_command_key(key)}


def _numbers(names: Iterable[str]) -> Collection[int]:
    return {int(name) for name in names if name.isascii() and name.isdigit()}


def _started_by_waits(store: Store, job_ids: Iterable[JobId], others: Mapping[str, Sequence[_Copy]]) -> Collection[int]:
    """The jobs of whose starts a history of waits tells, here or on a candidate."""
    found = set()
    for job_id in job_ids:
        path = store.paths.waits_file(job_id)
        contents = [copy.content for copy in others.get(f"{WAITS}/{path.name}", ())]
        if path.exists():
            contents.append(path.read_bytes())
        if any(span.cause.kind in _STARTED for content in contents for span in spans_in(content, job_id)):
            found.add(job_id)
    return found
