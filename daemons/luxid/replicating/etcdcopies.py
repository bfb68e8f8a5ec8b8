"""Commits each change of the queue in etcd, then passes it to the candidates in the background: the way `etcd`.

Theory. An entry in etcd says of one file what it is to be; `core.copies.etcdentries` knows which of them some
candidate may lack, and `shrinking` forgets the others. A job that comes into the hands of a process is noted in the
transaction that says so, and one that leaves them, too: a new master must not start it again. The same note tells it
that the end of the job was asked for.

What is too large for etcd is refused, so no new file is. A job's file that has grown beyond it is not committed any
more: it counts here alone, and the log says so. What etcd has of it stays: no other master starts
the job again.

Source: DESIGN section 14; `common.replication`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from common.durable.atomicfile import FileWrite
from common.errors import DamagedFile
from common.ids import JobId
from common.lease.changes import ArchivedFile, Fate, KeyChange, RemovedFile, WrittenFile, encode_fate
from common.lease.records import EtcdKeys, RunningJob, encode
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.copying.nodecopies import CopiedFiles, NodeCopies
from daemons.luxid.core.copies.backlog import Key, QueueFact
from daemons.luxid.core.copies.etcdentries import MOST_FILES, DirtyEntries, JobHands, Passing, in_parts

# Changes of the queue's files as changes of keys in etcd.
#
# Source: DESIGN section 14; common/lease/changes.py.


class QueueChanges:
    """Makes changes of keys. Args: own: this node and its mastership, for jobs that it gives to processes."""

    def __init__(self, paths: Paths, keys: EtcdKeys, own: RunningJob) -> None:
        self.files = CopiedFiles(paths)
        self._paths = paths
        self._keys = keys
        self._own = own
        self._note = encode(own)
        # jobs that this luxid knows to be in the hands of processes, and whose end was asked for
        self._asked: dict[JobId, RunningJob] = {}

    def name(self, key: Key) -> str:
        """The key in etcd of a file."""
        return self._keys.dirty + str(self.files.path(key).relative_to(self._paths.data))

    def key(self, name: str) -> Key | None:
        """The file of a key in etcd; None: it is no file of the queue."""
        return self.files.key(self._paths.data / name.removeprefix(self._keys.dirty))

    def fates(self, fates: Mapping[Key, Fate]) -> list[KeyChange]:
        """What becomes of files."""
        return [KeyChange(self.name(key), encode_fate(fate)) for key, fate in fates.items()]

    def passing(self, passing: Passing) -> list[KeyChange]:
        """What becomes of jobs; one whose end was asked for is noted with that."""
        begun = [KeyChange(self._keys.running_job(job_id), self._noted(job_id)) for job_id in sorted(passing.begun)]
        for job_id in passing.over:
            self._asked.pop(job_id, None)
        return [*begun, *(KeyChange(self._keys.running_job(job_id), None) for job_id in sorted(passing.over))]

    def asked(self, job_id: JobId, ask: str, by: str) -> KeyChange:
        """That the end of a job was asked for, as in `RunningJob`."""
        self._asked[job_id] = attrs.evolve(self._own, ask=ask, by=by)
        return KeyChange(self._keys.running_job(job_id), self._noted(job_id))

    def _noted(self, job_id: JobId) -> bytes:
        asked = self._asked.get(job_id)
        return self._note if asked is None else encode(asked)


def jobs_of(contents: Mapping[Key, bytes]) -> list[Job]:
    """The jobs among these files; a damaged one is none."""
    found = []
    for key, content in contents.items():
        if isinstance(key, int):
            try:
                found.append(decode_job(content, f"job {key}"))
            except DamagedFile:
                continue
    return found


def job_ids_of(keys: Iterable[Key]) -> frozenset[JobId]:
    return frozenset(key for key in keys if isinstance(key, int))


def read_all(paths: Sequence[Path]) -> Mapping[Path, bytes]:
    """The contents of these files, as far as they exist; in a thread. Raises: OSError."""
    found = {}
    for path in paths:
        try:
            found[path] = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


# bytes of a file that has grown, beyond which it is not committed; etcd takes some more in one value
MOST_BYTES: Final = 7 * 2**20
_log: Final = get_log(__name__)


class Commit(Protocol):
    """What is asked of `protocol.etcd.commits.Commits`."""

    async def commit(self, changes: Sequence[KeyChange]) -> int: ...


class EtcdCopies:
    """Implements `CommitsFirst` and `Copies`.

    Args:
        nodes: copies in the background; it must not wait for candidates.
        made: hears which entries have been made here.
    """

    def __init__(
        self,
        paths: Paths,
        changes: QueueChanges,
        commits: Commit,
        nodes: NodeCopies,
        made: Callable[[Iterable[Key]], None],
    ) -> None:
        self.entries = DirtyEntries()
        self.hands = JobHands()
        self._paths = paths
        self._changes = changes
        self._commits = commits
        self._nodes = nodes
        self._tell_made = made
        # commits that are under way
        self.waiting = 0
        # jobs that leave their processes by one of these
        self._leaving: set[JobId] = set()

    # before a change is made here

    async def replacing(self, files: Sequence[FileWrite]) -> None:
        named = {key: write.content for write in files if (key := self._changes.files.key(write.path)) is not None}
        contents = await self._small_enough(named)
        # a job that was only queued yet has no livelock, and is not worth a look
        jobs = jobs_of({key: content for key, content in contents.items() if b'"livelock"' in content})
        passing = self.hands.will_write(jobs)
        await self.commit({key: WrittenFile(content) for key, content in contents.items()}, passing)
        self.hands.done(passing, jobs)

    def made(self, files: Sequence[FileWrite]) -> None:
        self._made([key for write in files if (key := self._changes.files.key(write.path)) is not None])

    async def taking_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        for start in range(0, len(paths), MOST_FILES):
            await self._take_up(paths[start : start + MOST_FILES], are_dead=are_dead)

    async def _take_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        found = await in_thread(read_all, paths)
        contents: dict[Key, bytes] = {}
        for path, content in found.items():
            if (job_id := self._changes.files.job(path)) is not None:
                contents[job_id] = content
        small = await self._small_enough(contents)
        for part in in_parts({key: WrittenFile(content) for key, content in small.items()}):
            jobs = jobs_of({key: small[key] for key in part})
            passing = self.hands.was_written(jobs, are_dead=are_dead)
            await self.commit(part, passing)
            self.hands.done(passing, jobs)

    async def moving(self, moves: Sequence[tuple[Path, Path]]) -> None:
        archived = self._archived(moves)
        for start in range(0, len(archived), MOST_FILES):
            part = archived[start : start + MOST_FILES]
            # the others have the contents: only the move is news to them
            found = await in_thread(read_all, [self._paths.job_file(each) for each in part if each in self.entries])
            fates: dict[Key, Fate] = {each: ArchivedFile(found.get(self._paths.job_file(each))) for each in part}
            for few in in_parts(fates):
                gone = job_ids_of(few)
                await self.commit(few, self.hands.gone(gone))
                self.hands.forget(gone)

    async def removing(self, paths: Sequence[Path]) -> None:
        keys = [key for path in paths if (key := self._removed_key(path)) is not None]
        for start in range(0, len(keys), MOST_FILES):
            part = keys[start : start + MOST_FILES]
            gone = job_ids_of(part)
            await self.commit({key: RemovedFile() for key in part}, self.hands.gone(gone))
            self.hands.forget(gone)

    async def put_back(self, paths: Sequence[Path]) -> None:
        keys = list(dict.fromkeys(key for path in paths if (key := self._removed_key(path)) is not None))
        for start in range(0, len(keys), MOST_FILES):
            for fates in in_parts(await in_thread(self._fates, keys[start : start + MOST_FILES])):
                await self._put_back(fates)

    async def _put_back(self, fates: Mapping[Key, Fate]) -> None:
        jobs = jobs_of({key: fate.content for key, fate in fates.items() if isinstance(fate, WrittenFile)})
        gone = job_ids_of(fates) - {job.job_id for job in jobs}
        passing = Passing(over=self.hands.not_written(jobs).over | self.hands.gone(gone).over)
        await self.commit(fates, passing)
        self.hands.done(passing, jobs)
        self.hands.forget(gone)
        self._made(list(fates))

    async def asking(self, job_id: JobId, ask: str, by: str, *, is_orphan: bool) -> None:
        """The end of a job was asked for that a process has, or will have; nothing, if its end is being committed.

        Args: ask, by: as in `RunningJob`. is_orphan: whether it waits for its next process.
        Raises: as `CommitsFirst`.
        """
        if is_orphan:
            self.hands.begun(job_id)
        elif job_id not in self.hands.running or job_id in self._leaving:
            return
        await self._commits.commit([self._changes.asked(job_id, ask, by)])

    # after it was made

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        # told by `made`
        await self._nodes.replaced(())

    async def appeared(self, paths: Sequence[Path], *, has_results: bool) -> None:
        await self._nodes.replaced(())
        keys = [key for path in paths if (key := self._changes.files.key(path)) is not None]
        number = self._nodes.note_changed(keys)
        if has_results:
            self._note_made(keys, number)
        else:
            self.entries.changed(keys, number)

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        await self._nodes.renamed(moves)
        self._note_made(self._archived(moves), self._nodes.number)

    async def removed(self, paths: Sequence[Path]) -> None:
        await self._nodes.removed(paths)
        keys = [key for path in paths if (key := self._removed_key(path)) is not None]
        self._note_made(keys, self._nodes.number)

    def _made(self, keys: Sequence[Key]) -> None:
        self._note_made(keys, self._nodes.note_changed(keys))

    def _note_made(self, keys: Sequence[Key], number: int) -> None:
        self.entries.made(keys, number)
        self._tell_made(keys)

    async def commit(self, fates: Mapping[Key, Fate], passing: Passing) -> None:
        """Commit what files are to be, and what becomes of jobs, in one transaction. Raises: as `CommitsFirst`."""
        changes = [*self._changes.fates(fates), *self._changes.passing(passing)]
        if changes:
            self.waiting += 1
            self._leaving |= passing.over
            try:
                revision = await self._commits.commit(changes)
            finally:
                self.waiting -= 1
                self._leaving -= passing.over
            self.entries.committed(fates, revision)

    async def _small_enough(self, contents: Mapping[Key, bytes]) -> Mapping[Key, bytes]:
        """Without files that have grown too large."""
        large = [key for key, content in contents.items() if len(content) > MOST_BYTES]
        grown = await in_thread(self._existing, large) if large else ()
        for key in grown:
            effect = "its changes count here alone, and reach the candidates as copies"
            _log.error("commit.too_large", file=self._changes.name(key), bytes=len(contents[key]), effect=effect)
        return {key: content for key, content in contents.items() if key not in grown}

    def _removed_key(self, path: Path) -> Key | None:
        """The entry that a removal changes: of an archived job only one that is there still, as it tells otherwise."""
        job_id = self._changes.files.archived_job(path)
        return self._changes.files.key(path) if job_id is None else job_id if job_id in self.entries else None

    def _existing(self, keys: Iterable[Key]) -> frozenset[Key]:
        return frozenset(key for key in keys if self._changes.files.path(key).exists())

    def _archived(self, moves: Sequence[tuple[Path, Path]]) -> list[JobId]:
        """The jobs that are moved to the archive."""
        files = self._changes.files
        return [
            job_id
            for source, target in moves
            if (job_id := files.job(source)) is not None and target == self._paths.archived_job_file(job_id)
        ]

    def _fates(self, keys: Sequence[Key]) -> Mapping[Key, Fate]:
        """What the files hold; in a thread. Raises: OSError."""
        return {key: self._fate(key) for key in keys}

    def _fate(self, key: Key) -> Fate:
        path = self._changes.files.path(key)
        if (content := read_all([path]).get(path)) is not None:
            return WrittenFile(content)
        if isinstance(key, str | QueueFact):
            return RemovedFile()
        archived = self._paths.archived_job_file(key)
        content = read_all([archived]).get(archived)
        return RemovedFile() if content is None else ArchivedFile(content)


def is_too_large(fate: Fate) -> bool:
    """Whether a file that exists here is not committed any more."""
    return isinstance(fate, WrittenFile) and len(fate.content) > MOST_BYTES
