"""MayRun, orphans and what ends them, step by step (`protocol.wconfd.locks`; DESIGN section 14)."""

import pytest

from common.errors import AlreadyPending, Conflict, DamagedFile
from common.locks import Owner
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.encoding import LockRows, encode, rebuild
from daemons.wconfd.core.locks.mayrun import NOTHING_RUNS, OwnersCommands, decode_may_run, encode_may_run
from daemons.wconfd.core.locks.orphanedlocks import OwnersChange
from daemons.wconfd.core.locks.waiting import LockState
from protocol.wconfd.locks import Claim, CommandOnNode
from tests.support.locks import held_text, owned, owner, requests, state_text

OLD, NEW, OTHER, THIRD = Owner(1, "/l/old"), Owner(1, "/l/new"), owner("job/2"), owner("job/3")
G1, G2 = CommandOnNode("web1", "1.0.1"), CommandOnNode("web2", "1.0.2")
NOW = 1000.0


def took(state: LockState, who: Owner, text: str) -> LockState:
    change = waiting.try_update(state, who, requests(text))
    assert not change.blocked_on
    return change.state


def queued(state: LockState, who: Owner, text: str) -> LockState:
    change = waiting.update_or_queue(state, who, 0, requests(text))
    assert change.blocked_on
    return change.state


def kept(text: str, *commands: CommandOnNode, state: LockState | None = None) -> LockState:
    return orphanedlocks.keep_for(took(state or LockState(), OLD, text), OLD, commands or (G1,)).state


def dead(state: LockState, who: Owner = OLD) -> LockState:
    return orphanedlocks.release_dead(state, [who], NOW).state


def moved(outcome: OwnersChange) -> list[tuple[Owner, list[str]]]:
    return [
        (move.owner, [f"{lock}={mode and mode.value}" for lock, mode in move.modes.items()])
        for made in outcome.made
        for move in made.change.moves
    ]


def test_guards_are_added_each_once_and_sorted() -> None:
    state = kept("node/a=shared", G2, G1, G1)

    assert state.may_run.of(OLD) == OwnersCommands((G1, G2))
    assert orphanedlocks.keep_for(state, OLD, [G2]).state is state
    assert orphanedlocks.keep_for(state, OTHER, []).state is state
    with pytest.raises(Conflict, match="job/2 holds no lock"):
        orphanedlocks.keep_for(state, OTHER, [G1])


def test_the_guards_of_the_living_go_with_their_last_lock_and_not_before() -> None:
    state = kept("node/a=shared node/b=exclusive")

    state = waiting.intersect(state, OLD, [owned("node/a=shared")[0][0]]).state
    assert OLD in state.may_run
    assert OLD not in waiting.try_update(state, OLD, requests("node/a=release")).state.may_run
    assert OLD in waiting.try_update(state, OLD, requests("node/a=release node/c=shared")).state.may_run
    assert OLD not in waiting.free_all(state, OLD).state.may_run


def test_death_keeps_the_locks_of_a_guarded_owner_and_drops_what_it_waits_for() -> None:
    state = kept("node/a=exclusive", state=took(LockState(), OTHER, "node/b=exclusive"))
    state = queued(queued(state, OLD, "node/b=shared"), THIRD, "node/a=shared")

    outcome = orphanedlocks.release_dead(state, [OLD], NOW)

    assert held_text(outcome.state.table, OLD) == "node/a=exclusive"
    assert outcome.state.pending_of(OLD) is None
    assert outcome.state.pending_of(THIRD) is not None
    assert outcome.state.may_run.of(OLD) == OwnersCommands((G1,), NOW)
    again = orphanedlocks.release_dead(outcome.state, [OLD], NOW + 5)
    assert again.state is outcome.state
    assert again.made == ()


def test_an_owner_without_guards_is_freed_by_its_death() -> None:
    state = dead(took(kept("node/a=shared"), OTHER, "node/b=shared"), OTHER)

    assert state_text(state) == "job/1: node/a=shared"


