"""The stream of events: its row, and what one reader is sent."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import orjson
from starlette.responses import Response

from common.access import Role
from common.errors import GantryError, InvalidRequest
from common.ids import JobId, read_number
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, CallParameter, EventTypes
from daemons.rapid.events.hub import BEGIN, FIELDS, STATE, Hub, LoggedEvent, StreamPosition, joined
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.joblists import fetch_jobs
from daemons.rapid.resources.parameters import strict, text_of, words_of
from daemons.rapid.streams import EVENT_HEADERS, PING, ByteStream, server_sent
from protocol.rapid.events import (
    PING_S,
    Begin,
    DaemonsState,
    FiltersChanged,
    JobsChanged,
    LocksChanged,
    QueueChanged,
    ReasonsChanged,
    Topic,
)
from protocol.rapid.jobs import PAGE_MOST

# The stream of one reader: its beginning, then what it wants of the log, as server-sent events.
#
# Theory. A reader that comes back with the id of an event gets what came after it. While it lacks a part of its
# beginning, nothing after that event would bring it the rest: so until then its events have an id with which it begins
# anew. The jobs that it names are the last part; when luxid does not tell them, it is asked again.
#
# Source: HTML standard, "Server-sent events".


# the jobs of these ids as they are now, each as JSON; raises GantryError
FetchJobs = Callable[[Sequence[JobId]], Awaitable[Sequence[object]]]
# id of the events of a beginning that is not complete: no run of rapid has this name
INCOMPLETE: Final = StreamPosition("0", 0)
# seconds after which jobs that could not be read are asked for again
_RETRY_S: Final = 2.0


@attrs.frozen
class StreamRequest:
    """What a reader wants to hear of."""

    topics: frozenset[Topic]
    # jobs; None: all
    ids: frozenset[JobId] | None = None

    @property
    def names_jobs(self) -> bool:
        """Whether the reader is told of some jobs at the beginning."""
        return bool(self.ids) and Topic.JOBS in self.topics


async def event_stream(
    hub: Hub, wish: StreamRequest, place: StreamPosition | None, fetch: FetchJobs
) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream; it ends when its reader is so slow that it has missed something.

    Args:
        place: the last event that the reader has; None: it has none.
    """
    with hub.following():
        await hub.ready()
        missed = hub.after(place) if place is not None else None
        serial = hub.log.last if place is None or missed is None else place.serial
        # whether the reader still has to be told of the jobs that it names
        lacks_jobs = missed is None and wish.names_jobs
        yield _beginning(hub, wish, INCOMPLETE if lacks_jobs else hub.place(serial), is_resumed=missed is not None)
        while True:
            if lacks_jobs and (jobs := await _jobs(wish, fetch)) is not None:
                lacks_jobs = False
                yield server_sent(hub.place(serial).text(), Topic.JOBS.value, jobs)
            events = hub.log.after(serial)
            if events is None:
                return
            if events:
                serial = events[-1].serial
                lacks_jobs |= wish.names_jobs and any(event.name == BEGIN for event in events)
                if told := _told(hub, wish, events, is_complete=not lacks_jobs):
                    yield told
            elif not await hub.wait(serial, _RETRY_S if lacks_jobs else PING_S):
                yield PING


def _beginning(hub: Hub, wish: StreamRequest, place: StreamPosition, *, is_resumed: bool) -> bytes:
    """Args: place: id of the last one of its events."""
    first = hub.knowledge.beginning(sorted(wish.topics, key=lambda topic: topic.value), is_resumed=is_resumed)
    *before, (name, value) = first
    parts = [server_sent(INCOMPLETE.text(), each, orjson.dumps(told)) for each, told in before]
    return b"".join((*parts, server_sent(place.text(), name, orjson.dumps(value))))


def _told(hub: Hub, wish: StreamRequest, events: Sequence[LoggedEvent], *, is_complete: bool) -> bytes:
    pairs = ((event, event.data_for(wish.topics, wish.ids)) for event in events)
    return b"".join(
        server_sent((hub.place(event.serial) if is_complete else INCOMPLETE).text(), event.name, data)
        for event, data in pairs
        if data is not None
    )


async def _jobs(wish: StreamRequest, fetch: FetchJobs) -> bytes | None:
    """The named jobs as they are now; changes that came before may follow once more. None: luxid does not tell them."""
    try:
        jobs = await fetch(sorted(wish.ids or ()))
    except GantryError:
        return None
    return joined(orjson.dumps(job) for job in jobs)


