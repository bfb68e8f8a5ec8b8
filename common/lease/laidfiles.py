"""Whether the files of this node are those that etcd has.

Source: DESIGN section 14; common/lease/changes.py.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

from common.ids import JobId
from common.lease.changes import ArchivedFile, CommittedEntry, RemovedFile, WrittenFile, decode_fate
from common.lease.records import EtcdKeys, RunningJob, decode
from common.paths import Paths

_JOB: Final = re.compile(r"queue/job-(\d+)")


def files_behind(paths: Paths, keys: EtcdKeys, entries: Mapping[str, CommittedEntry], node: str) -> Sequence[str]:
    """Return the names of files that are otherwise than in etcd, below the folder of data.

    A job that a process of this node may have written since is not meant.

    Args: entries: all of the cluster. node: this one.
    Raises: DamagedFile: a value is not ours. OSError.
    """
    behind = []
    for key, entry in entries.items():
        name = key.removeprefix(keys.dirty)
        if name != key and not _is_so(paths, key, name, entry.value) and not _may_be_later(keys, entries, name, node):
            behind.append(name)
    return behind


def _is_so(paths: Paths, key: str, name: str, value: bytes) -> bool:
    path, archived = paths.data / name, _archived(paths, name)
    fate = decode_fate(key, value)
    match fate:
        case WrittenFile(content):
            return _read(path) == content
        case RemovedFile():
            return not path.exists() and not (archived is not None and archived.exists())
        case ArchivedFile():
            return archived is not None and archived.exists() and not path.exists()
        case _:
            assert_never(fate)


def _archived(paths: Paths, name: str) -> Path | None:
    found = _JOB.fullmatch(name)
    return paths.archived_job_file(JobId(int(found.group(1)))) if found else None


def _may_be_later(keys: EtcdKeys, entries: Mapping[str, CommittedEntry], name: str, node: str) -> bool:
    found = _JOB.fullmatch(name)
    running = entries.get(keys.running_job(JobId(int(found.group(1))))) if found else None
    return running is not None and decode(running.value, RunningJob, name).node == node


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
