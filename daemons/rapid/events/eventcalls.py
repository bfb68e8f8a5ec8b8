"""The row of the stream of events.

Source: DESIGN section 15.
"""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from common.access import Role
from common.errors import InvalidRequest
from common.ids import JobId
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, Parameter
from daemons.rapid.events.eventlog import Place
from daemons.rapid.events.eventstreams import Wish, event_stream
from daemons.rapid.events.hub import Hub
from daemons.rapid.events.knowledge import FIELDS
from daemons.rapid.events.streams import ByteStream
from daemons.rapid.refusals import Refused
from daemons.rapid.resources.joblists import fetch_jobs
from daemons.rapid.resources.parameters import strict, text_of, words_of
from protocol.rapid.events import (
    Begin,
    DaemonsState,
    FiltersChanged,
    JobsChanged,
    LocksChanged,
    QueueChanged,
    Topic,
)
from protocol.rapid.jobs import PAGE_MOST

_RIGHT_OF: Final = {
    Topic.JOBS: Right.JOBS_READ,
    Topic.REASONS: Right.JOBS_READ,
    Topic.LOCKS: Right.LOCKS_READ,
    Topic.FILTERS: Right.FILTERS_READ,
    Topic.QUEUE: Right.JOBS_READ,
}
_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    # nginx would collect events otherwise
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}

_ABOUT: Final = """The data of each event is JSON of the type named here.

`begin` (Begin): the first event, and again if changes were lost; if `resumed` is false, read what you show anew.

`state` (DaemonsState): a daemon is away, or is back.

`jobs` (JobsChanged): jobs that have changed, as they are now; with `ids`, first all of these.

`reasons`: the reasons why jobs wait may have changed.

`locks` (LocksChanged), `filters` (FiltersChanged), `queue` (QueueChanged): first as they are, then after each change.

A comment comes after 15 s of silence. Come back with `Last-Event-ID` to go on after that event."""

TOPICS: Final = Parameter(
    "topics", f"topics with commas between, of {', '.join(topic.value for topic in Topic)}; without: all you may see"
)
IDS: Final = Parameter("ids", f"jobs with commas between, at most {PAGE_MOST}; without: all")
LAST: Final = Parameter(
    "Last-Event-ID", "id of the last event that the client has: it gets what came since", place="header"
)


class EventHandlers:
    """The call that streams."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def stream_events(self, asked: Asked) -> Response:
        """Raises: InvalidRequest: a parameter is wrong. Refused: 403, a topic may not be seen."""
        wish = Wish(_topics(asked), _ids(asked))
        last = text_of(asked, LAST)

        async def fetch(job_ids: Sequence[JobId]) -> Sequence[object]:
            return await fetch_jobs(asked.daemons, job_ids, FIELDS)

        return ByteStream(event_stream(self._hub, wish, Place.read(last) if last else None, fetch), _HEADERS)


def rows(to: EventHandlers) -> Sequence[Call]:
    """The row."""
    return [
        strict(
            Call(
                "GET",
                "/3/events",
                to.stream_events,
                "Tell of changes as they happen, as server-sent events.",
                rights=tuple(dict.fromkeys(_RIGHT_OF.values())),
                gives=str,
                media_type="text/event-stream",
                parameters=(TOPICS, IDS, LAST),
                tag="events",
                description=_ABOUT,
                mentions=(Begin, DaemonsState, JobsChanged, LocksChanged, FiltersChanged, QueueChanged),
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
            raise Refused(403, f"the topic {word!r} needs the right '{_RIGHT_OF[known[word]].value}'")
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
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 19):
            raise InvalidRequest(f"parameter 'ids' must be whole numbers with commas between, got {word!r:.60}")
    return frozenset(JobId(int(word)) for word in words)