def test_the_last_guard_laid_frees_an_orphan_and_no_living_owner() -> None:
    living = kept("node/a=exclusive", G1, G2)
    orphan = queued(dead(living), OTHER, "node/a=shared")

    assert orphanedlocks.release(living, {"1.0.1", "1.0.2"}).state == took(LockState(), OLD, "node/a=exclusive")
    one = orphanedlocks.release(orphan, {"1.0.1", "8.0.1"}).state
    assert one.may_run.of(OLD) == OwnersCommands((G2,), NOW)
    assert held_text(one.table, OTHER) == ""
    outcome = orphanedlocks.release(one, {"1.0.2"})
    assert state_text(outcome.state) == "job/2: node/a=shared"
    assert [made.change.granted for made in outcome.made] == [(OTHER,)]
    assert orphanedlocks.release(outcome.state, {"1.0.2"}).state is outcome.state


def test_adoption_moves_what_was_held_and_grants_nobody_anything() -> None:
    state = queued(dead(kept("node/a=exclusive node/b=shared")), OTHER, "node/a=shared")

    outcome = orphanedlocks.adopt(state, NEW)

    assert moved(outcome) == [
        (OLD, ["node/a=None", "node/b=None"]),
        (NEW, ["node/a=exclusive", "node/b=shared"]),
    ]
    assert outcome.state.may_run.of(NEW) == OwnersCommands((G1,))
    assert OLD not in outcome.state.may_run
    assert state_text(outcome.state).replace("job/2 waits at 0: node/a=shared", "") == (
        "job/1: node/a=exclusive node/b=shared\n"
    )
    assert orphanedlocks.adopt(outcome.state, NEW).state is outcome.state
    # the request is parked where it belongs
    assert held_text(waiting.free_all(outcome.state, NEW).state.table, OTHER) == "node/a=shared"


def test_two_orphans_of_a_job_are_adopted_with_the_stronger_mode() -> None:
    older = Owner(1, "/l/older")
    state = took(LockState(), older, "node/a=shared node/c=exclusive")
    state = dead(orphanedlocks.keep_for(state, older, [G2]).state, older)
    state = dead(kept("node/a=shared node/b=shared", state=state))

    after = orphanedlocks.adopt(state, NEW).state

    assert state_text(after) == "job/1: node/a=shared node/b=shared node/c=exclusive"
    assert after.may_run.of(NEW) == OwnersCommands((G1, G2))


def test_an_owner_that_was_taken_for_dead_adopts_itself() -> None:
    state = orphanedlocks.adopt(dead(kept("node/a=shared")), OLD).state

    assert state == kept("node/a=shared")


def test_adoption_is_refused_while_an_earlier_owner_is_no_orphan_and_with_a_pending_request() -> None:
    with pytest.raises(Conflict, match="an earlier process of job/1 still has locks, with the livelock '/l/old'"):
        orphanedlocks.adopt(kept("node/a=shared"), NEW)
    with pytest.raises(AlreadyPending):
        orphanedlocks.adopt(queued(dead(kept("node/a=exclusive")), NEW, "node/a=shared"), NEW)
    assert orphanedlocks.adopt(LockState(), NEW).made == ()


def claim(who: Owner, text: str, *commands: CommandOnNode) -> Claim:
    return Claim(who, tuple(owned(text)), commands)


def test_claims_become_orphans_unless_others_are_in_the_way() -> None:
    state = took(LockState(), OTHER, "node/b=shared")

    outcome = orphanedlocks.claim_locks(
        state,
        [
            claim(OLD, "node/a=exclusive node/b=shared", G1),
            claim(THIRD, "node/b=exclusive", CommandOnNode("web3", "3.0.1")),
            claim(owner("job/4"), "node/z=shared"),
            claim(owner("job/5"), "", CommandOnNode("web3", "5.0.1")),
        ],
        NOW,
    )

    assert outcome.refused == (THIRD,)
    assert state_text(outcome.state) == "job/1: node/a=exclusive node/b=shared\njob/2: node/b=shared"
    assert outcome.state.may_run.of(OLD) == OwnersCommands((G1,), NOW)
    again = orphanedlocks.claim_locks(outcome.state, [claim(OLD, "node/a=exclusive", G1)], NOW + 1)
    assert again.state is outcome.state
    adopted = orphanedlocks.adopt(outcome.state, NEW).state
    assert orphanedlocks.claim_locks(adopted, [claim(OLD, "node/a=exclusive", G1)], NOW + 1).state is adopted


