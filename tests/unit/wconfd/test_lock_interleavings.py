"""Every order in which some owners may ask: `tests/transcripts/interleavings.txt`, and the whole graph of states.

A case of the file is one line for each owner with its requests in order, separated by `;`. Under `----` stands for
each end, `WAITER<OWNERS IN THE WAY ...`, in how many of all orders it is reached; owners are a, b, c, and `ok`
means that nobody waits. An order in which an owner would ask while its request before is pending cannot occur.

Run as a module, with the names of locks such as 123, for more states.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from immutables import Map

from common.errors import LockRuleViolation
from common.locks import LockMode, LockRequest, Owner, parse_lock
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.encoding import encode
from daemons.wconfd.core.locks.waiting import LockState
from tests.support.locks import requests, state_text
from tests.support.naive.fairness import NaiveFairLocks
from tests.support.naive.locks import NaiveLocks

SPEC = Path(__file__).parents[2] / "transcripts" / "interleavings.txt"
Programs = list[tuple[Owner, list[list[LockRequest]]]]


def cases() -> Iterator[tuple[str, str]]:
    for block in SPEC.read_text("utf-8").split("\n\n"):
        text = "\n".join(line for line in block.splitlines() if not line.startswith("#"))
        programs, separator, ends = text.partition("\n----\n")
        if separator:
            yield programs, ends


def read(programs: str) -> Programs:
    lines = [line.partition(": ") for line in programs.splitlines()]
    return [(Owner(name, f"/{name}"), [requests(step) for step in steps.split(";")]) for name, _, steps in lines]


def ends(state: LockState, left: Programs) -> Counter[str]:
    """How each order of the steps that are left ends."""
    found: Counter[str] = Counter()
    for index, (who, steps) in enumerate(left):
        if steps and state.pending_of(who) is None:
            after = [*left[:index], (who, steps[1:]), *left[index + 1 :]]
            found += ends(ask(state, who, steps[0]), after)
    return found if any(steps for _, steps in left) else Counter([waits_text(state)])


def ask(state: LockState, who: Owner, items: list[LockRequest]) -> LockState:
    """One request, on whose way every invariant is looked at."""
    state = waiting.update_or_queue(state, who, 0, items).state
    holders = [(lock, held) for lock, held in state.table.locks_with_holders() if held]
    assert all(len(held) == 1 or LockMode.EXCLUSIVE not in held.values() for _, held in holders), state_text(state)
    return state


def waits_text(state: LockState) -> str:
    waits = (f"{each.owner}<{''.join(map(str, waiting.blockers(state, each.owner)))}" for each in state.all_pending())
    return " ".join(waits) or "ok"


def ends_text(programs: str) -> str:
    found = ends(LockState(), read(programs))
    return "\n".join(f"{text}: {count}" for text, count in sorted(found.items()))


@pytest.mark.parametrize(("programs", "expected"), list(cases()))
def test_every_order_of_the_requests_ends_as_the_file_says(programs: str, expected: str) -> None:
    assert ends_text(programs) == expected


def test_there_are_cases() -> None:
    assert len(list(cases())) >= 8


OWNERS = [Owner(name, f"/{name}") for name in "abc"]


def steps_on(locks: str) -> list[tuple[Owner, LockRequest]]:
    """Every request of one item that any of three owners may make."""
    modes = [LockMode.SHARED, LockMode.EXCLUSIVE, None]
    items = [LockRequest(parse_lock(f"node/{name}"), mode) for name, mode in product(locks, modes)]
    return list(product(OWNERS, items))


@pytest.mark.parametrize(("max_bypass", "states"), [(None, 1327), (0, 1_501)], ids=["exact", "fair"])
def test_in_every_state_that_can_be_reached_each_request_does_what_the_twin_does(
    max_bypass: int | None, states: int
) -> None:
    assert explore("12", max_bypass) == states


def explore(locks: str, max_bypass: int | None) -> int:
    """Make every step once from each state, until no new state comes up: all interleavings of any length.

    Return the number of states. Three locks have 18,294, and take a minute.
    """
    first = LockState.fair(max_bypass), NaiveLocks() if max_bypass is None else NaiveFairLocks(max_bypass)
    reached, left = {key(first[0])}, [first]
    while left:
        state, twin = left.pop()
        for who, item in steps_on(locks):
            after, twin_after = step(state, who, item), twin_step(twin, who, item)
            assert facts(after) == twin_facts(twin_after), f"{who} {item} in\n{state_text(state)}"
            if key(after) not in reached:
                reached.add(key(after))
                left.append((after, twin_after))

    return len(reached)


def key(state: LockState) -> tuple[bytes, frozenset[Owner]]:
    return encode(state), frozenset(state.fairness.overdue)


def step(state: LockState, who: Owner, item: LockRequest) -> LockState:
    try:
        return waiting.update_or_queue(state, who, 0, [item]).state
    except LockRuleViolation:
        return state


def twin_step(twin: NaiveLocks, who: Owner, item: LockRequest) -> NaiveLocks:
    after = twin.copy()
    try:
        after.update_or_queue(who, 0, [item])
    except LockRuleViolation:
        return twin
    return after


def facts(state: LockState) -> tuple[object, object]:
    held = {who: state.table.modes_of(who) for who in state.table.owners()}
    return held, {each.owner: list(each.requests) for each in state.all_pending()}


def twin_facts(twin: NaiveLocks) -> tuple[object, object]:
    held = {who: Map(locks) for who, locks in twin.held.items()}
    return held, {who: wanted for who, (_, wanted) in twin.pending.items()}


if __name__ == "__main__":
    print(f"{explore(sys.argv[1], None)} states, no difference")
