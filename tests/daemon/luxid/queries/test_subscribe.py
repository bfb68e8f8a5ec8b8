"""Subscribe: jobs, rules and the queue's state as they change, on one connection (protocol.luxi.feed)."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import trio

from common.access import Role
from common.errors import RemoteError
from common.ids import JobId
from common.wire import structure
from daemons.luxid.feed.stream import BACKLOG_LIMIT
from protocol.envelope import read_event, read_reply, request_bytes
from protocol.framing import pack
from protocol.luxi.feed import (
    FeedBegin,
    FeedChanges,
    FeedPlace,
    FeedTopic,
    OutputPlace,
    Subscribe,
    job_news,
    read_changes,
)
from protocol.luxi.jobs import ArchiveJob, OutputStream
from protocol.luxi.queue import DeleteFilter, ReplaceFilter, SetDrainFlag, SetJobLimits
from protocol.messages import positional
from protocol.peer import Speaker
from protocol.subscriptions import LuxidFeed
from tests.daemon.luxid.ops import after, command, dummy, gated
from tests.support.cluster import Cluster
from tests.support.sockets.rawsocket import RawCaller


class Subscriber(RawCaller):
    """A connection with a feed."""

    def __init__(self, cluster: Cluster, call: Subscribe, speaker: Speaker | None = None) -> None:
        super().__init__(cluster.paths.query_socket)
        self.send(pack(request_bytes(call.METHOD, positional(call), speaker)))
        try:
            self.begun = structure(read_reply(self.receive() or b""), FeedBegin)
        except RemoteError:
            self.sock.close()
            raise
        self.place = FeedPlace(call)
        self.place.begin(self.begun)
        # the last values of each job, and all log lines and output
        self.rows: dict[int, Any] = {news.job_id: news.values for news in job_news(self.begun.jobs)}
        self.lines = [entry.message for news in job_news(self.begun.jobs) for entry in news.entries]
        self.text = ""

    def next(self) -> FeedChanges:
        read = read_changes(*read_event(self.receive() or b""))
        assert read is not None
        self.place.go_on(*read)
        for news in read[1].jobs:
            self.rows[news.job_id] = news.values
            self.lines += [entry.message for entry in news.entries]
        self.text += "".join(each.text for each in read[1].outputs)
        return read[1]

    def until(self, test: Callable[[FeedChanges], bool]) -> FeedChanges:
        while not test(changes := self.next()):
            pass
        return changes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = "[luxid]\nmax_running_jobs = 4\nsweep_s = 3600.0\n"
    with Cluster(tmp_path_factory.mktemp("feed"), settings=settings) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def subscribe(cluster: Cluster) -> Iterator[Callable[..., Subscriber]]:
    opened: list[Subscriber] = []

    def open_one(*topics: FeedTopic, speaker: Speaker | None = None, **wanted: Any) -> Subscriber:
        opened.append(Subscriber(cluster, Subscribe(topics, **wanted), speaker))
        return opened[-1]

    yield open_one
    for each in opened:
        each.sock.close()


Opened = Callable[..., Subscriber]


def ended(feed: Subscriber, *job_ids: int) -> None:
    while not all((feed.rows.get(job_id) or [""])[0] in ("success", "error", "canceled") for job_id in job_ids):
        feed.next()


def test_all_jobs_are_told_from_their_submission_to_the_archive(cluster: Cluster, subscribe: Opened) -> None:
    before = cluster.submit(dummy())
    cluster.wait(before)
    feed = subscribe(FeedTopic.JOBS, fields=("status", "id"))

    job_id = cluster.submit(dummy())
    ended(feed, job_id)
    cluster.luxi(ArchiveJob(job_id))

    assert [before, ["success", before], []] in feed.begun.jobs
    feed.until(lambda changes: any(news.values is None for news in changes.jobs))
    assert (feed.rows[before], feed.rows[job_id]) == (("success", before), None)


def test_log_and_output_of_a_running_job_come_with_its_states(cluster: Cluster, subscribe: Opened) -> None:
    job_id = cluster.submit(command("sh", "-c", "echo one; sleep 0.3; echo two"), dummy(messages=["hello"]))
    feed = subscribe(
        FeedTopic.JOBS, ids=(job_id,), log_after=(0,), outputs=(OutputPlace(job_id, OutputStream.OUTPUT, 0),)
    )

    ended(feed, job_id)
    while not feed.text.endswith("two\n"):
        feed.next()

    assert feed.text == "one\ntwo\n"
    assert "hello" in feed.lines


def test_who_comes_back_goes_on_and_after_a_restart_begins_anew(cluster: Cluster, subscribe: Opened) -> None:
    # what it was before is not told once more after the place
    before = cluster.submit(gated(cluster.root / "first"))
    job_id = cluster.submit({**gated(cluster.root / "go"), "depends": after(before)})
    first = subscribe(FeedTopic.JOBS, ids=(job_id,), log_after=(0,))
    (cluster.root / "first").touch()
    cluster.wait(job_id, status="running")
    while first.rows[job_id] != ("running",):
        first.next()
    first.sock.close()

    again = Subscriber(cluster, first.place.request())
    assert (again.begun.is_resumed, again.begun.jobs) == (True, [])
    again.sock.close()
    cluster.restart("luxid")
    (cluster.root / "go").touch()
    anew = Subscriber(cluster, first.place.request())

    assert anew.begun.is_resumed is False
    ended(anew, job_id)
    anew.sock.close()


def test_rules_limits_and_the_drain_flag_are_told(cluster: Cluster, subscribe: Opened) -> None:
    feed = subscribe(FeedTopic.FILTERS, FeedTopic.QUEUE)
    assert feed.begun.filters == ()
    assert feed.begun.queue is not None
    assert (feed.begun.queue.is_drained, feed.begun.queue.max_running_jobs) == (False, 4)

    uuid = cluster.luxi(ReplaceFilter(None, 0, (["jobid", [">", "id", 0]],), "PAUSE", ()))
    told = feed.until(lambda changes: changes.filters is not None)
    assert [rule.uuid for rule in told.filters or ()] == [uuid]
    cluster.luxi(SetDrainFlag(True))
    assert feed.until(lambda changes: changes.queue is not None and changes.queue.is_drained)
    cluster.luxi(SetDrainFlag(False))
    cluster.luxi(SetJobLimits(7, None))
    assert feed.until(lambda changes: changes.queue is not None and changes.queue.max_running_jobs == 7)
    cluster.luxi(DeleteFilter(uuid))
    assert feed.until(lambda changes: changes.filters == ())


def test_a_hint_comes_when_reasons_may_have_changed(cluster: Cluster, subscribe: Opened) -> None:
    held = cluster.submit(gated(cluster.root / "later"))
    waiting = cluster.submit(dummy(depends=after(held)))
    feed = subscribe(FeedTopic.REASONS, ids=(waiting,))

    cluster.submit(dummy())

    assert feed.next() == FeedChanges(reasons=True)
    (cluster.root / "later").touch()


def test_others_see_of_a_job_what_a_query_shows_and_neither_log_nor_output(cluster: Cluster, subscribe: Opened) -> None:
    reader = Speaker("reader", Role.READ)
    job_id = cluster.submit(command("echo", "secret", env={"KEY": "secret"}), dummy(messages=["secret"]))
    feed = subscribe(FeedTopic.JOBS, ids=(job_id,), fields=("status", "ops", "oplog"), log_after=(0,), speaker=reader)

    ended(feed, job_id)

    assert b"secret" not in orjson.dumps([list(feed.rows.values()), feed.lines])
    with pytest.raises(RemoteError, match="the output of job"):
        subscribe(outputs=(OutputPlace(job_id, OutputStream.OUTPUT, 0),), speaker=reader)


def test_a_reader_that_is_too_slow_is_dropped_and_others_hear_everything(cluster: Cluster, subscribe: Opened) -> None:
    slow, other = subscribe(FeedTopic.JOBS, fields=("status", "ops")), subscribe(FeedTopic.JOBS)
    count = BACKLOG_LIMIT // 100_000 + 20

    jobs = cluster.submit_many(*[(dummy(comment="x" * 100_000),)] * count)
    ended(other, *jobs)

    with pytest.raises(RemoteError, match="this subscriber is too slow"):
        slow.until(lambda _: False)
    assert slow.receive() is None
    again = Subscriber(cluster, slow.place.request())
    assert again.begun.is_resumed
    again.sock.close()


def test_a_subscription_of_a_program_survives_restarts(cluster: Cluster) -> None:
    asked = Subscribe((FeedTopic.JOBS,))

    async def follow() -> list[bool]:
        feed = LuxidFeed(cluster.paths.query_socket, asked)
        assert isinstance(first := await feed.next(), FeedBegin)
        assert not first.is_resumed
        await trio.to_thread.run_sync(cluster.restart, "luxid")
        job_id = await trio.to_thread.run_sync(cluster.submit, dummy())
        begun = []
        while True:
            told = await feed.next()
            if isinstance(told, FeedBegin):
                begun.append(told.is_resumed)
            news = job_news(told.jobs) if isinstance(told, FeedBegin) else told.jobs
            if any(each.job_id == job_id and each.values == ("success",) for each in news):
                await feed.aclose()
                return begun

    assert trio.run(follow) == [False]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"fields": ("status", "nonsense")}, "unknown job fields: nonsense"),
        ({"ids": (JobId(1),), "log_after": (0, 0)}, "one serial for each"),
        ({"outputs": (OutputPlace(JobId(99), OutputStream.OUTPUT, 0),)}, "there is no job 99"),
    ],
)
def test_what_cannot_be_told_is_refused(cluster: Cluster, subscribe: Opened, wanted: dict[str, Any], why: str) -> None:
    with pytest.raises(RemoteError, match=why):
        subscribe(FeedTopic.JOBS, **wanted)
