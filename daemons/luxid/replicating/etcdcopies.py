"""Commits each change of the queue in etcd, then passes it to the candidates in the background: the mode `etcd`.

Theory. An entry in etcd says of one file what it is to be; `common.replica.entries` knows which of them some
candidate may lack, and `shrinking` forgets the others. A job that comes into the hands of a process is noted in the
transaction that says so, and one that leaves them, too: a new master must not start it again. The same note tells it
that the end of the job was asked for.

What is too large for etcd is refused, so no new file is. A job's file that has grown beyond it is not committed any
more: it counts here alone, and the log says so. What etcd has of it stays: no other master starts
the job again.

Source: DESIGN section 14; `common.replica`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, assert_never

import attrs

from common.durable.atomicfile import FileWrite
from common.errors import DamagedFile
from common.ids import JobId
from common.lease.changes import ArchivedFile, Fate, KeyChange, RemovedFile, WrittenFile, encode_fate
from common.lease.records import EtcdKeys, RunningJob, encode
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.replica.entries import DirtyEntries
from common.replica.replica import FileChange, Move, Remove, Replace, Replica, TakeUp
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.copying.nodecopies import CopiedFiles, NodeCopies
from daemons.luxid.core.copies.backlog import Key, QueueFact
from daemons.luxid.core.copies.etcdentries import MOST_FILES, JobLivelocks, Passing, in_parts

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


class EtcdCopies(Replica):
    """The mode `etcd`.

    Args:
        nodes: copies in the background; it must not wait for candidates.
        made: hears which entries have been made here.
    """

    commits_first = True

    def __init__(
        self,
        paths: Paths,
        changes: QueueChanges,
        commits: Commit,
        nodes: NodeCopies,
        made: Callable[[Iterable[Key]], None],
    ) -> None:
        self.entries = DirtyEntries[Key]()
        self.hands = JobLivelocks()
        self._paths = paths
        self._changes = changes
        self._commits = commits
        self._nodes = nodes
        self._tell_made = made
        # commits that are under way
        self.waiting = 0
        # jobs that leave their processes by one of these
        self._leaving: set[JobId] = set()

    async def before(self, change: FileChange) -> None:
        match change:
            case Replace(files):
                await self._replace(files)
            case TakeUp(paths, has_results=True):
                for start in range(0, len(paths), MOST_FILES):
                    await self._take_up(paths[start : start + MOST_FILES], are_dead=change.are_dead)
            case TakeUp():
                # of a job that has a process, an opcode may have begun in any case
                pass
            case Move():
                archived = self._archived(change)
                for start in range(0, len(archived), MOST_FILES):
                    await self._archive(archived[start : start + MOST_FILES])
            case Remove(paths):
                keys = self._removed_keys(paths)
                for start in range(0, len(keys), MOST_FILES):
                    await self._commit_gone({key: RemovedFile() for key in keys[start : start + MOST_FILES]})
            case _:
                assert_never(change)

    async def _replace(self, files: Sequence[FileWrite]) -> None:
        named = {key: write.content for write in files if (key := self._changes.files.key(write.path)) is not None}
        contents = await self._small_enough(named)
        # a job that was only queued yet has no livelock, and is not worth a look
        jobs = jobs_of({key: content for key, content in contents.items() if b'"livelock"' in content})
        fates = {key: WrittenFile(content) for key, content in contents.items()}
        await self.commit(fates, self.hands.will_write(jobs), jobs)

    async def _take_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        found = await in_thread(read_all, paths)
        contents: dict[Key, bytes] = {}
        for path, content in found.items():
            if (job_id := self._changes.files.job(path)) is not None:
                contents[job_id] = content
        small = await self._small_enough(contents)
        for part in in_parts({key: WrittenFile(content) for key, content in small.items()}):
            jobs = jobs_of({key: small[key] for key in part})
            await self.commit(part, self.hands.was_written(jobs, are_dead=are_dead), jobs)

    async def _archive(self, job_ids: Sequence[JobId]) -> None:
        # the others have the contents: only the move is news to them
        found = await in_thread(read_all, [self._paths.job_file(each) for each in job_ids if each in self.entries])
        fates: dict[Key, Fate] = {each: ArchivedFile(found.get(self._paths.job_file(each))) for each in job_ids}
        for part in in_parts(fates):
            await self._commit_gone(part)

    async def _commit_gone(self, fates: Mapping[Key, Fate]) -> None:
        """Commit that these are live no longer."""
        gone = job_ids_of(fates)
        await self.commit(fates, self.hands.gone(gone), gone=gone)

    async def take_back(self, change: FileChange) -> None:
        keys = list(dict.fromkeys(self._removed_keys(change.paths)))
        for start in range(0, len(keys), MOST_FILES):
            for fates in in_parts(await in_thread(self._fates, keys[start : start + MOST_FILES])):
                jobs = jobs_of({key: fate.content for key, fate in fates.items() if isinstance(fate, WrittenFile)})
                gone = job_ids_of(fates) - {job.job_id for job in jobs}
                over = self.hands.not_written(jobs).over | self.hands.gone(gone).over
                await self.commit(fates, Passing(over=over), jobs, gone)
                self._made(list(fates))

    async def asking(self, job_id: JobId, ask: str, by: str, *, is_orphan: bool) -> None:
        """The end of a job was asked for that a process has, or will have; nothing, if its end is being committed.

        Args: ask, by: as in `RunningJob`. is_orphan: whether it waits for its next process.
        Raises: as `before`.
        """
        if is_orphan:
            self.hands.begun(job_id)
        elif job_id not in self.hands.running or job_id in self._leaving:
            return
        await self._commits.commit([self._changes.asked(job_id, ask, by)])

    def made(self, change: Replace) -> None:
        self._made([key for path in change.paths if (key := self._changes.files.key(path)) is not None])

    async def after(self, change: FileChange) -> None:
        self._nodes.check_mastership()
        match change:
            case Replace():
                # `made` has told it
                pass
            case TakeUp(paths):
                keys = [key for path in paths if (key := self._changes.files.key(path)) is not None]
                number = self._nodes.note_changed(keys)
                if change.has_results:
                    self._note_made(keys, number)
                else:
                    self.entries.changed(keys, number)
            case Move():
                await self._nodes.after(change)
                self._note_made(self._archived(change), self._nodes.number)
            case Remove(paths):
                await self._nodes.after(change)
                self._note_made(self._removed_keys(paths), self._nodes.number)
            case _:
                assert_never(change)

    def _made(self, keys: Sequence[Key]) -> None:
        self._note_made(keys, self._nodes.note_changed(keys))

    def _note_made(self, keys: Sequence[Key], number: int) -> None:
        self.entries.made(keys, number)
        self._tell_made(keys)

    async def commit(
        self,
        fates: Mapping[Key, Fate],
        passing: Passing,
        jobs: Sequence[Job] = (),
        gone: frozenset[JobId] = frozenset(),
    ) -> None:
        """Commit what files are to be, and what becomes of jobs, in one transaction.

        Args:
            jobs: that `passing` was judged by.
            gone: jobs that are live no longer.
        Raises: as `before`.
        """
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
        self.hands.done(passing, jobs)
        self.hands.forget(gone)

    async def _small_enough(self, contents: Mapping[Key, bytes]) -> Mapping[Key, bytes]:
        """Without files that have grown too large."""
        large = [key for key, content in contents.items() if len(content) > MOST_BYTES]
        grown = await in_thread(self._existing, large) if large else ()
        for key in grown:
            effect = "its changes count here alone, and reach the candidates as copies"
            _log.error("commit.too_large", file=self._changes.name(key), bytes=len(contents[key]), effect=effect)
        return {key: content for key, content in contents.items() if key not in grown}

    def _removed_keys(self, paths: Sequence[Path]) -> list[Key]:
        return [key for path in paths if (key := self._removed_key(path)) is not None]

    def _removed_key(self, path: Path) -> Key | None:
        """The entry that a removal changes: of an archived job only one that is there still, as it tells otherwise."""
        job_id = self._changes.files.archived_job(path)
        return self._changes.files.key(path) if job_id is None else job_id if job_id in self.entries else None

    def _existing(self, keys: Iterable[Key]) -> frozenset[Key]:
        return frozenset(key for key in keys if self._changes.files.path(key).exists())

    def _archived(self, change: Move) -> list[JobId]:
        return self._changes.files.archived(change.moves)

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
