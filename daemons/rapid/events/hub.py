"""One subscription of luxid and of wconfd, for all streams.

Theory. rapid subscribes as one who may only look, so the events hold nothing that some caller may not see, and each is
made once. It subscribes while there are streams, and a while after. Whoever comes first waits until luxid has replied:
what changes before that would be told to nobody.

Source: DESIGN section 15.
"""

import re
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, Protocol, TypeVar, assert_never

import attrs
import orjson
import trio

from common.access import Role
from common.errors import GantryError
from common.ids import JobId
from common.locks import Owner
from common.objects.filter import FilterRule
from common.paths import Paths
from common.system.log import get_log
from common.wire import unstructure
from protocol.luxi.feed import FeedBegin, FeedChanges, JobNews, QueueState, Subscribe, job_news
from protocol.luxi.feed import FeedTopic as FeedTopic
from protocol.peer import Speaker
from protocol.rapid.events import DaemonsState, ReasonsChanged, Topic
from protocol.rapid.jobs import LIST_FIELDS, job_object
from protocol.subscriptions import (
    ConfigChanged,
    Event,
    HoldingsChanged,
    KeptChanged,
    LuxidFeed,
    OrphansChanged,
    Snapshot,
    WconfdEvents,
)
from protocol.subscriptions import Event as LocksEvent
from protocol.wconfd.locks import Owned

# The last events, for all streams together.
#
# Theory. Events are numbered, and kept in one log of bounded size, encoded once. A stream has no queue of its own, only
# the number of the last event that it has sent. One that is slower than the log is long has missed something, and must
# begin anew; so a slow reader costs nothing. The numbers belong to one run of rapid: an id has the name of the run.
#
#     begin       everything may have changed: read what is shown anew
#     state       whether the daemons are there
#     <topic>     something of this topic has changed
#
# Source: DESIGN section 15; HTML standard, "Server-sent events".


# bounds of what is kept
MOST_EVENTS: Final = 4096
MOST_BYTES: Final = 16 * 2**20
BEGIN: Final = "begin"
STATE: Final = "state"

_ID: Final = re.compile(r"([0-9a-f]+)-([0-9]{1,18})")


@attrs.frozen
class LoggedEvent:
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
class StreamPosition:
    """How far a reader has come: the run of rapid, and the serial of the last event that it has."""

    run: str
    serial: int

    def text(self) -> str:
        return f"{self.run}-{self.serial}"

    @classmethod
    def read(cls, text: str) -> "StreamPosition | None":
        """None: the text is no place."""
        found = _ID.fullmatch(text)
        return cls(found[1], int(found[2])) if found is not None else None


