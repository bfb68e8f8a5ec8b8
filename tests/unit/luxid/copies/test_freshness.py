"""Which candidates are fresh, and what etcd is told of it (DESIGN section 14)."""

import pytest

from daemons.luxid.core.copies.etcdentries import CandidateStatus, MarkChanges, Marks, changed, changes_of

STALE_S = 600.0


def decide(marks: Marks, *standings: CandidateStatus) -> MarkChanges:
    return changes_of(standings, marks, 7, STALE_S)


@pytest.mark.parametrize(
    ("marks", "standing", "stale", "synced"),
    [
        # fresh, and compared by this master already
        (Marks({"a": 7}, frozenset()), CandidateStatus("a", True, 0.0), set(), set()),
        (Marks({"a": 7}, frozenset()), CandidateStatus("a", False, 599.0), set(), set()),
        # each master compares once
        (Marks({"a": 6}, frozenset()), CandidateStatus("a", False, 0.0), set(), set()),
        (Marks({"a": 6}, frozenset()), CandidateStatus("a", True, 0.0), set(), {"a"}),
        # away for too long
        (Marks({"a": 7}, frozenset()), CandidateStatus("a", False, 600.0), {"a"}, set()),
        (Marks({"a": 7}, frozenset({"a"})), CandidateStatus("a", False, 900.0), set(), set()),
        (Marks({}, frozenset({"a"})), CandidateStatus("a", True, 0.0), set(), {"a"}),
        # a new candidate has nothing yet
        (Marks({}, frozenset()), CandidateStatus("a", False, 0.0), {"a"}, set()),
        (Marks({}, frozenset()), CandidateStatus("a", True, 0.0), set(), {"a"}),
    ],
)
def test_marks_follow_the_standing_of_a_candidate(
    marks: Marks, standing: CandidateStatus, stale: set[str], synced: set[str]
) -> None:
    changes = decide(marks, standing)

    assert set(changes.stale) == stale
    assert set(changes.synced) == synced
    after = changed(marks, changes, 7)
    assert changes_of([standing], after, 7, STALE_S).is_empty
    assert ("a" in after.fresh) == (after.synced.get("a") is not None and "a" not in after.stale)


def test_a_node_that_is_no_candidate_any_more_holds_nothing_back() -> None:
    marks = Marks({"a": 7, "b": 7}, frozenset())
    changes = decide(marks, CandidateStatus("a", True, 0.0))

    assert changes.stale == {"b"}
    assert changed(marks, changes, 7).fresh == {"a"}
