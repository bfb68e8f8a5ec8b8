"""Changes of every size, put as the packing says, read back as those of a dictionary (DESIGN 14)."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from common.lease.changes import (
    MOST_BYTES,
    MOST_OPERATIONS,
    PART_BYTES,
    CommittedEntry,
    KeyChange,
    Stored,
    divided,
    folders_of,
    group_length,
    is_large,
    join,
    merged,
    pack,
    size_of,
    stored,
)

KEYS = st.sampled_from([f"/g/dirty/{name}" for name in "abcdef"])
SIZES = st.one_of(
    st.integers(0, 300),
    st.sampled_from([PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, MOST_BYTES, MOST_BYTES + 1, 2 * MOST_BYTES + 7]),
)
VALUES = st.none() | st.builds(lambda head, size: head + bytes(max(0, size - 1)), st.binary(max_size=1), SIZES)
CHANGES = st.lists(st.builds(KeyChange, KEYS, VALUES), min_size=1, max_size=8)


def apply(store: dict[str, tuple[bytes, int]], changes: Sequence[KeyChange], revision: int) -> None:
    """One transaction, as etcd carries it out."""
    assert len({change.key for change in changes}) == len(changes)
    for change in changes:
        if change.value is None:
            store.pop(change.key, None)
        else:
            store[change.key] = (change.value, revision)


@given(st.lists(st.tuples(CHANGES, st.sampled_from([0, 1, 2, None])), max_size=6))
def test_what_is_read_is_what_a_dictionary_has(history: list[tuple[list[KeyChange], int | None]]) -> None:
    """Each change may be interrupted after some of its parts; then it has had no effect."""
    twin: dict[str, tuple[bytes, int]] = {}
    store: dict[str, tuple[bytes, int]] = {}
    parts: dict[str, tuple[bytes, int]] = {}
    for revision, (raw, interrupted) in enumerate(history, start=1):
        changes = merged(raw)
        if not is_large(changes):
            apply(store, stored(changes), revision)
        else:
            packed = pack(changes, f"/g/parts/luxid/{revision}/")
            apply(parts, packed.parts[:interrupted], revision)
            if interrupted is not None:
                continue
            assert size_of(packed.last) <= MOST_BYTES
            assert all(part.size <= PART_BYTES + 100 for part in packed.parts)
            apply(store, packed.last, revision)
        apply(twin, changes, revision)

    rows = [Stored(key, *each) for key, each in store.items()]
    found = join(rows, [Stored(key, *each) for key, each in parts.items()], 99)

    assert found.entries == {key: CommittedEntry(*each) for key, each in twin.items()}
    assert [each.revision for each in found.entries.values()] == sorted(each for _, each in twin.values())
    assert folders_of(rows) <= {f"/g/parts/luxid/{revision}/" for revision in range(1, len(history) + 1)}


@given(st.lists(CHANGES, min_size=1, max_size=8))
def test_a_group_is_as_long_as_fits_and_never_empty(waiting: list[list[KeyChange]]) -> None:
    count = group_length(waiting)

    def fits(length: int) -> bool:
        taken = [change for changes in waiting[:length] for change in changes]
        return len(taken) <= MOST_OPERATIONS and size_of(taken) <= MOST_BYTES

    assert count >= 1
    assert count == 1 or fits(count)
    assert count == len(waiting) or not fits(count + 1)


def test_a_crowd_of_small_changes_fills_groups_of_a_hundred() -> None:
    assert group_length([[KeyChange(f"/g/{number}", b"x")] for number in range(250)]) == MOST_OPERATIONS


@given(st.lists(CHANGES, max_size=8))
def test_what_is_divided_is_all_of_it_in_its_order_and_each_group_fits(waiting: list[list[KeyChange]]) -> None:
    changes = [change for each in waiting for change in each]

    groups = list(divided(changes))

    assert [change for group in groups for change in group] == changes
    assert all(len(group) == 1 or size_of(group) <= MOST_BYTES for group in groups)
    assert all(0 < len(group) <= MOST_OPERATIONS for group in groups)
