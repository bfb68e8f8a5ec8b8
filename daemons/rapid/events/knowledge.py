"""What rapid knows of the small things, from the feeds of luxid and wconfd; and the events that follow from a change.

Theory. Of locks, filter rules and the queue the present state is kept, and a new stream begins with it. Jobs are too
many for that: a stream that wants all of them begins with nothing, and its reader asks for those that it shows.
When a feed could not continue where it was, changes may be missing: every stream is told to begin anew.

Source: DESIGN section 15; `protocol.luxi.feed`; `protocol.subscription`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.locks import Owner
from common.objects.filter import FilterRule
from common.wire import unstructure
from daemons.rapid.events.eventlog import BEGIN, STATE, EventLog
from protocol.luxi.feed import FeedBegin, FeedChanges, JobNews, QueueState, job_news
from protocol.rapid.events import DaemonsState, Topic
from protocol.rapid.jobs import LIST_FIELDS
from protocol.rapid.jobvalues import job_object
from protocol.subscription import ConfigChanged, Event, GhostsChanged, KeptChanged, LocksChanged, Snapshot
from protocol.wconfd.locks import Owned

# fields of jobs in events
FIELDS: Final = LIST_FIELDS

Holdings = Iterable[tuple[Owner, tuple[Owned, ...]]]


class Knowledge:
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
            self._log.add(Topic.REASONS, Topic.REASONS.value, {})
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
            case LocksChanged(holdings=holdings):
                told = self._take_holdings(holdings)
                self._log.add(Topic.LOCKS, Topic.LOCKS.value, {"all": False, "locks": told})
            case ConfigChanged() | GhostsChanged() | KeptChanged():
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
