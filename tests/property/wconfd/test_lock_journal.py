"""A journal that was cut or damaged never leads to a state that was never so, nor to one before what was acknowledged.

The dumb twin writes the whole state down after each write.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import DamagedFile, LockRuleViolation
from common.locks import LockLevel, Owner
from daemons.wconfd.core.locks import waiting
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
from daemons.wconfd.core.locks.waiting import LockChange, LockState
from tests.support.naive.lock_strategies import locks, owners, priorities, request_lists, wanted

quick = settings(max_examples=80, deadline=None)

levels = st.sampled_from(LockLevel)
pids = st.none() | st.integers(2, 9)
calls = st.one_of(
    st.tuples(st.just(waiting.try_update), st.tuples(request_lists)),
    st.tuples(st.just(waiting.update_or_queue), st.tuples(priorities, request_lists)),
    st.tuples(st.just(waiting.free_all), st.just(())),
    st.tuples(st.just(waiting.free_level), st.tuples(levels)),
    st.tuples(st.just(waiting.downgrade_level), st.tuples(levels)),
    st.tuples(st.just(waiting.intersect), st.tuples(st.lists(locks, max_size=3))),
    st.tuples(st.just(waiting.opportunistic_union), st.tuples(wanted)),
)
# each write is of several calls, as of several callers at once
writes = st.lists(st.lists(st.tuples(owners, pids, calls), min_size=1, max_size=4), min_size=1, max_size=12)


class Disk:
    """A journal and, beside it, the whole state after each of its lines."""

    def __init__(self, state: LockState) -> None:
        self.snapshot = encode(state)
        self.content, self._crc = encode_header(digest(self.snapshot))
        self.ends = [len(self.content)]
        self.twin = [self.snapshot]

    def write(self, before: LockState, after: LockState, made: Sequence[tuple[Owner, LockChange]]) -> None:
        line, self._crc = encode_line(encode_changes(before, after, made), self._crc)
        self.content += line
        self.ends.append(len(self.content))
        self.twin.append(encode(after))

    def read(self, content: bytes, max_bypass: int | None) -> bytes:
        rows = LockRows.read(self.snapshot)
        assert replay(content, self.snapshot, rows).is_current
        state = rebuild(rows, max_bypass)
        assert rows.is_exactly(state)
        return encode(state)


# who, its pid, and what it does with which arguments
Step = tuple[Owner, int | None, tuple[Any, tuple[Any, ...]]]


def carried_out(
    groups: list[list[tuple[Owner, int | None, tuple[Any, tuple[Any, ...]]]]], first: int, fair: bool
) -> Disk:
    """The journal begins with the write of this number; all before is in the snapshot."""
    state = LockState.fair(2 if fair else None)
    disk = Disk(state)
    for number, group in enumerate(groups):
        if number == first:
            disk = Disk(state)
        before, made = state, []
        for who, pid, (act, args) in group:
            owner = Owner(who.ident, who.livelock, pid)
            try:
                change = act(state, owner, *args)
            except LockRuleViolation:
                continue
            if change.state is not state:
                made.append((owner, change))
                state = change.state
        if made:
            disk.write(before, state, made)
    return disk


@given(writes, st.integers(0, 6), st.booleans())
@quick
def test_every_prefix_of_whole_lines_leads_to_the_very_state_of_that_moment(
    groups: list[list[tuple[Owner, int | None, tuple[Any, tuple[Any, ...]]]]], first: int, fair: bool
) -> None:
    disk = carried_out(groups, first, fair)

    for end, expected in zip(disk.ends, disk.twin, strict=True):
        assert disk.read(disk.content[:end], 2 if fair else None) == expected


@given(writes, st.booleans(), st.sampled_from([0, 1, 300]))
@settings(max_examples=25, deadline=None)
def test_cut_at_each_byte_of_the_last_lines_what_was_acknowledged_is_there(
    groups: list[list[tuple[Owner, int | None, tuple[Any, tuple[Any, ...]]]]], fair: bool, zeros: int
) -> None:
    disk = carried_out(groups, 0, fair)

    for length in range(disk.ends[max(0, len(disk.ends) - 3)], len(disk.content) + 1):
        # all lines that end by then were acknowledged, maybe; and no other
        durable = sum(end <= length for end in disk.ends) - 1
        assert disk.read(disk.content[:length] + bytes(zeros), 2 if fair else None) == disk.twin[durable]


@given(writes, st.data())
@quick
def test_whatever_is_damaged_before_the_last_line_is_noticed(
    groups: list[list[tuple[Owner, int | None, tuple[Any, tuple[Any, ...]]]]], data: st.DataObject
) -> None:
    disk = carried_out(groups, 0, True)
    content = bytearray(disk.content)
    at = data.draw(st.integers(0, len(content) - 1), label="byte")
    content[at] ^= data.draw(st.integers(1, 255), label="bits")

    try:
        found = disk.read(bytes(content), 2)
    except DamagedFile:
        return
    # the last write may look as if it had never been finished; so may the two last ones where they meet
    assert at >= disk.ends[-2] - 1
    assert found in disk.twin[-3:-1]
