"""Follow jobs, their log and their output over one connection: luxid's feed, passed on in the caller's name.

Source: DESIGN section 15; `protocol.luxi.feed`.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import attrs
import orjson
import trio
from starlette.responses import Response

from common.errors import InvalidRequest, JobLost, RemoteError
from common.ids import JobId
from common.jsontext import read_json
from common.queue.jobs import FINAL_NAMES, JobState
from common.webaccess.rights import Right
from common.wire import unstructure
from daemons.rapid.calls import Asked, Call, CallParameter, Daemons, EventTypes
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.joblists import FIELDS, fetch_job, known_fields
from daemons.rapid.resources.parameters import (
    choice,
    choice_of,
    flag,
    flag_of,
    job_id_of,
    seconds,
    seconds_of,
    text_of,
    whole,
    whole_of,
    words_of,
)
from daemons.rapid.streams import EVENT_HEADERS, ByteStream, RelayedFeed, server_sent
from protocol.client import Client
from protocol.envelope import read_reply
from protocol.luxi.feed import CHANGES, FeedBegin, FeedChanges, FeedTopic, Subscribe
from protocol.luxi.jobs import JobOutput, OutputStream, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.luxi.queries import WaitForJobChange
from protocol.messages import structure_reply
from protocol.rapid.events import FollowWish
from protocol.rapid.jobs import LIST_FIELDS, PAGE_MOST, JobChange, job_object, log_line, luxi_row


async def follow_jobs(asked: Asked) -> Response:
    """Raises: InvalidRequest: no jobs, or too many. JobLost: there is no such job. Else as luxid's `Subscribe`."""
    wish = asked.body_as(FollowWish)
    if not 0 < len(wish.ids) <= PAGE_MOST:
        raise InvalidRequest(f"ids: 1 to {PAGE_MOST} at once, got {len(wish.ids)}")
    topics = (FeedTopic.JOBS, FeedTopic.REASONS) if wish.reasons else (FeedTopic.JOBS,)
    outputs = wish.outputs or None
    feed, reply = await asked.daemons.feed(
        Subscribe(topics, wish.ids, wish.fields, wish.since, log_after=wish.log_after, outputs=outputs)
    )
    begun = structure_reply(Subscribe, read_reply(reply))
    return RelayedFeed(feed, _read, EVENT_HEADERS, first=_event(begun.position, "begin", unstructure(begun)))


async def _read(feed: Client) -> bytes | None:
    method, params = await feed.event()
    return _event(str(params[0]), CHANGES, params) if method == CHANGES else None


def _event(position: str, name: str, value: object) -> bytes:
    return server_sent(position, name, orjson.dumps(value))


# The output of a job's commands: its bytes, or what comes, until the job ends.
#
# Source: DESIGN section 15; RFC 9110, sections 14 and 15.3.7.


# bytes of a range that are sent at once; a client asks for the rest
RANGE_MOST: Final = 4 * 2**20
# seconds that one call waits for more
_WAIT_S: Final = 60.0

STREAM: Final = choice(
    "stream", "`error`: standard error, if the command kept it apart", [each.value for each in OutputStream], "output"
)
FOLLOW: Final = flag("follow", "whether to go on with what comes, until the job ends")
OFFSET: Final = whole("offset", "byte at which to begin", default=0)
OUTPUT_END: Final = whole("end", "byte before which to end; without: the end of the output")
OUTPUT_TIMEOUT: Final = seconds("timeout", "seconds to wait for output, if there is none", default=0, high=80)
TRY: Final = whole("try", "number of a try, from 1, of which alone the output is wanted", low=1)
RANGE: Final = CallParameter(
    "Range", f"`bytes=0-99`, `bytes=100-` or `bytes=-100`; at most {RANGE_MOST} bytes come", place="header"
)

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))")


