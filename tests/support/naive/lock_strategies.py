"""Hypothesis strategies for locks: a small universe in which almost everything collides.

States are built through the core's own functions, so that no impossible one is made; a step that
is refused leaves the state as it was.
"""

from hypothesis import strategies as st

from common.errors import LockRuleViolation
from common.locks import Lock, LockMode, LockRequest, Owner, parse_lock
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.table import LockTable
from daemons.wconfd.core.locks.waiting import LockState
from tests.support.locks import owner

OWNERS = [owner(name) for name in ["job/2", "job/10", "luxid", "job/3"]]
GROUPS = list(map(parse_lock, ["cluster/[lockset]", "instance/[lockset]", "node/[lockset]"]))
MEMBERS = list(map(parse_lock, ["cluster/BGL", "instance/a", "instance/b", "node/a", "node/b", "node/c"]))
LOCKS = sorted([*GROUPS, *MEMBERS, parse_lock("cluster/config")])

owners = st.sampled_from(OWNERS)
locks = st.one_of(st.sampled_from(MEMBERS), st.sampled_from(LOCKS))
modes = st.sampled_from(list(LockMode))
priorities = st.integers(-2, 2)
items = st.builds(LockRequest, locks, st.sampled_from([None, *LockMode]))
request_lists = st.lists(items, max_size=4)
wanted = st.lists(st.tuples(locks, modes), max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> LockTable:
    """Some updates from empty."""
    state = LockState()
    for who, requests in draw(st.lists(st.tuples(owners, request_lists), max_size=8)):
        state = stepped(state, who, requests)
    return state.table


def stepped(state: LockState, who: Owner, requests: list[LockRequest]) -> LockState:
    try:
        return waiting.try_update(state, who, requests).state
    except LockRuleViolation:
        return state


@st.composite
def lock_states(draw: st.DrawFn) -> LockState:
    """Some steps from empty; most of them queue."""
    state = LockState()
    steps = st.tuples(st.integers(0, 9), owners, request_lists, priorities, st.lists(locks, max_size=4), wanted)
    for choice, who, requests, priority, kept, union in draw(st.lists(steps, max_size=10)):
        if choice < 3:
            state = stepped(state, who, requests)
        elif choice < 8:
            state = queued(state, who, priority, requests)
        elif choice < 9:
            state = waiting.intersect(state, who, kept).state
        else:
            state = waiting.opportunistic_union(state, who, union).state
    return state


def queued(state: LockState, who: Owner, priority: int, requests: list[LockRequest]) -> LockState:
    try:
        return waiting.update_or_queue(state, who, priority, requests).state
    except LockRuleViolation:
        return state


def conflicts(a: tuple[Lock, LockMode], b: tuple[Lock, LockMode]) -> bool:
    """Whether two owners may not hold these at the same time."""
    related = a[0] == b[0] or a[0].group == b[0] or a[0] == b[0].group
    return related and LockMode.EXCLUSIVE in (a[1], b[1])
