"""Changes of the queue's files as changes of keys in etcd.

Source: DESIGN section 14; common/lease/dirty.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from common.errors import DamagedFile
from common.ids import JobId
from common.lease.dirty import Change, Fate, encode_fate
from common.lease.keys import Keys
from common.lease.records import RunningJob, encode
from common.paths import Paths
from common.queue.files.jobfile import decode_job
from common.queue.jobs import Job
from daemons.luxid.copying.copiedfiles import CopiedFiles
from daemons.luxid.core.copies.backlog import Key
from daemons.luxid.core.copies.jobhands import Passing


class QueueChanges:
    """Makes changes of keys. Args: own: this node and its mastership, for jobs that it gives to processes."""

    def __init__(self, paths: Paths, keys: Keys, own: RunningJob) -> None:
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

    def fates(self, fates: Mapping[Key, Fate]) -> list[Change]:
        """What becomes of files."""
        return [Change(self.name(key), encode_fate(fate)) for key, fate in fates.items()]

    def passing(self, passing: Passing) -> list[Change]:
        """What becomes of jobs; one whose end was asked for is noted with that."""
        begun = [Change(self._keys.running_job(job_id), self._noted(job_id)) for job_id in sorted(passing.begun)]
        for job_id in passing.over:
            self._asked.pop(job_id, None)
        return [*begun, *(Change(self._keys.running_job(job_id), None) for job_id in sorted(passing.over))]

    def asked(self, job_id: JobId, ask: str, by: str) -> Change:
        """That the end of a job was asked for, as in `RunningJob`."""
        self._asked[job_id] = attrs.evolve(self._own, ask=ask, by=by)
        return Change(self._keys.running_job(job_id), self._noted(job_id))

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
