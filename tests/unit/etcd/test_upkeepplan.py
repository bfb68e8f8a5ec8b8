"""The next step for etcd, from what is seen of its members.

Source: lease.md 5.
"""

from collections.abc import Mapping

import attrs
import pytest

from common.lease.records import Fullness
from protocol.etcd.address import Endpoint
from protocol.etcd.kv import Header
from protocol.etcd.questions import Alarm, MemberStatus, quota_of
from protocol.etcd.upkeepplan import (
    Compact,
    Defragment,
    Disarm,
    MoveLeader,
    Step,
    StoreLook,
    is_safe_to_defragment,
    next_step,
    problems,
)

MIB = 2**20
QUOTA = 1000 * MIB
ONE, TWO, THREE = (Endpoint("127.0.0.1", port) for port in (1, 2, 3))
FULL = Alarm("id1", "NOSPACE")


def status(number: int, *, size: int = 950, used: int = 100, leader: int = 1, release: str = "3.4.23") -> MemberStatus:
    return MemberStatus(Header("c", f"id{number}", 50, 2), release, size * MIB, used * MIB, f"id{leader}")


def look(*members: MemberStatus, alarms: tuple[Alarm, ...] = (), silent: int = 0) -> StoreLook:
    places = (ONE, TWO, THREE)
    found = dict(zip(places, members, strict=False))
    quiet = {places[len(members) + number]: "no reply" for number in range(silent)}
    return StoreLook(found, quiet, dict.fromkeys(found, QUOTA), alarms)


def round_of(seen: StoreLook, compact_to: int = 0, emptied: Mapping[Endpoint, int] = {}) -> list[Step]:
    """All steps of a round in which each one does what it should."""
    done: list[Step] = []
    while (step := next_step(seen, done, compact_to, emptied)) is not None:
        done.append(step)
        seen = after(seen, step)
    return done


def after(seen: StoreLook, step: Step) -> StoreLook:
    members = dict(seen.members)
    match step:
        case Defragment(endpoint):
            members[endpoint] = attrs.evolve(members[endpoint], size=members[endpoint].used)
        case MoveLeader(_, member_id):
            members = {each: attrs.evolve(found, leader=member_id) for each, found in members.items()}
        case Disarm(alarm):
            return attrs.evolve(seen, alarms=[each for each in seen.alarms if each != alarm])
        case Compact():
            pass
    return attrs.evolve(seen, members=members)


def test_nothing_is_done_where_nothing_is_wrong() -> None:
    assert round_of(look(status(1, size=200), status(2, size=200), status(3, size=200))) == []


def test_what_nobody_wants_to_know_any_more_is_compacted() -> None:
    assert round_of(look(status(1, size=200)), compact_to=40) == [Compact(40)]


def test_full_etcd_is_compacted_wholly_then_defragmented_and_disarmed_last() -> None:
    steps = round_of(look(status(1), status(2), status(3), alarms=(FULL,)), compact_to=40)

    assert steps == [
        Compact(50),
        Defragment(TWO),
        Defragment(THREE),
        MoveLeader(ONE, "id2"),
        Defragment(ONE),
        Disarm(FULL),
    ]


def test_the_leader_is_not_defragmented_if_no_other_one_came_to_lead() -> None:
    seen = look(status(1), status(2, size=100), status(3, size=100), alarms=(FULL,))
    moved = MoveLeader(ONE, "id2")

    assert next_step(seen, [Compact(50), moved], 0, {}) is None


def test_members_are_not_defragmented_while_one_is_silent() -> None:
    assert round_of(look(status(1), status(2), silent=1, alarms=(FULL,))) == [Compact(50)]
    assert round_of(look(status(1), status(2), alarms=(FULL,))) == [Compact(50)]


def test_one_that_is_alone_is_defragmented_only_if_it_is_full() -> None:
    assert round_of(look(status(1))) == []
    assert round_of(look(status(1), alarms=(FULL,))) == [Compact(50), Defragment(ONE), Disarm(FULL)]
    assert round_of(look(status(1), silent=2, alarms=(FULL,))) == [Compact(50)]