def test_a_claim_of_an_owner_that_holds_locks_only_adds_its_guards() -> None:
    state = took(LockState(), OLD, "node/a=shared")

    after = orphanedlocks.claim_locks(state, [claim(OLD, "node/a=shared", G1)], NOW).state

    assert after == kept("node/a=shared")


def test_orphans_end_when_their_time_is_over() -> None:
    state = queued(dead(kept("node/a=exclusive")), OTHER, "node/a=shared")

    assert orphanedlocks.expire(state, NOW - 1).state is state
    assert state_text(orphanedlocks.expire(state, NOW).state) == "job/2: node/a=shared"
    assert orphanedlocks.expire(kept("node/a=shared"), NOW).made == ()
    assert [orphan.ends_at for end_s in (0, 60) for orphan in orphanedlocks.orphans_of(state, end_s)] == [
        None,
        NOW + 60,
    ]


def test_an_overdue_request_that_waits_for_an_orphan_holds_nobody_back() -> None:
    state = kept("node/a=shared", state=LockState.fair(0))
    state = queued(state, OTHER, "node/a=exclusive node/b=exclusive")
    state = queued(state, THIRD, "node/b=shared")

    outcome = orphanedlocks.release_dead(state, [OLD], NOW)

    assert [made.change.granted for made in outcome.made] == [(THIRD,)]
    fourth = owner("job/4")
    passed = waiting.update_or_queue(outcome.state, fourth, 0, requests("node/a=shared"))
    assert passed.blocked_on == ()
    # once the orphan is adopted, its turn is as good as any
    adopted = orphanedlocks.adopt(waiting.free_all(passed.state, fourth).state, NEW).state
    assert waiting.update_or_queue(adopted, fourth, 0, requests("node/a=shared")).blocked_on == (OTHER,)


def test_guards_are_read_as_they_were_written_and_those_of_owners_without_locks_are_dropped() -> None:
    state = dead(kept("node/a=exclusive", G1, G2))
    other = Owner("größe", "/l/x", 4711)
    state = orphanedlocks.keep_for(took(state, other, "node/b=shared"), Owner("größe", "/l/x"), [G2]).state
    assert encode_may_run(state.may_run) == (
        rb'{"guarded":[[["gr\u00f6\u00dfe","/l/x",4711],[["web2","1.0.2"]],null],'
        b'[[1,"/l/old"],[["web1","1.0.1"],["web2","1.0.2"]],1000.0]]}'
    )

    may_run = decode_may_run(encode_may_run(state.may_run))

    assert may_run == state.may_run
    assert rebuild(LockRows.read(encode(state)), may_run=may_run) == state
    freed = LockRows.read(encode(waiting.free_all(state, OLD).state))
    assert rebuild(freed, may_run=may_run).may_run == state.may_run.without(OLD)
    assert decode_may_run(b'{"guarded":[]}') == NOTHING_RUNS


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "byte 0"),
        (b"[]", "$"),
        (b'{"guarded":[],"more":1}', "$"),
        (b'{"guarded":[[[1,"/a"],[],null]]}', "$.guarded[0]"),
        (b'{"guarded":[[[1,"/a"],[["n"]],null]]}', "$.guarded[0]"),
        (b'{"guarded":[[[1,"/a"],[["n","k"]],true]]}', "$.guarded[0]"),
        (b'{"guarded":[[[1,"/a"],[["n","k"]],null],[[1,"/a"],[["n","k"]],2]]}', "$.guarded[1]"),
    ],
)
def test_damaged_guards_are_refused_with_their_place(content: bytes, place: str) -> None:
    with pytest.raises(DamagedFile, match="the list of commands for which locks are kept is damaged at") as caught:
        decode_may_run(content)

    assert caught.value.fields["where"] == place
