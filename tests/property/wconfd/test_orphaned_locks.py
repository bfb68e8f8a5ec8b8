"""MayRun and orphans against their dumb twin, and what must hold whatever happens (`protocol.wconfd.locks`)."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from common.errors import GantryError
from common.locks import Lock, LockMode, LockRequest, Owner
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.encoding import (
    LockRows,
    digest,
    encode,
    encode_changes,
    encode_header,
    encode_line,
    rebuild,
    replay,
)
from daemons.wconfd.core.locks.mayrun import decode_may_run, encode_may_run
from daemons.wconfd.core.locks.waiting import LockState
from protocol.wconfd.locks import Claim, CommandOnNode
from tests.property.wconfd.test_lock_waiting import has_ring
from tests.support.naive.lock_strategies import MEMBERS, conflicts, locks, modes, priorities, request_lists
from tests.support.naive.orphans import NaiveOrphans

# two processes of one job, and two other owners
OWNERS = [Owner(1, "/l/1a"), Owner(1, "/l/1b"), Owner(2, "/l/2"), Owner(3, "/l/3"), Owner("luxid", "/l/luxid")]
owners = st.sampled_from(OWNERS)
keys = st.lists(st.sampled_from(["1.0.1", "1.1.1", "2.0.1"]), max_size=2)
owned = st.lists(st.tuples(locks, modes), max_size=3)

Granted = list[Owner]
Outcome = Granted | type[GantryError]


class GhostsAgainstTheirTwin(RuleBasedStateMachine):
    """The core and the dumb twin get the same calls, each twice; the journal is replayed after each."""

    # each exclusive request that waits is overdue at once
    MAX_BYPASS = 0

    def __init__(self) -> None:
        super().__init__()
        self.state = LockState.fair(self.MAX_BYPASS)
        self.twin = NaiveOrphans(self.MAX_BYPASS)
        # owner -> what it held when it died with a command on a node, and nobody may have since then
        self.kept: dict[Owner, dict[Lock, LockMode]] = {}

    def both(self, act: Callable[[LockState], orphanedlocks.OwnersChange], naive_act: Callable[[], Granted]) -> None:
        before = self.twin.copy()
        expected: Outcome
        try:
            expected = naive_act()
        except GantryError as error:
            expected, self.twin = type(error), before
        assert self.call(act) == expected

    def call(self, act: Callable[[LockState], orphanedlocks.OwnersChange]) -> Outcome:
        try:
            outcome = act(self.state)
        except GantryError as error:
            return type(error)
        again = act(outcome.state)
        assert again.state == outcome.state
        check_journal(self.state, outcome)
        self.state = outcome.state
        return [owner for made in outcome.made for owner in made.change.granted]

    def own(
        self,
        who: Owner,
        act: Callable[[LockState], waiting.LockChange],
        naive_act: Callable[[], tuple[Granted, Granted]],
    ) -> None:
        """A call of a living owner; the dead make none."""
        if who not in self.twin.orphans:
            self.both(lambda state: alone(who, act(state)), lambda: naive_act()[1])

    @rule(who=owners, requests=request_lists)
    def update(self, who: Owner, requests: list[LockRequest]) -> None:
        self.own(
            who,
            lambda state: waiting.try_update(state, who, requests),
            lambda: self.twin.try_update(who, requests),
        )

    @rule(who=owners, priority=priorities, lock=locks, mode=modes)
    def queue(self, who: Owner, priority: int, lock: Lock, mode: LockMode) -> None:
        requests = [LockRequest(lock, mode)]
        self.own(
            who,
            lambda state: waiting.update_or_queue(state, who, priority, requests),
            lambda: self.twin.update_or_queue(who, priority, requests),
        )

    @rule(who=owners, kept=st.lists(locks, max_size=3))
    def intersect(self, who: Owner, kept: list[Lock]) -> None:
        self.own(who, lambda state: waiting.intersect(state, who, kept), lambda: ([], self.twin.intersect(who, kept)))

    @rule(who=owners, kept=keys)
    def command(self, who: Owner, kept: list[str]) -> None:
        def naive_act() -> tuple[Granted, Granted]:
            self.twin.keep_for(who, kept)
            return [], []

        self.own(who, lambda state: orphanedlocks.keep_for(state, who, commands(kept)), naive_act)

    @rule(who=owners)
    def share_under_guard(self, who: Owner) -> None:
        self.update(who, [LockRequest(MEMBERS[3], LockMode.SHARED)])
        self.command(who, ["1.0.1"])

    @rule(who=owners, lock=st.sampled_from(MEMBERS[3:5]), is_all=st.booleans())
    def want_some_of_a_few(self, who: Owner, lock: Lock, is_all: bool) -> None:
        mode = LockMode.EXCLUSIVE if is_all else LockMode.SHARED
        wanted = [LockRequest(each, mode) for each in (MEMBERS[3:5] if is_all else [lock])]
        self.own(
            who,
            lambda state: waiting.update_or_queue(state, who, 0, wanted),
            lambda: self.twin.update_or_queue(who, 0, wanted),
        )

    @rule(who=owners)
    def die(self, who: Owner) -> None:
        if who in self.twin.may_run:
            self.kept[who] = dict(self.twin.held[who])
        self.both(lambda state: orphanedlocks.release_dead(state, [who], 1.0), lambda: self.twin.die(who))

    @rule(released=keys)
    def release(self, released: list[str]) -> None:
        self.both(lambda state: orphanedlocks.release(state, released), lambda: self.twin.release(released))
        self.kept = {owner: held for owner, held in self.kept.items() if self.twin.may_run.get(owner)}

    @rule(who=owners)
    def adopt(self, who: Owner) -> None:
        def naive_act() -> Granted:
            self.twin.adopt(who)
            return []

        held = [self.kept[orphan] for orphan in self.twin.orphans if orphan.ident == who.ident]
        self.both(lambda state: orphanedlocks.adopt(state, who), naive_act)
        if not any(orphan.ident == who.ident for orphan in self.twin.orphans):
            assert all(lock in self.twin.held[who] for locks_held in held for lock in locks_held)
            self.kept = {owner: locks_held for owner, locks_held in self.kept.items() if owner.ident != who.ident}

    @rule(who=owners, locks_claimed=owned, claimed=keys)
    def claim(self, who: Owner, locks_claimed: list[tuple[Lock, LockMode]], claimed: list[str]) -> None:
        if who in self.twin.pending:
            return
        claim = Claim(who, tuple(locks_claimed), tuple(commands(claimed)))
        self.both(
            lambda state: orphanedlocks.claim_locks(state, [claim], 1.0),
            lambda: self.twin.claim(who, locks_claimed, claimed)[1],
        )
        if who in self.twin.orphans:
            self.kept[who] = dict(self.twin.held[who])

    @rule()
    def save_and_load(self) -> None:
        """Whether a request is overdue is not stored: what was held back may be granted, but nothing of an orphan."""
        read = rebuild(
            LockRows.read(encode(self.state)), self.MAX_BYPASS, decode_may_run(encode_may_run(self.state.may_run))
        )

        assert read.may_run == self.state.may_run
        for orphan in self.state.may_run.orphans:
            assert read.table.held_by(orphan) == self.state.table.held_by(orphan)

    @invariant()
    def the_states_agree(self) -> None:
        held = {who: dict(self.state.table.held_by(who)) for who in self.state.table.owners()}
        assert held == self.twin.held
        assert {each.owner for each in self.state.all_pending()} == self.twin.pending.keys()
        assert {who: {each.key for each in row.commands} for who, row in self.state.may_run} == self.twin.may_run
        assert self.state.may_run.orphans == self.twin.orphans

    @invariant()
    def no_lock_of_an_orphan_is_anybody_elses(self) -> None:
        for orphan, kept in self.kept.items():
            for other in self.state.table.owners():
                for item in self.state.table.held_by(other).items():
                    assert other == orphan or not any(conflicts(item, each) for each in kept.items())

    @invariant()
    def every_pending_request_is_blocked_by_one_that_can_go_and_nobody_waits_in_a_ring(self) -> None:
        behind = {who: waiting.blockers(self.state, who) for who in OWNERS}
        assert all(behind[request.owner] for request in self.state.all_pending())
        assert not has_ring(behind)


def commands(of_keys: list[str]) -> list[CommandOnNode]:
    return [CommandOnNode("web1", key) for key in of_keys]


def alone(who: Owner, change: waiting.LockChange) -> orphanedlocks.OwnersChange:
    return orphanedlocks.OwnersChange(change.state, (orphanedlocks.Made(who, change),))


def check_journal(before: LockState, outcome: orphanedlocks.OwnersChange) -> None:
    """The line of the journal leads from one state to the other."""
    snapshot = encode(before)
    header, crc = encode_header(digest(snapshot))
    made = [(each.owner, each.change) for each in outcome.made]
    line, _ = encode_line(encode_changes(before, outcome.state, made), crc)
    rows = LockRows.read(snapshot)
    replay(header + line, snapshot, rows)
    assert {who: modes for who, modes in rows.held.values()} == {
        who: outcome.state.table.held_by(who) for who in outcome.state.table.owners()
    }
    assert {each.owner for each in rows.requests()} == {each.owner for each in outcome.state.all_pending()}


TestGhostsAgainstTheirTwin = GhostsAgainstTheirTwin.TestCase
TestGhostsAgainstTheirTwin.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
