"""The last events, for all streams together.

Theory. Events are numbered, and kept in one log of bounded size, encoded once. A stream has no queue of its own, only
the number of the last event that it has sent. One that is slower than the log is long has missed something, and must
begin anew; so a slow reader costs nothing. The numbers belong to one run of rapid: an id has the name of the run.

    begin       everything may have changed: read what is shown anew
    state       whether the daemons are there
    <topic>     something of this topic has changed

Source: DESIGN section 15; HTML standard, "Server-sent events".
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

import attrs
import orjson

from common.ids import JobId
from protocol.rapid.events import Topic

# bounds of what is kept
MOST_EVENTS: Final = 4096
MOST_BYTES: Final = 16 * 2**20
BEGIN: Final = "begin"
STATE: Final = "state"
PING: Final = b": ping\n\n"

_ID: Final = re.compile(r"([0-9a-f]+)-([0-9]{1,18})")


@attrs.frozen
class Event:
    """One event; for everybody, or for those who want its topic."""

    serial: int
    # None: for everybody
    topic: Topic | None
    name: str
    # JSON
    data: bytes
    # id -> JSON, if `data` is `{"jobs": [...]}`
    jobs: Mapping[JobId, bytes] = attrs.field(factory=dict)

    def data_for(self, topics: Collection[Topic], ids: Collection[JobId] | None) -> bytes | None:
        """The data for a reader; None: there is none for it. Args: ids: jobs that it wants; None: all."""
        if self.topic is None:
            return self.data
        if self.topic not in topics:
            return None
        if ids is None or self.topic is not Topic.JOBS:
            return self.data
        return joined(wanted) if (wanted := [job for job_id, job in self.jobs.items() if job_id in ids]) else None


@attrs.frozen
class Place:
    """How far a reader has come: the run of rapid, and the serial of the last event that it has."""

    run: str
    serial: int

    def text(self) -> str:
        return f"{self.run}-{self.serial}"

    @classmethod
    def read(cls, text: str) -> "Place | None":
        """None: the text is no place."""
        found = _ID.fullmatch(text)
        return cls(found[1], int(found[2])) if found is not None else None


class EventLog:
    """The last events, in order, without gaps."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._events: deque[Event] = deque()
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._bytes = 0
        # serial of the last event, also if it is not kept
        self.last = 0

    def add(self, topic: Topic | None, name: str, value: object) -> Event:
        """Add an event with this JSON-able value."""
        return self._keep(Event(self.last + 1, topic, name, orjson.dumps(value)))

    def add_jobs(self, jobs: Mapping[JobId, Mapping[str, object]]) -> Event:
        """Add an event of jobs, by their ids."""
        encoded = {job_id: orjson.dumps(job) for job_id, job in jobs.items()}
        return self._keep(Event(self.last + 1, Topic.JOBS, Topic.JOBS.value, joined(encoded.values()), encoded))

    def after(self, serial: int) -> list[Event] | None:
        """The events after this one; None: some of them are not kept any more, or it never was."""
        missing = self.last - serial
        if missing < 0 or missing > len(self._events):
            return None
        return list(islice(self._events, len(self._events) - missing, None))

    def _keep(self, event: Event) -> Event:
        self._events.append(event)
        self.last = event.serial
        self._bytes += _size(event)
        while self._events and (len(self._events) > self._most_events or self._bytes > self._most_bytes):
            self._bytes -= _size(self._events.popleft())
        return event


def joined(jobs: Iterable[bytes]) -> bytes:
    """The data of an event with these jobs."""
    return b'{"jobs":[%b]}' % b",".join(jobs)


def block(place: Place, name: str, data: bytes) -> bytes:
    """An event on the wire. Args: data: JSON, in one line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.text().encode(), name.encode(), data)


def _size(event: Event) -> int:
    # the jobs are there twice: together, and each alone
    return len(event.data) * (2 if event.jobs else 1)
