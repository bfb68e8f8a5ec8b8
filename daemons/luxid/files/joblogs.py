"""Log lines of running jobs that the job files do not have yet.

No lines are kept in memory, only, for each job, the serials and offsets of earlier reads: so a reader that knows
the log up to some line continues near there, however long the log is.

Source: common/queue/files/joblog.py; luxid.md 8.
"""

import bisect
import contextlib
import os
from typing import Final

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.files.joblog import add_lines, read_all_lines, read_lines
from common.queue.jobs import Job, LogEntry
from common.system.log import get_log

_log: Final = get_log(__name__)


class JobLogs:
    """Reads the lines that job processes append."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # job -> (serial, offset), ascending: the lines after this serial begin at this offset
        self._marks: dict[JobId, list[tuple[int, int]]] = {}

    def newer(self, job: Job, serial: float) -> list[LogEntry]:
        """Return the lines after `serial` that the given job does not have, oldest first; the first mebibyte of them.

        Never raises: an unreadable file counts as empty.
        """
        serial = max(serial, job.next_log_serial - 1)
        marks = self._marks.get(job.job_id, [(0, 0)])
        offset = marks[bisect.bisect_right(marks, serial, key=lambda mark: mark[0]) - 1][1]
        path = self._paths.job_log(job.job_id)
        while True:
            try:
                lines, after = read_lines(path, offset)
            except OSError as error:
                _log.warning("joblog.unreadable", job=job.job_id, reason=error)
                return []
            if after == offset:
                return []
            if lines and lines[-1][1].serial > marks[-1][0]:
                self._marks.setdefault(job.job_id, marks).append((lines[-1][1].serial, after))
            if found := [entry for _, entry in lines if entry.serial > serial]:
                return found
            offset = after

    def add_all(self, job: Job) -> Job:
        """Return the job with all its lines. Raises: Unavailable: they cannot be read at the moment."""
        path = self._paths.job_log(job.job_id)
        try:
            return add_lines(job, read_all_lines(path))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"'{path}' cannot be read: {reason}") from error

    def complete(self, job: Job) -> Job:
        """Return the job with all lines that can be read. Never raises."""
        try:
            return self.add_all(job)
        except Unavailable as error:
            _log.warning("joblog.unreadable", job=job.job_id, reason=error)
            return job

    def forget(self, job_id: JobId) -> None:
        """Remove the log, because the job's file has all its lines."""
        self._marks.pop(job_id, None)
        with contextlib.suppress(OSError):
            os.unlink(self._paths.job_log(job_id))
