"""The wait histories of jobs: luxid's additions, and reading for clients.

Never raises: a history that cannot be written or read is only missed.

Source: common/queue/files/waitfile.py; DESIGN section 6, "Explain".
"""

from collections.abc import Iterable
from itertools import groupby, islice
from typing import Final

from common.ids import JobId
from common.paths import Paths
from common.queue.files.waitfile import append_spans, read_spans
from common.queue.waithistory import Span
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Waited

# number of jobs written at once
_BATCH: Final = 1000
_log: Final = get_log(__name__)


class WaitFiles:
    """Writes and reads the files with the waits of jobs."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def write(self, waited: Iterable[Waited]) -> None:
        """Append these spans; one write for jobs that share a file."""
        left = iter(waited)
        while batch := list(islice(left, _BATCH)):
            batch.sort(key=lambda each: each.job_id)
            for path, jobs in groupby(batch, lambda each: self._paths.waits_file(each.job_id)):
                spans = [(each.job_id, span) for each in jobs for span in each.spans]
                try:
                    append_spans(path, spans)
                except (OSError, TypeError) as error:
                    _log.warning("waits.not_written", file=path, reason=error, effect="the history lacks these waits")

    def read(self, job_id: JobId) -> list[Span]:
        """Return the written spans of a job, live or archived."""
        path = self._paths.waits_file(job_id)
        try:
            return read_spans(path, job_id)
        except OSError as error:
            _log.warning("waits.unreadable", file=path, reason=error)
            return []