@attrs.frozen
class _OutputReader:
    """One stream of a job's output, by bytes."""

    daemons: Daemons
    job_id: JobId
    stream: OutputStream
    # None: all tries
    of_try: int | None

    async def piece(self, offset: int, timeout_s: float) -> JobOutput:
        call = ReadJobOutput(self.job_id, offset, timeout_s, self.stream, as_bytes=True, of_try=self.of_try)
        return await self.daemons.luxid(call)

    async def bytes_from(self, offset: int, *, follows: bool) -> AsyncGenerator[tuple[int, bytes], None]:
        """Pairs of offset and bytes, as far as there are any now, or until the job ends."""
        while True:
            piece = await self.piece(offset, _WAIT_S if follows else 0.0)
            content = piece.text.encode("latin-1")
            if content:
                yield piece.next_offset - len(content), content
            if piece.is_end or not (content or follows):
                return
            offset = piece.next_offset


async def get_job_output_piece(asked: Asked) -> JobOutput:
    """As LUXI has it: a text, and where the next one begins."""
    job_id, stream = job_id_of(asked), OutputStream(choice_of(asked, STREAM))
    offset, timeout_s = whole_of(asked, OFFSET) or 0, seconds_of(asked, OUTPUT_TIMEOUT)
    return await asked.daemons.luxid(ReadJobOutput(job_id, offset, timeout_s, stream, of_try=whole_of(asked, TRY)))


async def get_job_output_times(asked: Asked) -> OutputTimes:
    """When which bytes came. Raises: JobLost, Denied."""
    offset, end = whole_of(asked, OFFSET) or 0, whole_of(asked, OUTPUT_END)
    stream = OutputStream(choice_of(asked, STREAM))
    return await asked.daemons.luxid(ReadOutputTimes(job_id_of(asked), offset, end, stream))


async def get_job_output(asked: Asked) -> Response:
    """Raises: JobLost, Denied; RequestRefused: the range lies beyond the end, or cannot be read."""
    stream, of_try = OutputStream(choice_of(asked, STREAM)), whole_of(asked, TRY)
    reader = _OutputReader(asked.daemons, job_id_of(asked), stream, of_try)
    offset, wanted = whole_of(asked, OFFSET) or 0, _wanted(text_of(asked, RANGE))
    follows = flag_of(asked, FOLLOW)
    # ranges are of the whole output
    if wanted is not None and not follows and not offset and of_try is None:
        return await _part(reader, wanted)
    # the first piece is read here: what is wrong with the job is an error with its own status
    first = await reader.piece(offset, 0.0)
    return ByteStream(_all(reader, first, follows=follows), _TEXT)


