"""The feed of luxid against a naive twin: whatever happens, subscribers end with what a query would find."""

from collections.abc import Sequence
from typing import Any, Final
from unittest import mock

import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daemons.luxid import jobs
from protocol.luxi.feed import FeedTopic, Subscribe
from tests.support.feeds import JOBS, Luxid, Subscriber

# one step with a job begins or goes on with it, so that most schedules have jobs in all states
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["go_on", "log"]), st.sampled_from(JOBS)),
        st.tuples(st.sampled_from(["connect", "read", "lose", "drop"]), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([0, 1])),
    ),
    min_size=12,
    max_size=60,
)

FIRST: Final = JOBS[0]
# a job runs, and somebody follows its log
RUNNING: Final[list[tuple[str, Any]]] = [("go_on", FIRST), ("go_on", FIRST), ("connect", 2), ("connect", 0)]


async def play(luxid: Luxid, subscribers: Sequence[Subscriber], schedule: Sequence[tuple[str, Any]]) -> None:
    for verb, what in schedule:
        if verb == "wait":
            # 0: the other tasks run once; 1: until they have told everything
            await trio.sleep(0.5 * what)
        elif verb == "connect" and subscribers[what].stream is None:
            await subscribers[what].connect()
        elif verb == "read":
            await subscribers[what].read()
        elif verb == "lose":
            subscribers[what].lose()
        elif verb == "drop" and (stream := subscribers[what].stream) is not None:
            stream.put(b"x" * 5_000_000)
        elif hasattr(luxid, verb):
            getattr(luxid, verb)(what)


@settings(max_examples=150, deadline=None)
@given(steps)
@example([*RUNNING, ("log", FIRST), ("log", FIRST), ("log", FIRST)])
@example([*RUNNING, ("lose", 2), ("log", FIRST), ("wait", 1), ("connect", 2)])
@example([*RUNNING, ("log", FIRST), ("log", FIRST), ("go_on", FIRST)])
def test_every_subscriber_ends_with_what_a_query_finds(schedule: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        luxid = Luxid()
        named = tuple(JOBS[:3])
        subscribers = [
            Subscriber(luxid, Subscribe((FeedTopic.JOBS,))),
            Subscriber(luxid, Subscribe((FeedTopic.JOBS,), named)),
            Subscriber(luxid, Subscribe((FeedTopic.JOBS,), named, log_after=(0, 0, 0))),
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(luxid.feed.run)
            await play(luxid, subscribers, schedule)
            for subscriber in subscribers:
                if subscriber.stream is None:
                    await subscriber.connect()
                await trio.sleep(0.5)
                await subscriber.read()
                if subscriber.stream is None:
                    # it was too slow, and was told so
                    await subscriber.connect()
            for subscriber, wanted in zip(subscribers, (JOBS, named, named), strict=True):
                found = {job_id: luxid.query(job_id) for job_id in wanted}
                assert {job_id: subscriber.known.get(job_id) for job_id in wanted} == found
            log = subscribers[2].log
            for job_id in named:
                told = log.get(job_id, [])
                assert told == sorted(set(told))
                if job_id in luxid.jobs.table:
                    assert len(told) == len(luxid.logs.lines.get(job_id, []))
            nursery.cancel_scope.cancel()

    # a log of two lines is too long to be kept
    with mock.patch.object(jobs, "LONG_LOG", 1):
        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
