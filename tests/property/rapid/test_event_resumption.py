"""Whoever comes back with the id of any event ends up with the same state as one who never went."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from common.errors import TooBusy
from common.ids import JobId
from common.locks import LockMode, Owner, parse_lock
from common.objects.filter import FilterRule
from daemons.rapid.events.hub import FIELDS, EventLog, FollowedState, Hub, StreamPosition
from daemons.rapid.events.streams import StreamRequest, event_stream
from protocol.luxi.feed import FeedBegin, FeedChanges, JobNews, QueueState
from protocol.rapid.events import Topic
from protocol.subscriptions import HoldingsChanged, Snapshot
from tests.support.filterrules import filter_rule

WEB = parse_lock("node/web1")
Step = tuple[str, int, int]


def _news(job_id: int, number: int) -> JobNews:
    values: list[object] = [None] * len(FIELDS)
    values[FIELDS.index("id")], values[FIELDS.index("priority")] = job_id, number
    return JobNews(JobId(job_id), tuple(values), ())


def _rule(number: int) -> FilterRule:
    return filter_rule(watermark=JobId(0), priority=number, predicates=(), action="PAUSE", reason_trail=(), uuid="u")


class World:
    """The daemons behind a hub, without connections."""

    def __init__(self, most_events: int) -> None:
        self.hub = Hub(_never, _never)
        self.hub.log = EventLog(most_events=most_events)
        self.hub.knowledge = FollowedState(self.hub.log)
        self.jobs: dict[int, int] = {}
        self.held: dict[str, int] = {}
        self.rule = self.running = 0
        # number of questions that luxid refuses from now on
        self.refusals = 0
        self.hub.knowledge.begun(self._begin())
        self.hub.knowledge.locks_changed(Snapshot((), 1))

    def take(self, kind: str, key: int, number: int) -> None:
        knowledge = self.hub.knowledge
        match kind:
            case "job":
                self.jobs[key] = number
                knowledge.changed(FeedChanges(jobs=(_news(key, number),)))
            case "locks":
                owner, held = Owner(JobId(key), "/l"), ((WEB, LockMode.SHARED),) * number
                self.held.pop(str(owner), None)
                if number:
                    self.held[str(owner)] = number
                knowledge.locks_changed(HoldingsChanged(((owner, held),)))
            case "rules":
                self.rule = number
                knowledge.changed(FeedChanges(filters=(_rule(number),)))
            case "queue":
                self.running = number
                knowledge.changed(FeedChanges(queue=QueueState(running=number)))
            case "gap":
                # what happens now is told by nobody
                self.jobs[key] = number
                knowledge.begun(self._begin())
            case "refusal":
                self.refusals = number
            case _:
                raise AssertionError(kind)

    def _begin(self) -> FeedBegin:
        return FeedBegin("x", filters=(_rule(self.rule),), queue=QueueState(running=self.running))


class Reader:
    """A client: it keeps what it was told, and reads the jobs when it is told to begin anew."""

    def __init__(self, world: World, ids: frozenset[JobId] | None) -> None:
        self._world = world
        self._wish = StreamRequest(frozenset(Topic), ids)
        self._last: str | None = None
        self.jobs: dict[int, Any] = {}
        self.held: dict[str, int] = {}
        self.rule = self.running = -1

    async def read(self, most: int | None = None) -> None:
        """Connect, read all there is, or so many events, and go."""
        place = StreamPosition.read(self._last) if self._last else None
        stream = event_stream(self._world.hub, self._wish, place, self._fetch)
        # longer than a stream waits for luxid, and shorter than it is silent
        with trio.move_on_after(12):
            async for chunk in stream:
                for text in chunk.decode().strip().split("\n\n"):
                    if most is not None and (most := most - 1) < 0:
                        break
                    if not text.startswith(":"):
                        self._take(text)
        await stream.aclose()

    async def _fetch(self, ids: Sequence[JobId]) -> Sequence[object]:
        if self._world.refusals:
            self._world.refusals -= 1
            raise TooBusy("others are asking")
        return [{"id": each, "priority": self._world.jobs.get(each)} for each in ids]

    def _take(self, text: str) -> None:
        lines = dict(line.split(": ", 1) for line in text.splitlines())
        self._last, told = lines["id"], orjson.loads(lines["data"])
        match lines["event"]:
            case "begin":
                if not told["resumed"] and self._wish.ids is None:
                    self.jobs = dict(self._world.jobs)
            case "jobs":
                self.jobs.update((job["id"], job["priority"]) for job in told["jobs"])
            case "locks":
                if told["all"]:
                    self.held.clear()
                for each in told["locks"]:
                    self.held.pop(each["owner"], None)
                    if each["locks"]:
                        self.held[each["owner"]] = len(each["locks"])
            case "filters":
                self.rule = told["filters"][0]["priority"]
            case "queue":
                self.running = told["queue"]["running"]
            case "state":
                pass
            case other:
                raise AssertionError(other)


def _never(lost: object) -> Any:
    raise AssertionError("nobody runs the hub")


KINDS = st.sampled_from(["job", "job", "locks", "rules", "queue", "gap", "read", "read", "glance", "refusal"])
STEPS = st.lists(st.tuples(KINDS, st.integers(1, 3), st.integers(0, 2)), max_size=40)


@given(STEPS, st.integers(1, 12), st.sampled_from([None, frozenset({JobId(1), JobId(3)})]))
def test_a_reader_that_comes_and_goes_has_what_is_there(
    steps: list[Step], most_events: int, ids: frozenset[JobId] | None
) -> None:
    async def story() -> None:
        world = World(most_events)
        reader = Reader(world, ids)
        for kind, key, number in steps:
            if kind == "read":
                await reader.read()
            elif kind == "glance":
                # the connection breaks after some events
                await reader.read(key + number)
            else:
                world.take(kind, key, number)
        await reader.read()

        wanted: Mapping[int, int | None] = world.jobs if ids is None else {each: world.jobs.get(each) for each in ids}
        assert reader.jobs == wanted
        assert (reader.held, reader.rule, reader.running) == (world.held, world.rule, world.running)

    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))