# The row of the stream of events.
#
# Source: DESIGN section 15.


_RIGHT_OF: Final = {
    Topic.JOBS: Right.JOBS_READ,
    Topic.REASONS: Right.JOBS_READ,
    Topic.LOCKS: Right.LOCKS_READ,
    Topic.FILTERS: Right.FILTERS_READ,
    Topic.QUEUE: Right.JOBS_READ,
}

_ABOUT: Final = """The data of each event is JSON of the type named here.

`begin` (Begin): the first event, and again if changes were lost; if `resumed` is false, read what you show anew.

`state` (DaemonsState): a daemon is away, or is back.

`jobs` (JobsChanged): jobs that have changed, as they are now; with `ids`, first all of these.

`reasons` (ReasonsChanged): the reasons why jobs wait may have changed.

`locks` (LocksChanged), `filters` (FiltersChanged), `queue` (QueueChanged): first as they are, then after each change.

A comment comes after 15 s of silence. Come back with `Last-Event-ID` to go on after that event."""

TOPICS: Final = CallParameter(
    "topics", f"topics with commas between, of {', '.join(topic.value for topic in Topic)}; without: all you may see"
)
IDS: Final = CallParameter("ids", f"jobs with commas between, at most {PAGE_MOST}; without: all")
LAST: Final = CallParameter(
    "Last-Event-ID", "id of the last event that the client has: it gets what came since", place="header"
)


_TYPES: Final[Mapping[str, type]] = {
    BEGIN: Begin,
    STATE: DaemonsState,
    Topic.JOBS.value: JobsChanged,
    Topic.REASONS.value: ReasonsChanged,
    Topic.LOCKS.value: LocksChanged,
    Topic.FILTERS.value: FiltersChanged,
    Topic.QUEUE.value: QueueChanged,
}


async def stream_events(hub: Hub, asked: Asked) -> Response:
    """Raises: InvalidRequest: a parameter is wrong. RequestRefused: 403, a topic may not be seen."""
    wish = StreamRequest(_topics(asked), _ids(asked))
    last = text_of(asked, LAST)
    place = StreamPosition.read(last) if last else None

    async def fetch(job_ids: Sequence[JobId]) -> Sequence[object]:
        return await fetch_jobs(asked.daemons, job_ids, FIELDS)

    return ByteStream(event_stream(hub, wish, place, fetch), EVENT_HEADERS)


def rows(hub: Hub) -> Sequence[Call]:
    """The row."""
    return [
        strict(
            Call(
                "GET",
                "/3/events",
                partial(stream_events, hub),
                "Tell of changes as they happen, as server-sent events.",
                name="streamEvents",
                rights=tuple(dict.fromkeys(_RIGHT_OF.values())),
                gives=str,
                media_type="text/event-stream",
                parameters=(TOPICS, IDS, LAST),
                tag="events",
                description=_ABOUT,
                events=EventTypes("ClusterEvent", _TYPES),
                only_waits=True,
            )
        )
    ]


def _topics(asked: Asked) -> frozenset[Topic]:
    words = words_of(asked, TOPICS)
    if words is None:
        return frozenset(topic for topic in Topic if _may_see(asked, topic))
    known = {topic.value: topic for topic in Topic}
    for word in words:
        if word not in known:
            raise InvalidRequest(f"there is no topic {word!r:.60}; there are {', '.join(known)}")
        if not _may_see(asked, known[word]):
            raise RequestRefused(403, f"the topic {word!r} needs the right '{_RIGHT_OF[known[word]].value}'")
    return frozenset(known[word] for word in words)


def _may_see(asked: Asked, topic: Topic) -> bool:
    rights = asked.caller.rights
    if rights.role_for(_RIGHT_OF.values()) is Role.NONE:
        # he is here only where everybody may read
        return True
    return rights.role_for((_RIGHT_OF[topic],)) > Role.NONE


def _ids(asked: Asked) -> frozenset[JobId] | None:
    words = words_of(asked, IDS)
    if words is None:
        return None
    if len(words) > PAGE_MOST:
        raise InvalidRequest(f"parameter 'ids' must have at most {PAGE_MOST} jobs, got {len(words)}")
    return frozenset(map(_id, words))


def _id(word: str) -> JobId:
    if (number := read_number(word)) is None:
        raise InvalidRequest(f"parameter 'ids' must be whole numbers with commas between, got {word!r:.60}")
    return JobId(number)
