"""Find what the master's queue has lost, and fetch it from the candidates.

Theory. A job is lost if somebody proves it, and it is in neither queue nor archive nor the record of removals: a
candidate has its file, or this node has its row in the history, its output, its waits or its key, or has it in memory,
or has set it aside when another node was the master. So is one whose file is damaged here, if anybody has another copy.
Other holes are ids that were never used. What is fetched is written like any change of the queue, so the candidates get
it again, and what they have set aside is not missed any more. `core.copies.restoring` decides what a job becomes;
nothing starts by itself.

Source: DESIGN section 11, "a job that is missing on the master".
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import orjson
import trio

from common.access import Role, check_role
from common.durable.atomicfile import FileWrite, remove_file
from common.errors import Conflict, DamagedFile, GantryError, InvalidRequest, NotFound, Unavailable, explain_os_error
from common.ids import JobId
from common.paths import ARCHIVE_FOLDER_JOBS
from common.queue.explanation import WaitKind
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.queue.sidefiles import jobs_in, spans_in
from common.resources import Resource
from common.schedules.schedule import Schedule
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import structure
from daemons.luxid.core.copies.restoring import furthest, restored, why_started
from daemons.luxid.core.queue.entry import AT_REST
from daemons.luxid.core.submission.keyed import key_of
from daemons.luxid.files.knownids import GAP
from daemons.luxid.files.store import Store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.history.index import PastIndex
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.removals import read_removals, set_aside_here
from daemons.luxid.retention import is_in_queue, is_on_disk, outputs, with_processes
from daemons.luxid.scheduler import Scheduler
from daemons.luxid.schedules import ScheduleBook
from protocol.client import Client
from protocol.luxi.daemon import LostFile, Repair, Repaired
from protocol.noded.statefiles import (
    ARCHIVE,
    SUBMISSIONS,
    WAITS,
    is_command_key,
    is_kept_file,
    job_of,
    job_of_key,
    original_name,
)
from protocol.peer import Peer
from protocol.wconfd.config import ReadResources, SetResourceTotal
from protocol.wconfd.locks import ListLocksWaitingStatus, ListOrphanedLocks

if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies

# lost files of one reply
MOST: Final = 1000
# waits that only a job that is being started, or had started, has
_STARTED: Final = (WaitKind.START, WaitKind.LOCKS, WaitKind.RETRY)
_NOTE: Final = re.compile(rf"{SUBMISSIONS}/batch-\d+-\d+", re.ASCII)
_SCHEDULES: Final = "schedules.data"
T = TypeVar("T")
_log: Final = get_log(__name__)


@attrs.frozen
class _Place:
    """Where a lost file is."""

    # this one's name: it has set the file aside itself
    node: str
    # on that node
    name: str


@attrs.frozen
class _Copy:
    node: str
    content: bytes
    is_archived: bool


@attrs.define
class _Places:
    """What can be had, and where."""

    jobs: dict[JobId, list[_Place]] = attrs.field(factory=dict)
    # keys and histories of waits, by name
    others: dict[str, list[_Place]] = attrs.field(factory=dict)
    unasked: dict[str, str] = attrs.field(factory=dict)

    def add(self, place: _Place) -> None:
        original = original_name(place.name) or place.name
        job_id = job_of(original)
        if job_id is not None:
            self.jobs.setdefault(job_id, []).append(place)
        elif not _NOTE.fullmatch(original):
            self.others.setdefault(original, []).append(place)


@attrs.frozen
class _PageContent:
    """What has been read of it."""

    jobs: Mapping[JobId, Sequence[_Copy]]
    others: Mapping[str, Sequence[_Copy]]


@attrs.frozen
class _Page:
    """The lost files of one reply."""

    job_ids: Sequence[JobId]
    others: Sequence[str]
    # number of those behind it
    left: int


@attrs.frozen
class _Restored:
    job: Job
    is_archived: bool


class Repairs:
    """The method that tells and fetches. Args: own_name: of this node. nodes: None: there are no candidates."""

    def __init__(
        self,
        store: Store,
        jobs: LiveJobs,
        scheduler: Scheduler,
        keys: SubmissionKeys,
        past: PastHistory,
        book: ScheduleBook,
        own_name: str,
        nodes: "NodeCopies | None",
    ) -> None:
        self._store = store
        self._paths = store.paths
        self._jobs = jobs
        self._scheduler = scheduler
        self._keys = keys
        self._past = past
        self._book = book
        self._own_name = own_name
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
                done = await self._repair(call.after, is_dry=call.is_dry)
                if not call.is_dry and self._nodes is not None:
                    # what is told of the candidates is anew
                    await self._nodes.lost()
                return done
            except OSError as error:
                raise Unavailable(f"cannot list what is lost: {explain_os_error(error)}; try again") from error

    async def _forget(self, job_ids: Sequence[int]) -> None:
        for job_id in job_ids:
            if not 0 < job_id <= self._store.serial:
                raise NotFound(f"there is no job {job_id}")
            if JobId(job_id) in self._jobs.table or await in_thread(is_on_disk, self._paths, job_id):
                raise Conflict(f"job {job_id} is not lost; 'gnt-job info {job_id}' shows it")
        await self._store.files.forget(job_ids)

    async def _repair(self, after: str, *, is_dry: bool) -> Repaired:
        places = await self._places()
        await self._skip_ids(max(places.jobs, default=JobId(0)))
        known = await self._known_here()
        page = _page({*places.jobs, *known}, places.others, after)
        found = await self._read(places, page)
        signs = await self._signs([job_id for job_id in page.job_ids if job_id in found.jobs], found)
        lost, fetched = list[LostFile](), list[_Restored]()
        for job_id in page.job_ids:
            if job_id not in found.jobs and job_id not in known:
                # it is here, or gone there, since it was listed
                continue
            row, job = self._judged(job_id, found.jobs.get(job_id, ()), known.get(job_id, ()), signs.get(job_id, ()))
            if not is_dry and job is not None:
                row = await self._fetch(row, job)
                if row.is_done:
                    fetched.append(job)
            lost.append(row)
        for name in page.others:
            copies = found.others.get(name, ())
            if is_kept_file(name):
                lost.append(await self._rows(name, copies, places.others[name], is_dry=is_dry))
            else:
                lost.append(await self._other(name, copies, is_dry=is_dry))
        await self._take_over(fetched)
        return Repaired(tuple(lost), places.unasked, page.left)

    async def _skip_ids(self, highest: JobId) -> None:
        """Never use an id that a lost job has: one that is beyond the serial, too, was used. Raises: OSError."""
        if highest > self._store.serial:
            self._store.raise_serial(JobId(highest + GAP))
            _log.warning("ids.gap", lost=True, highest=highest, next=self._store.serial + 1)
            await in_thread(self._store.write_serial)

    # what is lost

    async def _places(self) -> _Places:
        """Where what is lost can be had. Raises: OSError, DamagedFile."""
        found = _Places()
        for name in await in_thread(set_aside_here, self._paths):
            found.add(_Place(self._own_name, name))
        for node, names in (await self._nodes.lost() if self._nodes is not None else {}).items():
            if isinstance(names, str):
                found.unasked[node] = names
                continue
            for name in names:
                found.add(_Place(node, name))
        here = await in_thread(lambda: {each for each in found.jobs if is_in_queue(self._paths, each)})
        found.jobs = {job_id: places for job_id, places in found.jobs.items() if job_id not in here}
        return found

    async def _read(self, places: _Places, page: _Page) -> _PageContent:
        """The copies of a page, and the histories of waits of its jobs; nodes that do not tell are unasked then."""
        histories = {f"{WAITS}/{self._paths.waits_file(job_id).name}" for job_id in page.job_ids}
        others = [name for name in places.others if name in histories or name in set(page.others)]
        contents: dict[_Place, bytes] = {}
        wanted = [places.jobs.get(job_id, ()) for job_id in page.job_ids] + [places.others[name] for name in others]
        by_node: dict[str, list[str]] = {}
        for place in (place for each in wanted for place in each):
            by_node.setdefault(place.node, []).append(place.name)
        for node, names in by_node.items():
            try:
                read = await self._contents(node, names)
            except Unavailable as error:
                places.unasked[node] = error.message
            else:
                contents.update({_Place(node, name): content for name, content in read.items()})

        def copies(of: Iterable[_Place]) -> Sequence[_Copy]:
            return [_Copy(each.node, contents[each], f"{ARCHIVE}/" in each.name) for each in of if each in contents]

        jobs = {job_id: copies(places.jobs.get(job_id, ())) for job_id in page.job_ids}
        return _PageContent(
            {job_id: found for job_id, found in jobs.items() if found},
            {name: found for name in others if (found := copies(places.others[name]))},
        )

    async def _contents(self, node: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Raises: Unavailable: the node does not tell them. OSError: they cannot be read here."""
        if node == self._own_name:
            return await in_thread(lambda: {name: (self._paths.data / name).read_bytes() for name in names})
        assert self._nodes is not None
        return await self._nodes.read(node, names)

    async def _known_here(self) -> Mapping[JobId, Sequence[str]]:
        """The jobs that this node knows of and has no file of, with what tells of them."""
        removals = await in_thread(read_removals, self._paths)
        told: dict[str, Collection[int]] = {
            "history": await self._past.change(_ids_of),
            "output": await in_thread(outputs, self._paths),
            "waits": await in_thread(_jobs_of_waits, self._store),
            "key": {job_id for key in self._keys.known for job_id in key.job_ids},
        }
        serial = self._store.serial
        live = told["luxid"] = frozenset(self._jobs.table.ids())

        def missing() -> Mapping[JobId, Sequence[str]]:
            ids = {each for ids in told.values() for each in ids}
            # what was removed before the record was begun is not in it
            was_kept = (each for each in ids if removals.begun_at < each <= serial and each not in removals.jobs)
            return {
                JobId(each): [what for what, ids in told.items() if each in ids]
                for each in {*was_kept, *live}
                if not is_on_disk(self._paths, each)
            }

        return await in_thread(missing)

    async def _signs(self, job_ids: Sequence[JobId], found: _PageContent) -> Mapping[JobId, Sequence[str]]:
        """What shows that jobs had started. Raises: Unavailable: the locks, the history or a node cannot be asked."""
        if not job_ids:
            return {}
        status, orphans = (
            await self._wconfd.call(ListLocksWaitingStatus()),
            await self._wconfd.call(ListOrphanedLocks()),
        )
        owners = {owner.ident for lock in status.held for owner, _ in lock[1]}
        owners |= {pending.owner.ident for pending in status.pending} | {orphan.owner.ident for orphan in orphans}
        told: dict[str, Collection[int | str]] = {
            "its locks": owners,
            "the history": await self._past.change(_ids_of),
            "its output": await in_thread(outputs, self._paths),
            "its livelock": await in_thread(with_processes, self._paths),
            "its log": await in_thread(_jobs_of_logs, self._store),
            "a command here": await in_thread(_jobs_of_commands, self._store),
        }
        for node in sorted({copy.node for job_id in job_ids for copy in found.jobs[job_id]} - {self._own_name}):
            assert self._nodes is not None
            told[f"a command on node {node}"] = await self._nodes.commands(node)
        told["its waits"] = await in_thread(_started_by_waits, self._store, job_ids, found.others)
        return {job_id: [what for what, ids in told.items() if job_id in ids] for job_id in job_ids}

    def _judged(
        self, job_id: JobId, copies: Sequence[_Copy], known: Sequence[str], signs: Sequence[str]
    ) -> tuple[LostFile, _Restored | None]:
        name, nodes = f"queue/job-{job_id}", tuple(sorted({copy.node for copy in copies}))
        row = LostFile(name, job_id, nodes, tuple(known))
        in_memory = self._jobs.table.in_memory(job_id)
        if in_memory is not None:
            if self._jobs.phase(job_id) not in (None, *AT_REST):
                return attrs.evolve(row, failure="its process is running, and writes its file"), None
            # nothing was lost of it but the file: it stays as it is
            why = "luxid has it in memory"
            return attrs.evolve(row, becomes=in_memory.state.value, why=why), _Restored(in_memory, is_archived=False)
        if not copies:
            return row, None
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
        row = LostFile(name, nodes=tuple(sorted({copy.node for copy in copies})))
        if not copies:
            return row
        row = attrs.evolve(row, becomes="kept")
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

    async def _rows(self, name: str, copies: Sequence[_Copy], places: Sequence[_Place], *, is_dry: bool) -> LostFile:
        """Schedules or resources: those that are not here are added, and the copies are no longer needed."""
        row = LostFile(name, nodes=tuple(sorted({copy.node for copy in copies})))
        if not copies:
            return row
        add = self._schedules if name == _SCHEDULES else self._resources
        try:
            added = await add(copies, is_dry=is_dry)
            row = attrs.evolve(row, becomes="paused" if name == _SCHEDULES else "kept", why=", ".join(added))
            if is_dry:
                return row
            for place in places:
                await self._remove(place)
        except GantryError as error:
            return attrs.evolve(row, failure=error.message)
        return attrs.evolve(row, is_done=True)

    async def _schedules(self, copies: Sequence[_Copy], *, is_dry: bool) -> Sequence[str]:
        """Add the lost ones, paused; return their names. One that has a name of theirs was added anew in its place."""
        found = {each.uuid: each for copy in copies for each in _read_rows(copy, "schedules", Schedule)}
        await self._book.require()
        here = self._book.all()
        known = {each.uuid for each in here} | {each.name for each in here}
        lost = [each for each in found.values() if each.uuid not in known and each.name not in known]
        for each in lost if not is_dry else ():
            await self._book.add(attrs.evolve(each, is_paused=True))
        return sorted(each.name for each in lost)

    async def _resources(self, copies: Sequence[_Copy], *, is_dry: bool) -> Sequence[str]:
        found = {each.key: each for copy in copies for each in _read_rows(copy, "resources", Resource)}
        known = {each.key for each in await self._wconfd.call(ReadResources())}
        lost = [each for key, each in found.items() if key not in known]
        for each in lost if not is_dry else ():
            await self._wconfd.call(SetResourceTotal(each))
        return sorted(each.name for each in lost)

    async def _remove(self, place: _Place) -> None:
        """Raises: Unavailable."""
        if place.node == self._own_name:
            await in_thread(remove_file, self._paths.data / place.name)
        else:
            assert self._nodes is not None
            await self._nodes.remove(place.node, [place.name])


def _read_rows(copy: _Copy, noun: str, kind: type[T]) -> Sequence[T]:
    """Raises: DamagedFile: the copy holds no such rows."""
    try:
        return structure(orjson.loads(copy.content)[noun], list[kind], noun)  # type: ignore[valid-type]
    except (ValueError, KeyError, TypeError, InvalidRequest) as error:
        raise DamagedFile(f"the copy of node '{copy.node}' is damaged: {error}") from error


def _becomes(job: Job) -> str:
    return "held" if job.next_index is not None else job.state.value


def _page(job_ids: Iterable[JobId], others: Iterable[str], after: str) -> _Page:
    """The lost files behind that one; the jobs come first. Args: after: its name; empty: from the first on."""
    last = job_of(after)
    jobs = sorted(job_id for job_id in job_ids if not after or (last is not None and job_id > last))
    names = sorted(name for name in others if last is not None or name > after)
    some = names[: max(MOST - len(jobs), 0)]
    return _Page(jobs[:MOST], some, len(jobs) + len(names) - len(jobs[:MOST]) - len(some))


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
