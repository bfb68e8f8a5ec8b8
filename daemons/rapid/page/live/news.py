"""Whether something on an open page may have changed, by the events of the hub."""

from collections.abc import Collection, Iterable
from typing import Final

import attrs

from common.ids import JobId
from daemons.rapid.events.eventlog import Event
from protocol.rapid.events import Topic

# the line about the cluster is on every page
EVERYWHERE: Final = frozenset({Topic.QUEUE})


@attrs.frozen
class Interest:
    """What a page shows."""

    topics: frozenset[Topic] = EVERYWHERE
    # jobs whose changes it shows; None: all
    job_ids: frozenset[JobId] | None = None

    @classmethod
    def of(cls, *topics: Topic, job_ids: Iterable[int] | None = None) -> "Interest":
        ids = None if job_ids is None else frozenset(map(JobId, job_ids))
        return cls(EVERYWHERE | frozenset(topics), ids)

    def concerns(self, events: Collection[Event] | None) -> bool:
        """Whether one of these events is about it. Args: events: None: they are not known any more."""
        return events is None or any(self._concerns(event) for event in events)

    def _concerns(self, event: Event) -> bool:
        if event.topic is None:
            # everything may have changed
            return True
        if event.topic is not Topic.JOBS or self.job_ids is None:
            return event.topic in self.topics
        return Topic.JOBS in self.topics and not self.job_ids.isdisjoint(event.jobs)
