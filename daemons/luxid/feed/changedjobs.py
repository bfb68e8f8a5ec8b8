"""Rows of changed jobs, each made once for all subscribers who want the same of it.

Source: DESIGN section 6.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import attrs

from common.asciijson import ascii_json
from common.ids import JobId
from common.queue.jobs import LogEntry
from common.system.log import get_log
from daemons.luxid.core.query.jobfields import Field, JobView, newer_entries, row_of, select_fields
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.jobs.jobviews import JobViews

_NULL: Final = b"null"
_log: Final = get_log(__name__)


@attrs.frozen(eq=False)
class Wish:
    """What a subscriber wants to know of a job, and may."""

    viewer: Viewer
    names: tuple[str, ...]
    fields: Sequence[Field]

    @classmethod
    def of(cls, viewer: Viewer, names: tuple[str, ...]) -> "Wish":
        """Raises: PrerequisiteError: names all fields that are unknown."""
        return cls(viewer, names, select_fields(names))

    @property
    def kind(self) -> Hashable:
        """Equal for subscribers who get the same rows."""
        return (None if self.viewer.sees_all else self.viewer.uid, self.names)


class ChangedJob:
    """The present state of a job.

    Args: view: None: the job is archived, or there is none.
    """

    def __init__(self, job_id: JobId, view: JobView | None) -> None:
        self.job_id = job_id
        self._view = view
        self._values: dict[tuple[tuple[str, ...], bool], bytes] = {}

    def row(self, wish: Wish, entries: Iterable[LogEntry] = ()) -> bytes:
        """The row of a `JobNews`."""
        log = [[entry.serial, list(entry.at), entry.kind, entry.message] for entry in entries]
        return b"[%d,%b,%b]" % (self.job_id, self._values_for(wish), ascii_json(log) if log else b"[]")

    def entries(self, wish: Wish, after: int, fresh: Iterable[LogEntry]) -> list[LogEntry]:
        """The log entries after a serial.

        Args: fresh: newer ones that the job's file may not have yet.
        """
        if self._view is None or not wish.viewer.may_see(self._view.job):
            return []
        job = self._view.job
        known = [entry for op in job.ops for entry in newer_entries(op, after)]
        first = max(job.next_log_serial, after + 1)
        return [*known, *(entry for entry in fresh if entry.serial >= first)]

    def _values_for(self, wish: Wish) -> bytes:
        if self._view is None:
            return _NULL
        key = (wish.names, wish.viewer.may_see(self._view.job))
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = self._encoded(JobViews.seen_by(wish.viewer, self._view), wish)
        return values

    def _encoded(self, view: JobView, wish: Wish) -> bytes:
        try:
            return ascii_json(row_of(view, wish.fields))
        except (ValueError, TypeError, RecursionError) as error:
            # a file that another program wrote may hold what cannot be sent; the query says the same
            _log.warning("feed.job_not_told", job=self.job_id, reason=error, effect="only that it has changed")
            return _NULL
