"""Lock names, order, groups and owners (daemons design; wconfd.md sections 3 and 4)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.locks import (
    BGL,
    CONFIG_LOCK,
    Lock,
    LockLevel,
    LockMode,
    LockRequest,
    Owner,
    group_lock,
    owned_from_wire,
    parse_lock,
)

IN_ORDER = [
    "cluster/[lockset]", "cluster/BGL", "instance/[lockset]", "instance/i", "nodegroup/[lockset]", "nodegroup/g",
    "node/[lockset]", "node/", "node/B", "node/[lockset]x", "node/a10", "node/a9", "node/b", "node-res/[lockset]",
    "node-res/n", "network/[lockset]", "network/w", "cluster/config",
]  # fmt: skip

names = st.text(max_size=8)
levels = st.sampled_from([level for level in LockLevel if level not in (LockLevel.CLUSTER, LockLevel.CONFIG)])
locks = st.one_of(
    st.builds(lambda level, name: parse_lock(f"{level.value}/{name}"), levels, names),
    st.sampled_from([BGL, CONFIG_LOCK, group_lock(LockLevel.CLUSTER)]),
)


def test_the_order_is_the_one_of_the_design() -> None:
    assert sorted(map(parse_lock, reversed(IN_ORDER))) == list(map(parse_lock, IN_ORDER))


@given(locks)
def test_a_lock_name_goes_over_the_wire_unchanged(lock: Lock) -> None:
    assert parse_lock(str(lock)) == lock


@given(locks)
def test_a_group_comes_before_its_members(lock: Lock) -> None:
    assert lock.group is None or (lock.group < lock and lock.group.is_group)


@given(locks, locks)
def test_everything_between_a_group_and_a_member_is_a_member(lock: Lock, other: Lock) -> None:
    group = lock.group

    if group is not None and group < other <= lock:
        assert other.group == group


def test_the_configuration_lock_is_of_no_group_and_of_its_own_level() -> None:
    assert CONFIG_LOCK.group is None
    assert CONFIG_LOCK.level is LockLevel.CONFIG
    assert not CONFIG_LOCK.is_group
    assert BGL.group == group_lock(LockLevel.CLUSTER)


@pytest.mark.parametrize("name", ["", "node", "foo/a", "cluster/x", "cluster/", "config/x", "Node/a", "/a"])
def test_a_malformed_lock_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_lock(name)

    assert repr(name) in caught.value.message or repr(name.partition("/")[0]) in caught.value.message


@pytest.mark.parametrize(
    "value", [["node/a"], ["node/a", "x"], ["node/a", None], "node/a", [1, "shared"], ["x/a", "shared"]]
)
def test_a_malformed_request_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        LockRequest.from_wire(value)


def test_a_held_lock_cannot_be_held_in_mode_release() -> None:
    with pytest.raises(InvalidRequest, match="modes are shared and exclusive"):
        owned_from_wire(["node/a", "release"])


@pytest.mark.parametrize("mode", ["shared", "exclusive", "release"])
def test_a_request_goes_over_the_wire_unchanged(mode: str) -> None:
    assert LockRequest.from_wire(["node/a", mode]).to_wire() == ["node/a", mode]


def test_a_mode_covers_itself_and_the_weaker_ones() -> None:
    order = [None, LockMode.SHARED, LockMode.EXCLUSIVE]

    for (i, strong), (j, weak) in itertools.product(enumerate(order), repeat=2):
        if strong is not None:
            assert strong.covers(weak) == (i >= j)


def test_the_pid_is_no_part_of_an_owner_but_is_shown_again() -> None:
    with_pid, without = Owner.from_wire([5, "/l", 77]), Owner.from_wire([5, "/l"])

    assert with_pid == without
    assert hash(with_pid) == hash(without)
    assert with_pid.to_wire() == [5, "/l", 77]
    assert without.to_wire() == [5, "/l"]


def test_the_same_job_with_another_livelock_is_another_owner() -> None:
    assert Owner(5, "/l1") != Owner(5, "/l2")
    assert Owner.from_wire(["12", "/l"]) != Owner.from_wire([12, "/l"])


def test_owners_are_ordered_names_first_then_jobs_by_number() -> None:
    owners = [Owner("b", "/"), Owner("ba", "/"), Owner(2, "/"), Owner(10, "/a"), Owner(10, "/b")]

    assert sorted(reversed(owners), key=Owner.sort_key) == owners


@pytest.mark.parametrize(
    "value", [[5], [5.5, "/l"], [-1, "/l"], [None, "/l"], [True, "/l"], [5, 6], [5, "/l", "x"], "x"]
)
def test_a_malformed_owner_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        Owner.from_wire(value)


def test_a_job_number_may_come_as_a_whole_float() -> None:
    assert Owner.from_wire([5.0, "/l"]) == Owner(5, "/l")