class EventLog:
    """The last events, in order, without gaps."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._events: deque[LoggedEvent] = deque()
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._bytes = 0
        # serial of the last event, also if it is not kept
        self.last = 0

    def add(self, topic: Topic | None, name: str, value: object) -> LoggedEvent:
        """Add an event with this JSON-able value."""
        return self._keep(LoggedEvent(self.last + 1, topic, name, orjson.dumps(value)))

    def add_jobs(self, jobs: Mapping[JobId, Mapping[str, object]]) -> LoggedEvent:
        """Add an event of jobs, by their ids."""
        encoded = {job_id: orjson.dumps(job) for job_id, job in jobs.items()}
        return self._keep(LoggedEvent(self.last + 1, Topic.JOBS, Topic.JOBS.value, joined(encoded.values()), encoded))

    def after(self, serial: int) -> list[LoggedEvent] | None:
        """The events after this one; None: some of them are not kept any more, or it never was."""
        missing = self.last - serial
        if missing < 0 or missing > len(self._events):
            return None
        return list(islice(self._events, len(self._events) - missing, None))

    def _keep(self, event: LoggedEvent) -> LoggedEvent:
        self._events.append(event)
        self.last = event.serial
        self._bytes += _size(event)
        while self._events and (len(self._events) > self._most_events or self._bytes > self._most_bytes):
            self._bytes -= _size(self._events.popleft())
        return event


def joined(jobs: Iterable[bytes]) -> bytes:
    """The data of an event with these jobs."""
    return b'{"jobs":[%b]}' % b",".join(jobs)


def _size(event: LoggedEvent) -> int:
    # the jobs are there twice: together, and each alone
    return len(event.data) * (2 if event.jobs else 1)


# What rapid knows of the small things, from the feeds of luxid and wconfd; and the events that follow from a change.
#
# Theory. Of locks, filter rules and the queue the present state is kept, and a new stream begins with it. Jobs are too
# many for that: a stream that wants all of them begins with nothing, and its reader asks for those that it shows.
# When a feed could not continue where it was, changes may be missing: every stream is told to begin anew.
#
# Source: DESIGN section 15; `protocol.luxi.feed`; `protocol.subscriptions`.


# fields of jobs in events
FIELDS: Final = LIST_FIELDS

Holdings = Iterable[tuple[Owner, tuple[Owned, ...]]]


class FollowedState:
    """The present state, and the log of its changes."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._holdings: dict[str, object] = {}
        self._filters: Sequence[object] = ()
        self._queue: object = None
        self._state = DaemonsState(luxid=False, wconfd=False)

    def begun(self, begin: FeedBegin) -> None:
        """luxid's feed begins, or continues."""
        self._take_filters(begin.filters)
        self._take_queue(begin.queue)
        if not begin.is_resumed:
            self._begin_anew()
        self._add_jobs(job_news(begin.jobs))
        self._tell_state(attrs.evolve(self._state, luxid=True))

    def changed(self, changes: FeedChanges) -> None:
        """A change in luxid."""
        self._add_jobs(changes.jobs)
        if changes.reasons:
            self._log.add(Topic.REASONS, Topic.REASONS.value, unstructure(ReasonsChanged()))
        if self._take_filters(changes.filters):
            self._log.add(Topic.FILTERS, Topic.FILTERS.value, self._told(Topic.FILTERS))
        if self._take_queue(changes.queue):
            self._log.add(Topic.QUEUE, Topic.QUEUE.value, self._told(Topic.QUEUE))

    def locks_changed(self, event: Event) -> None:
        """A change in wconfd, or its state after a connection was made."""
        match event:
            case Snapshot(holdings=holdings):
                self._holdings.clear()
                self._take_holdings(holdings)
                self._log.add(Topic.LOCKS, Topic.LOCKS.value, self._told(Topic.LOCKS))
                self._tell_state(attrs.evolve(self._state, wconfd=True))
            case HoldingsChanged(holdings=holdings):
                told = self._take_holdings(holdings)
                self._log.add(Topic.LOCKS, Topic.LOCKS.value, {"all": False, "locks": told})
            case ConfigChanged() | OrphansChanged() | KeptChanged():
                # luxid's feed, and the locks, tell what follows from it
                pass
            case _:
                assert_never(event)

    def luxid_is_away(self) -> None:
        self._tell_state(attrs.evolve(self._state, luxid=False))

    def wconfd_is_away(self) -> None:
        self._tell_state(attrs.evolve(self._state, wconfd=False))

    def beginning(self, topics: Iterable[Topic], *, is_resumed: bool) -> Iterator[tuple[str, object]]:
        """The first events of a stream: name and value."""
        yield BEGIN, {"resumed": is_resumed, **attrs.asdict(self._state)}
        if not is_resumed:
            for topic in topics:
                if topic in (Topic.LOCKS, Topic.FILTERS, Topic.QUEUE):
                    yield topic.value, self._told(topic)

    def _begin_anew(self) -> None:
        """What was told of jobs has a gap: tell everybody."""
        self._log.add(None, BEGIN, {"resumed": False, **attrs.asdict(self._state), "luxid": True})
        self._log.add(Topic.FILTERS, Topic.FILTERS.value, self._told(Topic.FILTERS))
        self._log.add(Topic.QUEUE, Topic.QUEUE.value, self._told(Topic.QUEUE))

    def _add_jobs(self, news: Iterable[JobNews]) -> None:
        jobs = {each.job_id: _job(each) for each in news}
        if jobs:
            self._log.add_jobs(jobs)

    def _take_filters(self, rules: Sequence[FilterRule] | None) -> bool:
        if rules is not None:
            self._filters = [unstructure(rule) for rule in rules]
        return rules is not None

    def _take_queue(self, queue: QueueState | None) -> bool:
        if queue is not None:
            # all values, also those at their defaults
            self._queue = attrs.asdict(queue)
        return queue is not None

    def _take_holdings(self, rows: Holdings) -> list[object]:
        """Take these in; return them as told, the last of each owner."""
        told: dict[str, object] = {}
        for owner, owned in rows:
            name = str(owner)
            told[name] = {"owner": name, "locks": [[str(lock), mode.value] for lock, mode in owned]}
            self._holdings.pop(name, None)
            if owned:
                self._holdings[name] = told[name]
        return list(told.values())

    def _told(self, topic: Topic) -> Mapping[str, object]:
        if topic is Topic.LOCKS:
            return {"all": True, "locks": list(self._holdings.values())}
        if topic is Topic.FILTERS:
            return {"filters": self._filters}
        return {"queue": self._queue}

    def _tell_state(self, state: DaemonsState) -> None:
        if state != self._state:
            self._state = state
            self._log.add(None, STATE, attrs.asdict(state))


def _job(news: JobNews) -> Mapping[str, object]:
    if news.values is None:
        return {"id": news.job_id, "archived": True}
    return {"id": news.job_id, **job_object(FIELDS, news.values)}


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
# called when the connection to a daemon is lost
Lost = Callable[[], None]

