"""What luxid's feed costs: rows are made once, messages go to those whom they concern, and nobody costs nothing."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from common.access import Role
from common.errors import InternalError
from common.ids import JobId
from daemons.luxid.core.query.jobs import JobView
from daemons.luxid.core.rights import Viewer
from daemons.luxid.feed.feed import begin
from daemons.luxid.feed.stream import FeedStream, JobSubscription
from protocol.envelope import read_event
from protocol.framing import Framer
from protocol.luxi.feed import FeedTopic, Subscribe, read_changes
from tests.support.feeds import JOBS, Luxid

pytestmark = pytest.mark.trio
OPERATOR, ALICE, BOB = Viewer(0, Role.FULL), Viewer(1003, Role.READ), Viewer(1004, Role.READ)
JOBS_TOPIC = frozenset({FeedTopic.JOBS})


class Counted:
    """A field that counts how often it is read."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, view: JobView) -> object:
        self.count += 1
        return view.state.value


async def joined(luxid: Luxid, field: Any, viewer: Viewer, *job_ids: Any, topics: Any = JOBS_TOPIC) -> FeedStream:
    stream = FeedStream(luxid.feed, topics, JobSubscription(viewer, ("status",), [field]), job_ids or None, None, None)
    await begin(luxid.feed, Subscribe(tuple(topics), job_ids or None, with_snapshot=False), stream)
    return stream


async def taken(stream: FeedStream) -> bytes:
    with trio.move_on_after(1):
        return (await stream.take())[0]
    return b""


async def test_a_row_is_made_once_for_all_who_may_see_the_same(autojump_clock: trio.testing.MockClock) -> None:
    luxid, field = Luxid(), Counted()
    viewers = [OPERATOR] * 50 + [ALICE] * 50 + [BOB] * 50
    streams = [await joined(luxid, field, viewer) for viewer in viewers]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.submit(JOBS[0])
        messages = [await taken(stream) for stream in streams]
        nursery.cancel_scope.cancel()

    # whole, and as others see it
    assert field.count == 2
    assert len(set(messages)) == 1


async def test_a_change_concerns_those_who_named_the_job(autojump_clock: trio.testing.MockClock) -> None:
    luxid, field = Luxid(), Counted()
    hearer, other = await joined(luxid, field, OPERATOR, JOBS[0]), await joined(luxid, field, OPERATOR, JOBS[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.submit(JOBS[0])
        assert b'[[1,["queued"],[]]]' in await taken(hearer)
        assert await taken(other) == b""
        nursery.cancel_scope.cancel()


async def test_changes_cost_nothing_while_nobody_subscribes() -> None:
    luxid = Luxid()
    for job_id in JOBS:
        luxid.go_on(job_id)

    assert luxid.jobs.news.take(100) == ({}, frozenset())
    assert not luxid.jobs.news.has_reasons


async def test_a_place_is_kept_for_a_while_after_the_last_subscriber_has_gone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    luxid, field = Luxid(), Counted()
    stream = await joined(luxid, field, OPERATOR)
    place = stream.position
    stream.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.submit(JOBS[0])
        await trio.sleep(30)
        assert luxid.feed.recent.read(place) is not None
        await trio.sleep(40)
        luxid.submit(JOBS[1])
        await trio.sleep(1)
        assert luxid.feed.recent.read(place) is None
        assert not luxid.jobs.news.is_on
        nursery.cancel_scope.cancel()


async def test_a_fault_ends_the_subscriptions_and_not_luxid(autojump_clock: trio.testing.MockClock) -> None:
    def broken(_: JobView) -> object:
        raise RuntimeError("a fault")

    luxid, field = Luxid(), Counted()
    stream = await joined(luxid, broken, OPERATOR)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.submit(JOBS[0])
        data, is_open = await stream.take()
        stream.close()
        # what the turn should have told is lost
        assert luxid.feed.recent.read(stream.position) is None
        assert (is_open, InternalError.code.encode() in data) == (False, True)
        again = await joined(luxid, field, OPERATOR)
        luxid.submit(JOBS[1])
        assert b'[2,["queued"],[]]' in await taken(again)
        nursery.cancel_scope.cancel()


async def test_hints_are_few_however_much_happens(autojump_clock: trio.testing.MockClock) -> None:
    luxid, field = Luxid(), Counted()
    stream = await joined(luxid, field, OPERATOR, topics=frozenset({FeedTopic.REASONS}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        for _ in range(100):
            luxid.jobs.news.tell_reasons()
            await trio.sleep(0.01)
        await trio.sleep(1)
        told = (await taken(stream)).count(b'"reasons":true')
        nursery.cancel_scope.cancel()

    assert 3 <= told <= 6


async def test_nobody_is_hinted_whose_jobs_do_not_wait(autojump_clock: trio.testing.MockClock) -> None:
    luxid, field = Luxid(), Counted()
    for _ in range(3):
        luxid.go_on(JOBS[0])
    topics = frozenset({FeedTopic.REASONS})
    ended = await joined(luxid, field, OPERATOR, JOBS[0], topics=topics)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.jobs.news.tell_reasons()
        assert await taken(ended) == b""
        nursery.cancel_scope.cancel()


class Printing:
    """Output that is always there."""

    job_ids: frozenset[JobId] = frozenset()
    has_news = False

    def begin(self, wake: Callable[[], None]) -> None:
        wake()

    def read(self) -> bytes:
        return b"[]"


async def test_output_does_not_take_a_subscriber_past_changes_that_it_has_not_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    luxid = Luxid()
    wish = JobSubscription.of(OPERATOR, ("status",))
    stream = FeedStream(luxid.feed, JOBS_TOPIC, wish, None, None, cast(Any, Printing()))
    await begin(luxid.feed, Subscribe((FeedTopic.JOBS,)), stream)
    begun = stream.position
    async with trio.open_nursery() as nursery:
        nursery.start_soon(luxid.feed.run)
        luxid.submit(JOBS[0])
        await trio.sleep(1)
        output, change = Framer().feed(await taken(stream))
        nursery.cancel_scope.cancel()

    told = [read_changes(*read_event(payload)) for payload in (output, change)]
    assert [each[0] for each in told if each is not None] == [begun, stream.position]
    assert begun != stream.position
