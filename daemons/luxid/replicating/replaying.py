"""Lays what is in etcd over the files of the queue when a luxid starts, before the queue is read.

Theory. Whoever was the master before, this node or another, has committed each change before it was made, and died at
some point. So the files here become what etcd says, whether they are older or hold what a later commit was to replace;
`core.copies.restoring` knows the exceptions. What is other than in etcd then is committed before the queue is
read. All of it may be done again after a crash.

Source: DESIGN section 14.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import attrs

from common.durable.atomicfile import FileWrite, remove_files, write_files
from common.durable.durably import durably
from common.durable.folders import make_folders, sync_folders
from common.errors import DamagedFile
from common.ids import JobId
from common.lease.changes import ArchivedFile, Dirty, Fate, RemovedFile, WrittenFile, decode_fate
from common.lease.records import EtcdKeys, RunningJob, decode
from common.paths import Paths
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, Timestamp
from common.system.log import get_log
from daemons.luxid.core.copies.backlog import Key, QueueFact
from daemons.luxid.core.copies.etcdentries import MOST_FILES, Passing, in_parts
from daemons.luxid.core.copies.restoring import as_begun, has_process, is_later, is_lost
from daemons.luxid.replicating.etcdcopies import QueueChanges, is_too_large, read_all

# files that are made durable together
_AT_ONCE: Final = 250
_log: Final = get_log(__name__)


@attrs.frozen
class EtcdQueue:
    """What etcd has of the queue."""

    fates: Mapping[Key, Fate]
    # at which each was put
    revisions: Mapping[Key, int]
    # jobs that a process had
    running: Mapping[JobId, RunningJob]


@attrs.frozen
class ReplayedChanges:
    """What is to be committed after the files were laid."""

    # files that are otherwise than in etcd
    fates: Mapping[Key, Fate]
    # jobs that no process has any more
    over: frozenset[JobId]
    # jobs that a process of this node may have
    running: frozenset[JobId]
    # the highest id that etcd knows
    highest_id: JobId


def read_found(dirty: Dirty, changes: QueueChanges, keys: EtcdKeys) -> EtcdQueue:
    """Raises: DamagedFile: a value is not ours."""
    fates: dict[Key, Fate] = {}
    revisions: dict[Key, int] = {}
    running: dict[JobId, RunningJob] = {}
    for name, entry in dirty.entries.items():
        job_id = name.removeprefix(keys.running)
        if job_id != name and job_id.isascii() and job_id.isdigit():
            running[JobId(int(job_id))] = decode(entry.value, RunningJob, name)
        elif (key := changes.key(name)) is not None:
            fates[key], revisions[key] = decode_fate(name, entry.value), entry.revision
        else:
            _log.warning("entry.unknown", key=name, effect="it is left alone")
    return EtcdQueue(fates, revisions, running)


class Laying:
    """Carries it out; for a thread. Args: own: name of this node."""

    def __init__(self, paths: Paths, changes: QueueChanges, own: str, now: Timestamp) -> None:
        self._paths = paths
        self._changes = changes
        self._own = own
        self._now = now
        self._writes: list[FileWrite] = []
        self._gone: list[Path] = []
        # of archived jobs
        self._folders: dict[str, None] = {}

    def lay(self, found: EtcdQueue) -> ReplayedChanges:
        """Raises: OSError, DamagedFile: some files may be laid.

        Durability: on return the files survive a loss of power.
        """
        fates: dict[Key, Fate] = {}
        for key, fate in found.fates.items():
            running = found.running.get(key) if isinstance(key, int) else None
            if (other := self._lay(key, fate, running)) is not None:
                fates[key] = other
        for job_id in found.running.keys() - found.fates.keys():
            if (other := self._lay_without_entry(job_id, found.running[job_id])) is not None:
                fates[job_id] = other
        self._flush()
        still = frozenset(job_id for job_id in found.running if self._may_run(job_id, found.running[job_id]))
        return ReplayedChanges(fates, frozenset(found.running) - still, still, self._highest(found))

    def _lay(self, key: Key, fate: Fate, running: RunningJob | None) -> Fate | None:
        """Return what is to be committed instead."""
        if isinstance(key, int):
            return self._lay_job(key, fate, running)
        path = self._changes.files.path(key)
        if not isinstance(fate, WrittenFile):
            self._gone.append(path)
        elif key is QueueFact.SERIAL:
            self._lay_serial(fate.content)
        else:
            self._write(FileWrite(path, fate.content))
        return None

    def _lay_serial(self, content: bytes) -> None:
        path = self._paths.serial_file
        here = read_all([path]).get(path, b"").strip()
        # a damaged one counts for nothing
        if int(content) > (int(here) if here.isdigit() else -1):
            self._write(FileWrite(path, content))

    def _lay_job(self, job_id: JobId, fate: Fate, running: RunningJob | None) -> Fate | None:
        live, archived = self._paths.job_file(job_id), self._paths.archived_job_file(job_id)
        match fate:
            case WrittenFile(content):
                self._gone.append(archived)
                return self._lay_live(job_id, content, running)
            case ArchivedFile(content):
                held = read_all([live, archived])
                content = content or held.get(live) or held.get(archived)
                if content is None:
                    effect = "it is missing on this node; its id is not used again"
                    _log.error("job.lost", job=job_id, reason="etcd has only that it was archived", effect=effect)
                else:
                    self._folders[str(archived.parent)] = None
                    self._write(FileWrite(archived, content))
                    self._gone.append(live)
            case RemovedFile():
                self._gone += [live, archived]
            case _:
                assert_never(fate)
        return None

    def _lay_live(self, job_id: JobId, content: bytes, running: RunningJob | None) -> Fate | None:
        path = self._paths.job_file(job_id)
        here, entry = self._read(job_id), decode_job(content, str(path))
        is_own = running is not None and running.node == self._own
        if here is not None and is_later(here, entry, is_own=is_own):
            _log.info("job.later_here", job=job_id, effect="what its process has written is committed")
            return self._settled(job_id, here, running)
        if running is not None and is_lost(here, is_own=is_own):
            return self._settled(job_id, entry, running)
        self._write(FileWrite(path, content))
        return None

    def _lay_without_entry(self, job_id: JobId, running: RunningJob) -> Fate | None:
        here = self._read(job_id)
        return None if here is None else self._settled(job_id, here, running)

    def _settled(self, job_id: JobId, job: Job, running: RunningJob | None) -> Fate:
        """Write the job as it counts from now on."""
        if running is not None and running.node != self._own:
            _log.warning("job.of_old_master", job=job_id, node=running.node, epoch=running.epoch)
            job = as_begun(job, self._now)
        elif running is not None and self._read(job_id) is None:
            job = as_begun(job, self._now)
        content = encode_job(job)
        self._write(FileWrite(self._paths.job_file(job_id), content))
        return WrittenFile(content)

    def _may_run(self, job_id: JobId, running: RunningJob) -> bool:
        job = self._read(job_id)
        return running.node == self._own and job is not None and has_process(job)

    def _read(self, job_id: JobId) -> Job | None:
        """The file of a live job here; None: there is none, or it is damaged."""
        path = self._paths.job_file(job_id)
        content = read_all([path]).get(path)
        try:
            return None if content is None else decode_job(content, str(path))
        except DamagedFile:
            return None

    def _write(self, write: FileWrite) -> None:
        if read_all([write.path]).get(write.path) != write.content:
            self._writes.append(write)

    def _flush(self) -> None:
        # durable before the live file of a job may be gone: etcd may have no content of it
        make_folders(self._folders)
        for part in _parts(self._writes):
            durably(partial(write_files, part))
        durably(lambda: remove_files(self._gone))
        durably(lambda: sync_folders([self._paths.archive, self._paths.queue]))

    @staticmethod
    def _highest(found: EtcdQueue) -> JobId:
        serial = found.fates.get(QueueFact.SERIAL)
        last = int(serial.content) if isinstance(serial, WrittenFile) else 0
        return JobId(max([last, *found.running, *(key for key in found.fates if isinstance(key, int))]))


def _parts(writes: Sequence[FileWrite]) -> Iterator[Sequence[FileWrite]]:
    for start in range(0, len(writes), _AT_ONCE):
        yield writes[start : start + _AT_ONCE]


# What is to be committed at luxid's start, in parts, as far as it is not done yet.
#
# Source: DESIGN section 14.


class Uncommitted:
    """Args: laid: files and jobs that are otherwise than in etcd."""

    def __init__(self, laid: ReplayedChanges | None = None) -> None:
        self._fates: dict[Key, Fate] = {} if laid is None else dict(laid.fates)
        # jobs that no process has any more
        self._over: set[JobId] = set() if laid is None else set(laid.over)

    def take_too_large(self) -> frozenset[Key]:
        """Leave out what etcd does not take, and return it; the jobs stay in the hands of their processes there."""
        large = frozenset(key for key, fate in self._fates.items() if is_too_large(fate))
        for key in large:
            del self._fates[key]
        self._over -= large
        return large

    def part(self) -> tuple[Mapping[Key, Fate], Passing] | None:
        """What one change takes; None: nothing is left."""
        fates = next(in_parts(self._fates), {})
        ended = [key for key in fates if isinstance(key, int) and key in self._over]
        if not ended:
            # one whose file is in a later part leaves its process with that
            ended = [job_id for job_id in self._over if job_id not in self._fates][:MOST_FILES]
        return (fates, Passing(over=frozenset(ended))) if fates or ended else None

    def committed(self, fates: Mapping[Key, Fate], passing: Passing) -> None:
        for key in fates:
            del self._fates[key]
        self._over -= passing.over