# seconds for which the subscriptions are kept when the last stream has ended
_KEPT_S: Final = 60.0
# seconds that the first stream waits for luxid
_PATIENCE_S: Final = 2.0
# seconds after a refusal, until the next attempt
_PAUSE_S: Final = 5.0
_log: Final = get_log(__name__)


class DaemonFeed(Protocol[T_co]):
    """Events of a daemon, from a connection that is made again when it was lost."""

    async def next(self) -> T_co: ...

    async def aclose(self) -> None: ...


class Hub:
    """The events for all streams.

    Args: luxid, wconfd: open their feeds; called with what to call when a connection is lost.
    """

    def __init__(
        self,
        luxid: Callable[[Lost], DaemonFeed[FeedBegin | FeedChanges]],
        wconfd: Callable[[Lost], DaemonFeed[LocksEvent]],
    ) -> None:
        self._open_luxid = luxid
        self._open_wconfd = wconfd
        self.log = EventLog()
        self.knowledge = FollowedState(self.log)
        # names this run in the ids of events
        self._run = secrets.token_hex(4)
        self.streams = 0
        self._wanted = trio.Event()
        self._unwanted = trio.Event()
        self._begun = trio.Event()
        self._news = trio.Event()

    async def run(self) -> None:
        """Subscribe whenever there are streams.

        Cancellation: the connections are closed.
        """
        while True:
            await self._wanted.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_luxid)
                nursery.start_soon(self._follow_wconfd)
                await self._until_unwanted()
                nursery.cancel_scope.cancel()
            self._begun = trio.Event()
            # what changes from now on is told to nobody: later streams must not continue from before
            self._run = secrets.token_hex(4)

    @contextmanager
    def following(self) -> Iterator[None]:
        """While it is open there is a stream."""
        self.streams += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.streams -= 1
            if not self.streams:
                self._wanted = trio.Event()
                self._unwanted.set()
                self._unwanted = trio.Event()

    async def ready(self) -> None:
        """Wait until luxid's feed has begun; but not for long, since luxid may be away."""
        with trio.move_on_after(_PATIENCE_S):
            await self._begun.wait()

    def place(self, serial: int) -> StreamPosition:
        """The id of an event."""
        return StreamPosition(self._run, serial)

    def after(self, place: StreamPosition) -> list[LoggedEvent] | None:
        """The events after this place; None: they are not known any more."""
        return self.log.after(place.serial) if place.run == self._run else None

    async def wait(self, serial: int, timeout_s: float) -> bool:
        """Wait for an event after this one; False: there was none in this time."""
        with trio.move_on_after(timeout_s):
            while self.log.last <= serial:
                await self._news.wait()
            return True
        return False

    async def _until_unwanted(self) -> None:
        """Return when there was no stream for a while."""
        while True:
            if self.streams:
                await self._unwanted.wait()
                continue
            with trio.move_on_after(_KEPT_S):
                await self._wanted.wait()
                continue
            return

    async def _follow_luxid(self) -> None:
        def take(event: FeedBegin | FeedChanges) -> None:
            if isinstance(event, FeedBegin):
                self.knowledge.begun(event)
                self._begun.set()
            else:
                self.knowledge.changed(event)

        await self._follow("luxid", self._open_luxid, take, self.knowledge.luxid_is_away)

    async def _follow_wconfd(self) -> None:
        await self._follow("wconfd", self._open_wconfd, self.knowledge.locks_changed, self.knowledge.wconfd_is_away)

    async def _follow(
        self,
        daemon: str,
        open_feed: Callable[[Lost], DaemonFeed[T]],
        take: Callable[[T], None],
        away: Callable[[], None],
    ) -> None:
        """Take in the events of a daemon, for ever; after a refusal try again."""

        def lost() -> None:
            away()
            self._tell()

        while True:
            feed = open_feed(lost)
            try:
                while True:
                    take(await feed.next())
                    self._tell()
            except GantryError as error:
                _log.warning("events.refused", daemon=daemon, reason=error.message, retry_s=_PAUSE_S)
            finally:
                lost()
                with trio.CancelScope(shield=True):
                    await feed.aclose()
            await trio.sleep(_PAUSE_S)

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()


def hub_of(paths: Paths) -> Hub:
    """The hub of an installation; it sees what everybody may see who may look at all."""
    asked = Subscribe(tuple(FeedTopic), fields=FIELDS, with_snapshot=False)

    def luxid(lost: Lost) -> LuxidFeed:
        return LuxidFeed(paths.query_socket, asked, Speaker("rapid", Role.READ), lost)

    def wconfd(lost: Lost) -> WconfdEvents:
        return WconfdEvents(paths.wconfd_socket, lost)

    return Hub(luxid, wconfd)
