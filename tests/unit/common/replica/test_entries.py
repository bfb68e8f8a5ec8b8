"""What some candidate may lack stays in etcd, and nothing else (DESIGN section 14)."""

from collections.abc import Mapping

from common.replica.entries import DirtyEntries


def up_to(entries: DirtyEntries[str], number: int) -> Mapping[str, int]:
    """What may be forgotten when all candidates have the changes up to a number."""
    return entries.forgettable(entries.keys, lambda _, made: made <= number)


def test_changes_up_to_a_serial_number_are_due() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a", "b"], 10, 2)
    entries.committed(["c"], 11, 3)

    assert up_to(entries, 1) == {}
    assert up_to(entries, 2) == {"a": 10, "b": 10}
    assert up_to(entries, 3) == {"a": 10, "b": 10, "c": 11}


def test_an_object_that_was_changed_again_waits_for_its_last_change() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a", "b"], 10, 2)
    entries.committed(["a"], 11, 3)

    assert up_to(entries, 2) == {"b": 10}


def test_what_was_put_again_meanwhile_is_not_forgotten() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a", "b"], 10, 2)
    due = up_to(entries, 2)
    entries.committed(["a"], 11, 3)

    entries.forgotten(due)

    assert len(entries) == 1
    assert up_to(entries, 3) == {"a": 11}


def test_nothing_is_known_of_a_change_that_is_not_made_here_yet() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a"], 10)
    # it stays what it was
    entries.changed(["a"], 5)

    assert up_to(entries, 9) == {}
    entries.made(["a"], 6)
    assert up_to(entries, 5) == {}
    assert up_to(entries, 6) == {"a": 10}


def test_a_change_without_an_entry_of_its_own_is_waited_for_by_one_that_is_there() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a"], 10, 2)
    entries.changed(["a", "b"], 3)

    assert up_to(entries, 2) == {}
    assert up_to(entries, 3) == {"a": 10}


def test_what_is_kept_is_not_forgotten_though_all_have_it() -> None:
    entries = DirtyEntries[str]()
    entries.committed(["a", "b"], 10, 2)

    assert entries.forgettable(entries.keys, lambda *_: True, {"a"}) == {"b": 10}
