"""Long polls: wait until a job changes, or until it has come to a state.

Source: luxid.md 8.
"""

from collections.abc import Sequence
from typing import Final

import orjson
import trio

from common.errors import InvalidRequest, JobLost, RemoteError
from common.ids import JobId
from common.jsonreading import read_json
from common.queue.jobs import FINAL_NAMES, JobState
from daemons.rapid.calls import Asked, Daemons, Parameter
from daemons.rapid.resources.joblists import FIELDS, fetch_job, known_fields
from daemons.rapid.resources.parameters import job_id_of, seconds, seconds_of, text_of, whole, whole_of, words_of
from protocol.luxi.changes import WaitForJobChange
from protocol.rapid.jobs import LIST_FIELDS
from protocol.rapid.jobvalues import job_object, log_line, luxi_row

LONGEST_WAIT_S: Final = 600.0
# luxid's maximum for one call is 89
_ONE_CALL_S: Final = 80.0
# no log line has it: none is wanted
_NO_LOG: Final = 2**62
_STATES: Final = tuple(state.value for state in JobState)

TIMEOUT: Final = seconds(
    "timeout", "seconds to wait at most; without `until` never more than 80", default=60, high=LONGEST_WAIT_S
)
UNTIL: Final = Parameter(
    "until", f"states with commas between, of {', '.join(_STATES)}, or `final`: wait until the job is in one of them"
)
PREVIOUS: Final = Parameter(
    "previous", "JSON object of the job as the caller knows it: wait until a field differs; without: reply at once"
)
SERIAL: Final = whole("serial", "serial of the last log line that the caller has: later ones end the wait, too")


class JobWaits:
    """The call that waits for one job."""

    async def wait_for_job(self, asked: Asked) -> object:
        """Raises: JobLost: there is no such job. InvalidRequest: a parameter is wrong."""
        job_id, fields = job_id_of(asked), known_fields(words_of(asked, FIELDS) or LIST_FIELDS)
        timeout_s, until = seconds_of(asked, TIMEOUT), _states(words_of(asked, UNTIL))
        if until:
            await _wait_until(asked.daemons, job_id, until, trio.current_time() + timeout_s)
            return await _state(asked.daemons, job_id, fields)
        previous, serial = _previous(text_of(asked, PREVIOUS), fields), whole_of(asked, SERIAL)
        call = WaitForJobChange(job_id, fields, previous, serial, min(timeout_s, _ONE_CALL_S))
        try:
            change = await asked.daemons.luxid(call)
        except RemoteError as error:
            if error.code != JobLost.code:
                raise
            # it may be archived: then nothing changes any more
            return await _state(asked.daemons, job_id, fields)
        job = {"id": job_id, **job_object(fields, change.values)}
        return {"job": job, "log": [log_line(entry) for entry in change.entries]}


async def _wait_until(daemons: Daemons, job_id: JobId, wanted: frozenset[str], deadline: float) -> None:
    """Wait until the job is in a wanted state, or has ended, or the time is over."""
    status = await _status(daemons, job_id)
    while status not in wanted and status not in FINAL_NAMES and (left_s := deadline - trio.current_time()) > 0:
        call = WaitForJobChange(job_id, ("status",), [status], _NO_LOG, min(left_s, _ONE_CALL_S))
        try:
            change = await daemons.luxid(call)
        except RemoteError as error:
            if error.code != JobLost.code:
                raise
            # it was archived just now: its file says how it ended
            status = await _status(daemons, job_id)
        else:
            (status,) = change.values


async def _status(daemons: Daemons, job_id: JobId) -> object:
    return (await fetch_job(daemons, job_id, ("status",)))["status"]


async def _state(daemons: Daemons, job_id: JobId, fields: Sequence[str]) -> object:
    return {"job": await fetch_job(daemons, job_id, fields), "log": []}


def _states(words: Sequence[str] | None) -> frozenset[str]:
    """Raises: InvalidRequest: a word is not a state."""
    for word in words or ():
        if word not in (*_STATES, "final"):
            raise InvalidRequest(f"parameter 'until' must be of {', '.join(_STATES)}, final; got {word!r:.60}")
    return frozenset(state for word in words or () for state in (FINAL_NAMES if word == "final" else (word,)))


def _previous(text: str | None, fields: Sequence[str]) -> object:
    """The known values as LUXI has them; null: the caller knows none."""
    if text is None:
        return None
    try:
        known = read_json(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"parameter 'previous' is not JSON: {error}") from None
    if not isinstance(known, dict):
        raise InvalidRequest(f"parameter 'previous' must be a JSON object of fields, got {text!r:.60}")
    return luxi_row(fields, known)
