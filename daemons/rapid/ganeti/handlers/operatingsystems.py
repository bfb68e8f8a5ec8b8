"""The operating systems that can be installed: found out by a job.

Source: rapi.md 6.11.
"""

from collections.abc import Sequence
from typing import Final

import trio

from common.errors import GantryError
from common.ids import JobId
from common.opcodes.query import OpOsDiagnose
from common.system.log import get_log
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core import fieldlists
from daemons.rapid.ganeti.core.osnames import names_of, objects_of
from daemons.rapid.ganeti.handlers.asking import arguments_of
from daemons.rapid.refusals import Refused
from protocol.luxi.changes import WaitForJobChange
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryJobs
from protocol.luxi.submission import SubmitJob

_FINAL: Final = ("success", "error", "canceled")
# seconds of one wait, and for the message to luxid that nobody wants the list any more
_WAIT_S: Final = 60.0
_FAREWELL_S: Final = 5.0
_log: Final = get_log(__name__)


class OperatingSystems:
    async def list_systems(self, asked: Asked) -> object:
        """The names, or with `bulk` all about each.

        Raises: Refused: the job failed.
        Cancellation: the job is canceled, too.
        """
        is_bulk = arguments_of(asked).flag("bulk")
        fields = fieldlists.OS if is_bulk else fieldlists.OS_NAMES
        rows = await _result(asked, fields)
        return objects_of(fields, rows) if is_bulk else names_of(rows)


async def _result(asked: Asked, fields: Sequence[str]) -> list[list[object]]:
    op = {"OP_ID": OpOsDiagnose.OP_ID, "output_fields": list(fields), "names": []}
    job_id = await asked.daemons.luxid(SubmitJob((op,)))
    try:
        await _wait(asked, job_id)
    except trio.Cancelled:
        await _cancel(asked, job_id)
        raise
    [(status, results)] = await asked.daemons.luxid(QueryJobs((job_id,), ("status", "opresult")))
    result = results[0] if isinstance(results, list) and results else None
    if status != "success" or not isinstance(result, list):
        raise Refused(502, f"job {job_id} is to find the operating systems, and ended as {status}: {result!r:.500}")
    return result


async def _wait(asked: Asked, job_id: JobId) -> None:
    """Wait until the job has ended."""
    status, serial = None, 0
    while status not in _FINAL:
        change = await asked.daemons.luxid(WaitForJobChange(job_id, ("status",), [status], serial, _WAIT_S))
        status = change.values[0]
        serial = max([serial, *(entry.serial for entry in change.entries)])


async def _cancel(asked: Asked, job_id: JobId) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _FAREWELL_S):
        try:
            await asked.daemons.luxid(CancelJob(job_id))
        except GantryError as error:
            _log.warning("job.not_canceled", job=job_id, reason=error.message, effect="it runs to its end")
