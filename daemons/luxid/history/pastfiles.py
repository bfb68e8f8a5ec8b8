"""Ended jobs on disk, as rows of the history; all functions are for threads.

They give way to the event loop after every few files: they need the interpreter, and it is the more urgent.
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from common.errors import DamagedFile
from common.ids import JobId
from common.paths import Paths
from common.places.queuepaths import ARCHIVE_FOLDER_JOBS
from common.queue.files.jobfile import decode_job
from common.queue.files.waitfile import read_spans
from common.queue.jobs import Job
from common.system.log import get_log
from daemons.luxid.core.past.endedrow import PastRow, Texts, freed_at, past_row, was_kept
from daemons.luxid.core.past.places import Place
from daemons.luxid.history.pasttexts import texts_of_queue

# files, or jobs, between two turns of the event loop: less than a millisecond
_AT_ONCE: Final = 5
_PREFIX: Final = "job-"
_log: Final = get_log(__name__)


class Noted(Protocol):
    """The index, as far as it is compared."""

    def folders(self, size: int) -> list[int]: ...

    def places(self, job_ids: range) -> Mapping[JobId, Place]: ...


@attrs.frozen
class Differences:
    """What the index lacks."""

    # jobs without a row, the newest last
    missing: Sequence[JobId]
    # jobs that lie elsewhere than their rows say
    moved: Mapping[Place, Sequence[JobId]]


def differences(paths: Paths, live: Collection[JobId], ended: Iterable[JobId], noted: Noted) -> Differences:
    """Compare the index with the files, one folder of the archive after the other: all at once would be much memory.

    Args:
        live: all jobs that are not archived.
        ended: those of them that have ended.
    Raises: OSError: a folder cannot be listed. DamagedIndex, sqlite3.Error.
    """
    ended_of: dict[int, list[JobId]] = {}
    for job_id in ended:
        ended_of.setdefault(job_id // ARCHIVE_FOLDER_JOBS, []).append(job_id)
    folders = {int(name) for name in os.listdir(paths.archive) if name.isascii() and name.isdigit()}
    missing: list[JobId] = []
    moved: dict[Place, list[JobId]] = {place: [] for place in Place}
    for folder in sorted({*folders, *ended_of, *noted.folders(ARCHIVE_FOLDER_JOBS)}):
        there = dict.fromkeys(_jobs_in(paths.archive / str(folder)) if folder in folders else (), Place.ARCHIVED)
        # in this order: one that is archived meanwhile is reported as such
        there.update(dict.fromkeys(ended_of.get(folder, ()), Place.LIVE))
        first = folder * ARCHIVE_FOLDER_JOBS
        known = noted.places(range(first, first + ARCHIVE_FOLDER_JOBS))
        missing += sorted(there.keys() - known.keys())
        for job_id, place in known.items():
            now = there.get(job_id, Place.REMOVED)
            if now is not place and not (now is Place.REMOVED and job_id in live):
                moved[now].append(job_id)
        time.sleep(0)
    return Differences(missing, moved)


def rows_of(paths: Paths, jobs: Sequence[Job]) -> list[tuple[PastRow, Place]]:
    """The rows of jobs that have just ended."""
    found, texts = [], texts_of_queue()
    for number, job in enumerate(jobs):
        found.append((_row(paths, job, texts), Place.LIVE))
        _give_way(number)
    return found


def read_rows(paths: Paths, job_ids: Sequence[JobId], texts: Texts) -> list[tuple[PastRow, Place]]:
    """The rows of ended jobs whose files can be read. Raises: OSError: one cannot be read now."""
    found = []
    for number, job_id in enumerate(job_ids):
        if (read := _read(paths, job_id)) is not None:
            found.append((_row(paths, read[0], texts), read[1]))
        _give_way(number)
    return found


def _row(paths: Paths, job: Job, texts: Texts) -> PastRow:
    if not was_kept(job):
        return past_row(job, texts)
    try:
        spans = read_spans(paths.waits_file(job.job_id), job.job_id)
    except OSError as error:
        _log.warning(
            "waits.unreadable", job=job.job_id, reason=error, effect="the history counts its wait from its receipt"
        )
        return past_row(job, texts)
    return past_row(job, texts, freed_at(job, spans))


def _read(paths: Paths, job_id: JobId) -> tuple[Job, Place] | None:
    # in this order: a job is moved from the one to the other, and never back
    for path, place in ((paths.job_file(job_id), Place.LIVE), (paths.archived_job_file(job_id), Place.ARCHIVED)):
        try:
            job = decode_job(path.read_bytes(), str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (DamagedFile, IsADirectoryError) as error:
            _log.warning("job.damaged", job=job_id, file=path, reason=error, effect="the history lacks it")
            return None
        return (job, place) if job.next_index is None else None
    return None


def _jobs_in(folder: Path) -> Iterable[JobId]:
    for name in os.listdir(folder):
        number = name.removeprefix(_PREFIX)
        if number is not name and number.isascii() and number.isdigit():
            yield JobId(int(number))


def _give_way(number: int) -> None:
    if number % _AT_ONCE == _AT_ONCE - 1:
        # lets the interpreter's lock go to who waits for it
        time.sleep(0)
