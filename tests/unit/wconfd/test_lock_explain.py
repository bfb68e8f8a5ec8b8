"""explainWait: who waits for whom, to the ends of the chain."""

from common.locks import Lock, LockMode, Owner, parse_lock
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.explain import explain_holdings, explain_wait
from daemons.wconfd.core.locks.waiting import LockState
from daemons.wconfd.locks.lockstore import Since
from protocol.wconfd.locks import CommandOnNode, HeldSince, InTheWay, OrphanedLocks, WaitExplanation
from tests.support.locks import owner, requests


class Story:
    """A state with its instants: each step is one second after the one before."""

    def __init__(self, max_bypass: int | None = None) -> None:
        self.state = LockState.fair(max_bypass)
        self.now = 100.0
        self.since = Since(lambda: self.now)

    def ask(self, who: str, text: str, priority: int = 0) -> None:
        change = waiting.update_or_queue(self.state, owner(who), priority, requests(text))
        self._note(who, change)

    def free(self, who: str) -> None:
        self._note(who, waiting.free_all(self.state, owner(who)))

    def _note(self, who: str, change: waiting.LockChange) -> None:
        self.now += 1
        self.state = change.state
        self.since.note(owner(who), change, self.state)

    def why(self, who: str) -> WaitExplanation:
        return explain_wait(
            self.state,
            owner(who),
            held_since=self.since.held,
            waiting_since=self.since.waiting,
            counting_since=self.since.started,
        )


def test_an_orphan_in_the_way_is_named_with_its_node_and_its_end() -> None:
    story = Story()
    story.ask("job/1", "node/a=exclusive")
    story.ask("job/2", "node/b=exclusive")
    for who in ("job/1", "job/2"):
        story.state = orphanedlocks.keep_for(story.state, owner(who), [CommandOnNode("web2", f"{who[-1]}.0.1")]).state
        story.state = orphanedlocks.release_dead(story.state, [owner(who)], 50.0).state
    story.ask("job/3", "node/a=shared")

    why = explain_wait(
        story.state,
        owner("job/3"),
        held_since=story.since.held,
        waiting_since=story.since.waiting,
        counting_since=story.since.started,
        ghost_s=60.0,
    )

    assert names(why.roots) == ["job/1"]
    assert why.ghosts == (
        OrphanedLocks(
            owner("job/1"), 50.0, 110.0, (CommandOnNode("web2", "1.0.1"),), ((lock("node/a"), LockMode.EXCLUSIVE),)
        ),
    )


def names(owners: tuple[Owner, ...]) -> list[str]:
    return [str(each) for each in owners]


def lock(text: str) -> Lock:
    return parse_lock(text)


def test_a_chain_is_told_to_its_root_with_locks_modes_and_instants() -> None:
    story = Story()
    story.ask("job/1", "node/a=exclusive node/b=shared")
    story.ask("job/2", "instance/i=exclusive")
    story.ask("job/2", "node/b=exclusive")
    story.ask("job/3", "instance/i=shared instance/j=shared", priority=5)

    why = story.why("job/3")

    assert [str(wait.owner) for wait in why.waits] == ["job/3", "job/2"]
    assert (why.waits[0].waiting_since, why.waits[0].priority) == (104, 5)
    assert why.waits[0].in_the_way == (
        InTheWay(lock("instance/i"), LockMode.SHARED, owner("job/2"), lock("instance/i"), LockMode.EXCLUSIVE, 102),
    )
    assert why.waits[1].in_the_way == (
        InTheWay(lock("node/b"), LockMode.EXCLUSIVE, owner("job/1"), lock("node/b"), LockMode.SHARED, 101),
    )
    assert names(why.roots) == ["job/1"]
    assert why.rings == ()


def test_groups_and_members_in_the_way_are_named() -> None:
    story = Story()
    story.ask("job/1", "node/a=shared node/b=exclusive node/c=exclusive")
    story.ask("job/2", "node/[lockset]=shared")
    story.ask("job/3", "instance/[lockset]=exclusive")
    story.ask("job/4", "instance/i=shared")

    assert [str(row.held) for row in story.why("job/2").waits[0].in_the_way] == ["node/b", "node/c"]
    assert [str(row.held) for row in story.why("job/4").waits[0].in_the_way] == ["instance/[lockset]"]


def test_a_ring_is_shown() -> None:
    story = Story()
    for who in ("job/1", "job/2"):
        story.ask(who, "node/a=shared")
    for who in ("job/1", "job/2"):
        story.ask(who, "node/a=exclusive")
    story.ask("job/3", "node/a=exclusive")

    why = story.why("job/3")

    assert [names(ring) for ring in why.rings] == [["job/1", "job/2"]]
    assert why.roots == ()


def test_who_is_held_back_by_an_overdue_request_is_told_so() -> None:
    story = Story(max_bypass=0)
    story.ask("job/1", "node/a=shared")
    story.ask("job/2", "node/a=exclusive")
    story.ask("job/3", "node/a=shared")

    why = story.why("job/3")

    assert why.waits[0].in_the_way == ()
    assert names(why.waits[0].held_back_by) == ["job/2"]
    assert [str(wait.owner) for wait in why.waits] == ["job/3", "job/2"]
    assert names(why.roots) == ["job/1"]


def test_who_does_not_wait_has_nothing_to_explain() -> None:
    story = Story()
    story.ask("job/1", "node/a=shared")

    assert story.why("job/1") == WaitExplanation((), (), (), 100)


def test_instants_last_as_long_as_what_they_tell_of() -> None:
    story = Story()
    story.ask("job/1", "node/a=shared")
    story.ask("job/1", "node/a=exclusive")
    assert story.since.held(owner("job/1"), lock("node/a")) == 101

    story.ask("job/2", "node/a=exclusive")
    story.ask("job/2", "node/a=exclusive")
    assert story.since.waiting(owner("job/2")) == 103

    story.free("job/1")
    assert story.since.held(owner("job/1"), lock("node/a")) is None
    assert story.since.held(owner("job/2"), lock("node/a")) == 105
    assert story.since.waiting(owner("job/2")) is None


def test_what_owners_hold_is_told_with_instants_owner_by_owner() -> None:
    story = Story()
    story.ask("job/2", "node/b=exclusive")
    story.ask("job/1", "node/a=shared")
    story.ask("job/2", "node/c=shared")

    told = explain_holdings(
        story.state, [owner(who) for who in ("job/2", "job/9", "job/1", "job/2")], held_since=story.since.held
    )

    assert told == (
        HeldSince(owner("job/2"), lock("node/b"), LockMode.EXCLUSIVE, 101),
        HeldSince(owner("job/2"), lock("node/c"), LockMode.SHARED, 103),
        HeldSince(owner("job/1"), lock("node/a"), LockMode.SHARED, 102),
    )
