"""The stream of one reader: its beginning, then what it wants of the log, as server-sent events.

Theory. A reader that comes back with the id of an event gets what came after it. While it lacks a part of its
beginning, nothing after that event would bring it the rest: so until then its events have an id with which it begins
anew. The jobs that it names are the last part; when luxid does not tell them, it is asked again.

Source: HTML standard, "Server-sent events".
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

import attrs
import orjson

from common.errors import GantryError
from common.ids import JobId
from daemons.rapid.events.eventlog import BEGIN, PING, Event, Place, block, joined
from daemons.rapid.events.hub import Hub
from protocol.rapid.events import PING_S, Topic

# the jobs of these ids as they are now, each as JSON; raises GantryError
FetchJobs = Callable[[Sequence[JobId]], Awaitable[Sequence[object]]]
# id of the events of a beginning that is not complete: no run of rapid has this name
INCOMPLETE: Final = Place("0", 0)
# seconds after which jobs that could not be read are asked for again
_RETRY_S: Final = 2.0


@attrs.frozen
class Wish:
    """What a reader wants to hear of."""

    topics: frozenset[Topic]
    # jobs; None: all
    ids: frozenset[JobId] | None = None

    @property
    def names_jobs(self) -> bool:
        """Whether the reader is told of some jobs at the beginning."""
        return bool(self.ids) and Topic.JOBS in self.topics


async def event_stream(hub: Hub, wish: Wish, place: Place | None, fetch: FetchJobs) -> AsyncGenerator[bytes, None]:
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
                yield block(hub.place(serial), Topic.JOBS.value, jobs)
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


def _beginning(hub: Hub, wish: Wish, place: Place, *, is_resumed: bool) -> bytes:
    """Args: place: id of the last one of its events."""
    first = hub.knowledge.beginning(sorted(wish.topics, key=lambda topic: topic.value), is_resumed=is_resumed)
    *before, (name, value) = first
    parts = [block(INCOMPLETE, each, orjson.dumps(told)) for each, told in before]
    return b"".join((*parts, block(place, name, orjson.dumps(value))))


def _told(hub: Hub, wish: Wish, events: Sequence[Event], *, is_complete: bool) -> bytes:
    pairs = ((event, event.data_for(wish.topics, wish.ids)) for event in events)
    return b"".join(
        block(hub.place(event.serial) if is_complete else INCOMPLETE, event.name, data)
        for event, data in pairs
        if data is not None
    )


async def _jobs(wish: Wish, fetch: FetchJobs) -> bytes | None:
    """The named jobs as they are now; changes that came before may follow once more. None: luxid does not tell them."""
    try:
        jobs = await fetch(sorted(wish.ids or ()))
    except GantryError:
        return None
    return joined(orjson.dumps(job) for job in jobs)
