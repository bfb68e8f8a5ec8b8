"""Waiting for a job: the body of the request, and the reply.

Source: rapi.md 6.3.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.ids import JobId
from daemons.rapid.ganeti.core.bodies import member, object_of
from protocol.luxi.changes import JobChange, WaitForJobChange

# seconds
LONGEST_WAIT_S: Final = 10.0
_LOG: Final = "oplog"


@attrs.frozen
class Wait:
    """What a client asks to be told of a job."""

    job_id: JobId
    fields: tuple[str, ...]
    previous: list[object] | None
    previous_serial: int | None

    def call(self) -> WaitForJobChange:
        return WaitForJobChange(self.job_id, self.fields, self.previous, self.previous_serial, LONGEST_WAIT_S)

    @property
    def archived_fields(self) -> tuple[str, ...]:
        """What to query of a job that does not change any more."""
        return (*self.fields, "status", _LOG)

    def reply_of_archived(self, row: Sequence[object]) -> dict[str, object] | None:
        """The reply for a row of `archived_fields`; None: there is no such job."""
        *values, status, log = row
        if status is None:
            return None
        after = self.previous_serial or 0
        entries = [entry for op in log if op for entry in op if entry[0] > after] if isinstance(log, list) else []
        return {"job_info": values, "log_entries": entries}


def wait_of(job_id: JobId, body: object) -> Wait:
    """Raises: InvalidRequest: there is no body, or it is malformed."""
    given = object_of(body)
    fields = member(given, "fields", list, None)
    if fields is None or not all(isinstance(field, str) for field in fields):
        raise InvalidRequest("'fields' in the body must be a list of strings: the fields to wait for")
    previous = member(given, "previous_job_info", list, None)
    return Wait(job_id, tuple(map(str, fields)), previous, member(given, "previous_log_serial", int, None))


def reply_of(change: JobChange) -> dict[str, object]:
    return {"job_info": change.values, "log_entries": change.entries}
