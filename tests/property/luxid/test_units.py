"""The choice among jobs that use resources against a twin that looks at every job for every choice.

Source: DESIGN section 16; everyday.md section e.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from common.ids import JobId
from common.queue.explanation import LacksUnits, LimitFull, YieldsUnits
from common.queue.jobs import Job, JobOp, JobState
from common.queue.terms import JobTerms, read_use, terms_entry
from common.resources import Resource
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import explain
from tests.support.naive.units import NaiveUnits, NaiveUser

SLOTS = 4
KEYS = ("kits", "web1:memory")
uses = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 4), max_size=2)
totals = st.fixed_dictionaries({"kits": st.integers(1, 5), "web1:memory": st.integers(3, 5)})
other_totals = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 6), max_size=2)


def make_job(user: NaiveUser) -> Job:
    terms = JobTerms(uses=tuple(read_use(key, count) for key, count in user.uses.items()))
    trail = [terms_entry(terms, 1).to_wire()]
    if user.limit is not None:
        trail.append(["user", user.limit, 1])
    op = JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": trail}, priority=user.priority)
    return Job(JobId(user.job_id), (op,), received_at=(1000, 0))


class Choosing(RuleBasedStateMachine):
    queue: JobQueue
    twin: NaiveUnits

    @initialize(max_bypass=st.integers(1, 2), given=totals)
    def begin(self, max_bypass: int, given: dict[str, int]) -> None:
        self.next_id = 1
        self.twin = NaiveUnits(max_bypass, SLOTS)
        weights = WeightRules(is_enabled=False)
        self.queue = JobQueue(SLOTS, SLOTS, lambda _: None, weights, max_unit_bypass=max_bypass)
        self.set_totals(given)

    def settle(self) -> None:
        expected = self.twin.pick()
        found = self.queue.decide(2000.0).start
        assert list(found) == expected
        for job_id in found:
            self.queue.started(job_id)

    @rule(data=st.data(), wanted=st.lists(uses, min_size=2, max_size=4))
    def end_and_submit(self, data: st.DataObject, wanted: list[dict[str, int]]) -> None:
        """A stream: some end, and others come."""
        for each in wanted:
            if self.twin.running:
                self.end(data, lives_on=False)
            self.submit(each, 0, None)

    @rule(given=other_totals)
    def change_totals(self, given: dict[str, int]) -> None:
        self.set_totals(given)

    def set_totals(self, given: dict[str, int]) -> None:
        self.twin.totals = given
        found = ((read_use(key, 1), total) for key, total in given.items())
        self.queue.units.replace([Resource(use.node, use.resource, total) for use, total in found])
        self.settle()

    @rule(
        wanted=uses,
        priority=st.sampled_from((-10, 0, 0, 10)),
        limit=st.sampled_from((None, None, "rate-limit:1:a", "rate-limit:1:b")),
    )
    def submit_one(self, wanted: dict[str, int], priority: int, limit: str | None) -> None:
        self.submit(wanted, priority, limit)

    def submit(self, wanted: dict[str, int], priority: int, limit: str | None) -> None:
        user = NaiveUser(self.next_id, priority, wanted, limit)
        self.next_id += 1
        self.twin.ready[user.job_id] = user
        self.queue.add(make_job(user))
        self.settle()

    @precondition(lambda self: self.twin.running)
    @rule(data=st.data(), lives_on=st.booleans())
    def end_one(self, data: st.DataObject, lives_on: bool) -> None:
        self.end(data, lives_on=lives_on)

    def end(self, data: st.DataObject, *, lives_on: bool) -> None:
        user = self.twin.running.pop(data.draw(st.sampled_from(sorted(self.twin.running))))
        if lives_on:
            self.twin.left[user.job_id] = attrs_without_limit(user)
        self.queue.end(JobId(user.job_id), JobState.SUCCESS, lives_on=lives_on)
        self.settle()

    @precondition(lambda self: self.twin.left)
    @rule(data=st.data())
    def prove_death(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.twin.left)))
        del self.twin.left[job_id]
        self.queue.units.give(JobId(job_id))
        self.settle()

    @precondition(lambda self: self.twin.running)
    @rule(data=st.data(), meanwhile=st.booleans())
    def come_back(self, data: st.DataObject, meanwhile: bool) -> None:
        """A job that was paused, or whose process died between two opcodes, waits for its turn again."""
        user = self.twin.running.pop(data.draw(st.sampled_from(sorted(self.twin.running))))
        self.twin.left[user.job_id] = attrs_without_limit(user)
        self.queue.hold(JobId(user.job_id))
        if meanwhile:
            self.settle()
        del self.twin.left[user.job_id]
        self.twin.ready[user.job_id] = user
        self.queue.add(make_job(user))
        self.settle()

    @precondition(lambda self: self.twin.ready)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.twin.ready)))
        del self.twin.ready[job_id]
        self.queue.end(JobId(job_id), JobState.CANCELED)
        self.settle()

    @precondition(lambda self: self.twin.ready)
    @rule(data=st.data(), priority=st.sampled_from((-10, 0, 10)))
    def change_priority(self, data: st.DataObject, priority: int) -> None:
        user = self.twin.ready.pop(data.draw(st.sampled_from(sorted(self.twin.ready))))
        # it leaves the line for the moment in which its file is written
        self.twin.settle()
        user.priority = priority
        self.twin.ready[user.job_id] = user
        self.queue.hold(JobId(user.job_id))
        self.queue.add(make_job(user))
        self.settle()

    @invariant()
    def every_use_is_counted(self) -> None:
        if not hasattr(self, "twin"):
            return
        stock = self.queue.units.stock
        for key in KEYS:
            assert stock.free(key) == self.twin.free(key)
            assert sum(stock.users(key).values()) == stock.used(key)

    @invariant()
    def why_tells_what_each_job_lacks(self) -> None:
        if not hasattr(self, "twin"):
            return
        for user in self.twin.ready.values():
            reasons = explain(self.queue, JobId(user.job_id), 2000.0, lambda _: None)
            lacks = {each.resource: each for each in reasons if isinstance(each, LacksUnits)}
            yields = {each.resource: each for each in reasons if isinstance(each, YieldsUnits)}
            for key, count in user.uses.items():
                assert (key in lacks) == (count > self.twin.free(key))
                if key in lacks:
                    assert (lacks[key].wanted, lacks[key].free) == (count, self.twin.free(key))
                    assert lacks[key].total == self.twin.totals.get(key)
                    assert lacks[key].is_next == (user.job_id in self.twin.overdue)
                elif self.twin.is_short_of(user, key):
                    keeper = self.twin.keeper(key)
                    assert keeper is not None
                    assert yields[key].job_id == keeper.job_id
                else:
                    assert key not in yields
            assert any(isinstance(each, LimitFull) for each in reasons) == self.twin.is_full(user)

    @invariant()
    def nothing_stays_behind(self) -> None:
        if hasattr(self, "twin") and not self.twin.ready:
            assert not self.queue.units._asked
            assert not self.queue.units.passes._overdue
            assert not self.queue.units.passes._passes


def attrs_without_limit(user: NaiveUser) -> NaiveUser:
    return NaiveUser(user.job_id, user.priority, user.uses)


TestChoosing = Choosing.TestCase
TestChoosing.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
