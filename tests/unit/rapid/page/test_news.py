"""A page is read anew only if an event is about what it shows."""

from common.ids import JobId
from daemons.rapid.events.hub import BEGIN, EventLog
from daemons.rapid.page.live.parts import Interest
from protocol.rapid.events import Topic

JOB = Interest.of(Topic.JOBS, Topic.LOCKS, job_ids=[7, 8])
LIST = Interest.of(Topic.JOBS)


def test_jobs_that_are_not_shown_are_no_news() -> None:
    log = EventLog()
    other, own = log.add_jobs({JobId(6): {}}), log.add_jobs({JobId(6): {}, JobId(8): {}})

    assert [JOB.concerns([other]), JOB.concerns([own]), JOB.concerns([other, own])] == [False, True, True]
    assert LIST.concerns([other])
    assert not Interest().concerns([other, own])


def test_other_topics_are_news_where_they_are_shown() -> None:
    log = EventLog()
    locks, queue = log.add(Topic.LOCKS, "locks", {}), log.add(Topic.QUEUE, "queue", {})

    assert [JOB.concerns([locks]), LIST.concerns([locks])] == [True, False]
    assert LIST.concerns([queue])


def test_a_gap_and_a_beginning_are_news_for_all() -> None:
    assert Interest().concerns(None)
    assert Interest().concerns([EventLog().add(None, BEGIN, {})])
    assert not Interest().concerns([])