def test_an_alarm_stays_while_there_is_no_room() -> None:
    seen = look(status(1, size=990, used=980), status(2, used=940), status(3, used=940), alarms=(FULL,))

    assert Disarm(FULL) not in round_of(seen)
    assert round_of(seen, emptied={ONE: 50, TWO: 50, THREE: 50}) == [Compact(50)]


def test_a_full_member_is_not_believed_what_it_uses_until_it_was_emptied_of_all_that_was_deleted() -> None:
    # its space of the last compaction counts as used until the next change, and a full one takes none
    seen = look(status(1, used=960), status(2, size=500, used=490), status(3, size=500, used=490), alarms=(FULL,))

    assert round_of(seen) == [Compact(50), MoveLeader(ONE, "id2"), Defragment(ONE)]
    assert round_of(seen, emptied={ONE: 49}) == [Compact(50), MoveLeader(ONE, "id2"), Defragment(ONE)]
    assert round_of(seen, emptied={ONE: 50}) == [Compact(50)]


def test_corrupt_data_are_never_disarmed() -> None:
    seen = look(status(1, size=200), status(2, size=200), status(3, size=200), alarms=(Alarm("id1", "CORRUPT"),))

    assert round_of(seen) == []
    assert any("corrupt" in each for each in problems(seen))


def test_a_file_that_is_used_or_small_is_left_alone() -> None:
    assert round_of(look(status(1, used=900), status(2, used=900), status(3, used=900))) == []
    assert round_of(look(status(1, size=500), status(2, size=500), status(3, size=500))) == []


@pytest.mark.parametrize(
    ("release", "is_safe"),
    [("3.4.23", True), ("3.5.0", False), ("3.5.5", False), ("3.5.6", True), ("3.5.33", True), ("3.6.14", True)],
)
def test_releases_that_a_crash_damages_are_not_defragmented_while_they_run(release: str, is_safe: bool) -> None:
    seen = look(*(status(number, release=release) for number in (1, 2, 3)), alarms=(FULL,))

    assert is_safe_to_defragment(release) is is_safe
    assert any(isinstance(step, Defragment) for step in round_of(seen)) is is_safe
    assert any(f"its release is {release}" in each for each in problems(seen)) is not is_safe


@pytest.mark.parametrize(
    ("used", "fullness"),
    [
        (599, Fullness.FINE),
        (600, Fullness.WARN),
        (750, Fullness.SLOW),
        (849, Fullness.SLOW),
        (850, Fullness.RESERVED),
        (2000, Fullness.RESERVED),
    ],
)
def test_the_fullest_member_counts(used: int, fullness: Fullness) -> None:
    seen = look(status(1), status(2, size=2000, used=used), status(3))

    assert seen.fullness is fullness
    assert bool(problems(seen)) is (fullness > Fullness.FINE)


@pytest.mark.parametrize(
    ("size", "used", "fullness"),
    [
        (850, 700, Fullness.RESERVED),
        (849, 700, Fullness.SLOW),
        (940, 700, Fullness.WARN),
    ],
)
def test_a_file_that_cannot_be_made_smaller_counts_whole(size: int, used: int, fullness: Fullness) -> None:
    assert look(status(1, size=size, used=used)).fullness is fullness


def test_silent_members_tell_nothing() -> None:
    assert look(status(1), silent=2).knows_fullness
    assert not look(silent=3).knows_fullness
    assert not attrs.evolve(look(status(1)), quotas={}).knows_fullness
    assert look(silent=3, alarms=(FULL,)).knows_fullness


def test_without_a_known_quota_only_the_alarm_counts() -> None:
    seen = attrs.evolve(look(status(1, used=940)), quotas={ONE: 0})

    assert seen.fullness is Fullness.FINE
    assert attrs.evolve(seen, alarms=[FULL]).fullness is Fullness.FULL


def test_an_operator_of_full_etcd_is_told_what_to_do_and_what_not() -> None:
    (words,) = problems(look(status(1, size=3, used=2), alarms=(FULL,)))

    assert "etcd is full" in words
    assert "http://127.0.0.1:1 uses 2 MiB in a file of 3 of at most 1000" in words
    assert "Do not stop the master" in words
    assert "candidates" in words


def test_the_quota_is_read_from_the_metrics() -> None:
    metrics = (
        b"# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 2.147483648e+09\nother 1\n"
    )

    assert quota_of(metrics) == 2**31
    assert quota_of(b"") == 0
