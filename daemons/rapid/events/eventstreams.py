"""The stream of one reader: its beginning, then what it wants of the log, as server-sent events.

Source: HTML standard, "Server-sent events".
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import attrs
import orjson

from common.ids import JobId
from daemons.rapid.events.eventlog import BEGIN, PING, Event, Place, block, joined
from daemons.rapid.events.hub import Hub
from protocol.rapid.events import PING_S, Topic

# the jobs of these ids as they are now, each as JSON
FetchJobs = Callable[[Sequence[JobId]], Awaitable[Sequence[object]]]


@attrs.frozen
class Wish:
    """What a reader wants to hear of."""

    topics: frozenset[Topic]
    # jobs; None: all
    ids: frozenset[JobId] | None = None


async def event_stream(hub: Hub, wish: Wish, place: Place | None, fetch: FetchJobs) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream; it ends when its reader is so slow that it has missed something.

    Args:
        place: the last event that the reader has; None: it has none.
    """
    with hub.following():
        await hub.ready()
        missed = hub.after(place) if place is not None else None
        serial = hub.log.last if place is None or missed is None else place.serial
        yield _beginning(hub, wish, serial, is_resumed=missed is not None)
        if missed is None and (jobs := await _jobs(hub, wish, serial, fetch)):
            yield jobs
        while (events := hub.log.after(serial)) is not None:
            if events:
                serial = events[-1].serial
                if told := _told(hub, wish, events):
                    yield told
                if any(event.name == BEGIN for event in events) and (jobs := await _jobs(hub, wish, serial, fetch)):
                    yield jobs
            elif not await hub.wait(serial, PING_S):
                yield PING


def _beginning(hub: Hub, wish: Wish, serial: int, *, is_resumed: bool) -> bytes:
    place = hub.place(serial)
    first = hub.knowledge.beginning(sorted(wish.topics, key=lambda topic: topic.value), is_resumed=is_resumed)
    return b"".join(block(place, name, orjson.dumps(value)) for name, value in first)


def _told(hub: Hub, wish: Wish, events: Sequence[Event]) -> bytes:
    pairs = ((event, event.data_for(wish.topics, wish.ids)) for event in events)
    return b"".join(block(hub.place(event.serial), event.name, data) for event, data in pairs if data is not None)


async def _jobs(hub: Hub, wish: Wish, serial: int, fetch: FetchJobs) -> bytes:
    """The wanted jobs as they are now, if they are named; changes after the serial follow, maybe told twice."""
    if wish.ids is None or Topic.JOBS not in wish.topics or not wish.ids:
        return b""
    jobs = await fetch(sorted(wish.ids))
    return block(hub.place(serial), Topic.JOBS.value, joined(orjson.dumps(job) for job in jobs))