_TEXT: Final = {
    "content-type": "text/plain; charset=utf-8",
    "accept-ranges": "bytes",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


async def _all(reader: _OutputReader, first: JobOutput, *, follows: bool) -> AsyncGenerator[bytes, None]:
    yield first.text.encode("latin-1")
    if first.is_end:
        return
    async with aclosing(reader.bytes_from(first.next_offset, follows=follows)) as pieces:
        async for _, content in pieces:
            yield content


@attrs.frozen
class _Wanted:
    """A range: from one byte to another, or the last ones."""

    first: int = 0
    # last byte of the range; None: open
    last: int | None = None
    # number of bytes at the end; None: `first` counts
    suffix: int | None = None


def _wanted(text: str | None) -> _Wanted | None:
    """None: everything. A form that is unknown is ignored, as RFC 9110 demands."""
    found = _RANGE.fullmatch(text.replace(" ", "")) if text else None
    if found is None:
        return None
    if found[3] is not None:
        return _Wanted(suffix=int(found[3]))
    first, last = int(found[1]), int(found[2]) if found[2] is not None else None
    return None if last is not None and last < first else _Wanted(first, last)


async def _part(reader: _OutputReader, wanted: _Wanted) -> Response:
    """The wanted bytes, as far as they exist and are not too many."""
    if wanted.suffix is not None:
        start, content, end = await _last(reader, min(wanted.suffix, RANGE_MOST))
    else:
        most = RANGE_MOST if wanted.last is None else min(RANGE_MOST, wanted.last - wanted.first + 1)
        start, content, end = await _from(reader, wanted.first, most)
        if wanted.last is not None and start + len(content) > wanted.last + 1:
            # what was wanted is gone, at least its beginning
            content, end = content[: max(wanted.last + 1 - start, 0)], None
            if not content:
                raise RequestRefused(
                    416, f"the bytes before {start} of the output are not kept any more", code="invalid"
                )
    if not content:
        raise RequestRefused(416, f"the output has no bytes from {start} on", code="invalid")
    headers = {**_TEXT, "content-range": f"bytes {start}-{start + len(content) - 1}/{end if end is not None else '*'}"}
    return Response(content, 206, headers)


async def _from(reader: _OutputReader, first: int, most: int) -> tuple[int, bytes, int | None]:
    """Where the bytes begin (older output may be gone), the bytes, and the size of all if it was reached."""
    start, content = first, b""
    async with aclosing(reader.bytes_from(first, follows=False)) as pieces:
        async for at, piece in pieces:
            if not content:
                start = at
            content += piece
            if len(content) > most:
                return start, content[:most], None
    return start, content, start + len(content)


async def _last(reader: _OutputReader, count: int) -> tuple[int, bytes, int | None]:
    end, content = 0, b""
    async with aclosing(reader.bytes_from(0, follows=False)) as pieces:
        async for at, piece in pieces:
            end = at + len(piece)
            content = (content + piece)[-count:] if count else b""
    return end - len(content), content, end


# Long polls: wait until a job changes, or until it has come to a state.
#
# Source: luxid.md 8.


LONGEST_WAIT_S: Final = 600.0
# luxid's maximum for one call is 89
_ONE_CALL_S: Final = 80.0
# no log line has it: none is wanted
_NO_LOG: Final = 2**62
_STATES: Final = tuple(state.value for state in JobState)

WAIT_TIMEOUT: Final = seconds(
    "timeout", "seconds to wait at most; without `until` never more than 80", default=60, high=LONGEST_WAIT_S
)
UNTIL: Final = CallParameter(
    "until", f"states with commas between, of {', '.join(_STATES)}, or `final`: wait until the job is in one of them"
)
PREVIOUS: Final = CallParameter(
    "previous", "JSON object of the job as the caller knows it: wait until a field differs; without: reply at once"
)
SERIAL: Final = whole("serial", "serial of the last log line that the caller has: later ones end the wait, too")


async def wait_for_job(asked: Asked) -> object:
    """Raises: JobLost: there is no such job. InvalidRequest: a parameter is wrong."""
    job_id, fields = job_id_of(asked), known_fields(words_of(asked, FIELDS) or LIST_FIELDS)
    timeout_s, until = seconds_of(asked, WAIT_TIMEOUT), _states(words_of(asked, UNTIL))
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


def rows() -> Sequence[Call]:
    """The calls that wait for jobs, follow them, and read their output."""
    call = partial(Call, rights=(Right.JOBS_READ,), errors=(404,), only_waits=True)
    job, wait = partial(call, "GET", tag="jobs"), (FIELDS, UNTIL, PREVIOUS, SERIAL, WAIT_TIMEOUT)
    return [
        job(
            "/3/jobs/{id:int}/wait", wait_for_job, "Wait until a job changes or ends.", gives=JobChange, parameters=wait
        ),
        job(
            "/3/jobs/{id:int}/output",
            get_job_output,
            "Read the output of a job's commands.",
            gives=str,
            media_type="text/plain",
            also=(206,),
            errors=(404, 416),
            parameters=(STREAM, OFFSET, FOLLOW, TRY, RANGE),
        ),
        job(
            "/3/jobs/{id:int}/output/piece",
            get_job_output_piece,
            "Read a piece of the output, or wait for one.",
            gives=JobOutput,
            parameters=(STREAM, OFFSET, TRY, OUTPUT_TIMEOUT),
        ),
        job(
            "/3/jobs/{id:int}/output/times",
            get_job_output_times,
            "Say when which bytes of the output came, to a quarter of a second.",
            gives=OutputTimes,
            only_waits=False,
            parameters=(STREAM, OFFSET, OUTPUT_END),
        ),
        call(
            "POST",
            "/3/jobs/follow",
            follow_jobs,
            "Follow jobs, their log and output, as server-sent events in LUXI's form.",
            takes=FollowWish,
            gives=str,
            media_type="text/event-stream",
            events=EventTypes("FollowEvent", {"begin": FeedBegin, CHANGES: tuple[str, FeedChanges]}),
            tag="events",
        ),
    ]
