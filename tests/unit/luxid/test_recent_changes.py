"""What is remembered of changes, for subscribers who come back."""

from common.ids import JobId
from daemons.luxid.core.feed import Interests, RecentChanges

A, B, C, D = map(JobId, (1, 2, 3, 4))


def test_who_comes_back_hears_of_each_job_that_has_changed_since() -> None:
    recent = RecentChanges("x")
    recent.turn([A, B])
    place = recent.read(recent.position)
    assert place is not None
    recent.turn([C])
    recent.turn([A])

    assert set(recent.since(place) or ()) == {A, C}
    assert recent.since(place, [B, C]) == [C]
    assert recent.since(recent.serial) == []


def test_a_place_of_another_luxid_or_of_nonsense_is_no_place() -> None:
    recent = RecentChanges("x")
    recent.turn([A])

    assert recent.read("x:1") == 1
    for position in ("y:1", "x:2", "x:", "x:-1", "1", "", "x:1x", "x:١", f"x:{'9' * 5000}"):
        assert recent.read(position) is None


def test_no_more_jobs_are_remembered_than_the_limit_and_who_missed_more_begins_anew() -> None:
    recent = RecentChanges("x", most=2)
    for job_id in (A, B, C, D):
        recent.turn([job_id])

    assert [recent.read(f"x:{turn}") for turn in range(5)] == [None, None, 2, 3, 4]
    assert recent.since(1) is None
    assert set(recent.since(2) or ()) == {C, D}


def test_a_job_that_changes_often_takes_one_place() -> None:
    recent = RecentChanges("x", most=2)
    recent.turn([A])
    for _ in range(100):
        recent.turn([B])

    assert set(recent.since(0) or ()) == {A, B}


def test_changes_that_were_not_noted_leave_no_place_to_go_on_from() -> None:
    recent = RecentChanges("x")
    recent.turn([A])
    before = recent.position
    recent.forget()

    assert recent.read(before) is None
    assert recent.read(recent.position) is not None


def test_a_change_is_told_to_those_who_named_the_job_only() -> None:
    interests: Interests[str] = Interests()
    interests.add("alice", [A, B])
    interests.add("bob", [B])

    assert [list(interests.of(job_id)) for job_id in (A, B, C)] == [["alice"], ["alice", "bob"], []]

    interests.drop("alice", [A, B])
    interests.drop("alice", [A, B])
    assert ([list(interests.of(B))], len(interests)) == ([["bob"]], 1)
