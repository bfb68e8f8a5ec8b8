"""The journal of the locks as bytes: what a change costs, and what of it counts when it is read (DESIGN section 3)."""

from collections.abc import Callable, Sequence

import pytest

from common.errors import DamagedFile
from common.locks import Owner
from daemons.wconfd.core.locks.encoding import (
    LockRows,
    Replayed,
    decode,
    digest,
    encode,
    encode_changes,
    encode_header,
    encode_line,
    encode_next,
    rebuild,
    replay,
)
from daemons.wconfd.core.locks.waiting import (
    LockChange,
    LockState,
    downgrade_level,
    free_all,
    try_update,
    update_or_queue,
)
from tests.support.counting import python_calls
from tests.support.locks import owner, requests

A, B, C = owner("job/1"), owner("job/2", 4711), owner("E")
EMPTY = b"[[],[]]"


class Journal:
    """A journal as a daemon writes it, one line for each call."""

    def __init__(self, snapshot: bytes = EMPTY) -> None:
        self.snapshot = snapshot
        self.state = decode(snapshot)
        self.content, self._crc = encode_header(digest(snapshot))
        # the content and the state after each line
        self.past = [(self.content, self.state)]

    def change(self, who: Owner, act: Callable[[LockState], LockChange]) -> bytes:
        change = act(self.state)
        text = encode_changes(self.state, change.state, [(who, change)])
        self.state = change.state
        self.add(text)
        return text

    def add(self, text: bytes) -> None:
        line, self._crc = encode_line(text, self._crc)
        self.content += line
        self.past.append((self.content, self.state))

    def take(self, who: Owner, text: str) -> bytes:
        return self.change(who, lambda state: try_update(state, who, requests(text)))

    def queue(self, who: Owner, text: str, priority: int = 0) -> bytes:
        return self.change(who, lambda state: update_or_queue(state, who, priority, requests(text)))

    def free(self, who: Owner) -> bytes:
        return self.change(who, lambda state: free_all(state, who))


def read(content: bytes, snapshot: bytes = EMPTY) -> tuple[LockState, Replayed]:
    rows = LockRows.read(snapshot)
    replayed = replay(content, snapshot, rows)
    return rebuild(rows), replayed


@pytest.fixture
def busy() -> Journal:
    journal = Journal()
    journal.take(A, "node/n1=exclusive node/n2=shared")
    journal.queue(B, "node/n1=shared")
    journal.take(C, "instance/zürich=shared")
    journal.free(A)
    journal.free(B)
    return journal


def test_a_line_says_what_was_touched_and_nothing_else() -> None:
    journal = Journal(b'[[[["X","/x"],[["network/w","shared"]]]],[[3,["Y","/y"],[["network/w","exclusive"]]]]]')

    assert journal.take(A, "node/n1=exclusive node/n2=shared") == (
        b'[[[[1,"/run/livelocks/job_1"],[["node/n1","exclusive"],["node/n2","shared"]]]],[],[]]'
    )
    assert journal.queue(B, "node/n1=shared", -3) == (
        b'[[],[[-3,[2,"/run/livelocks/job_2",4711],[["node/n1","shared"]]]],[]]'
    )
    # the grant that comes of it is in the same line; who gives all back is one entry
    assert journal.free(A) == (
        b'[[[[1,"/run/livelocks/job_1"],null],[[2,"/run/livelocks/job_2",4711],[["node/n1","shared"]]]],[],'
        b'[[2,"/run/livelocks/job_2",4711]]]'
    )
    assert journal.content.isascii()


def test_a_lock_given_back_among_others_is_a_release() -> None:
    journal = Journal()
    journal.take(A, "node/n1=exclusive node/n2=exclusive")

    assert b'[["node/n1","release"]]' in journal.take(A, "node/n1=release")
    text = journal.change(A, lambda state: downgrade_level(state, A, requests("node/n2=shared")[0].lock.level))

    assert text == b'[[[[1,"/run/livelocks/job_1"],[["node/n2","shared"]]]],[],[]]'
    assert encode(read(journal.content)[0]) == encode(journal.state)


def test_the_journal_leads_to_the_very_state(busy: Journal) -> None:
    state, replayed = read(busy.content)

    assert encode(state) == encode(busy.state)
    assert (replayed.is_current, replayed.lines, replayed.size) == (True, 5, len(busy.content))


def test_zeros_behind_the_last_line_are_nothing(busy: Journal) -> None:
    assert read(busy.content + bytes(10_000)) == read(busy.content)


@pytest.mark.parametrize("zeros", [0, 500])
def test_a_line_cut_anywhere_does_not_count_and_those_before_it_do(busy: Journal, zeros: int) -> None:
    (before, state), (whole, _) = busy.past[-2:]

    for end in range(len(before), len(whole)):
        found, replayed = read(whole[:end] + bytes(zeros))
        assert encode(found) == encode(state)
        assert (replayed.size, replayed.lines) == (len(before), 4)


def test_a_write_of_which_only_later_sectors_came_through_does_not_count(busy: Journal) -> None:
    (before, state), (whole, _) = busy.past[-2:]
    hole = before + bytes(20) + whole[len(before) + 20 :]

    assert encode(read(hole)[0]) == encode(state)


def test_a_line_that_was_changed_is_damage_with_its_place_if_others_follow(busy: Journal) -> None:
    begin, end = len(busy.past[1][0]), len(busy.past[2][0])

    for at in range(begin, end):
        content = bytearray(busy.content)
        content[at] ^= 1
        with pytest.raises(DamagedFile) as caught:
            read(bytes(content))
        assert caught.value.fields["where"] == f"line 3, byte {begin}"


def test_a_line_that_is_missing_is_damage(busy: Journal) -> None:
    first, second, third = (len(busy.past[number][0]) for number in (1, 2, 3))

    with pytest.raises(DamagedFile, match=f"line 3, byte {first}: the line is not as it was written"):
        read(busy.content[:first] + busy.content[second:third] + busy.content[third:])


def test_lines_of_an_earlier_journal_do_not_count_in_a_later_one(busy: Journal) -> None:
    header, _ = encode_header(digest(encode(busy.state)))
    rest = busy.content[len(header) :]

    with pytest.raises(DamagedFile, match="line 2"):
        read(header + rest, encode(busy.state))


def test_a_journal_without_lines_is_outdated_beside_any_other_file(busy: Journal) -> None:
    header, _ = busy.past[0]
    other = encode(busy.state) + b"\n"

    state, replayed = read(header + bytes(100), other)

    assert (encode(state), replayed.is_current) == (encode(busy.state), False)
    assert read(b"", other)[1] == read(bytes(50), other)[1] == Replayed(False, 0, 0, 0)


def test_a_journal_that_names_the_file_as_its_next_is_outdated(busy: Journal) -> None:
    whole = encode(busy.state)
    busy.add(encode_next(digest(whole)))

    state, replayed = read(busy.content, whole)

    assert (encode(state), replayed.is_current) == (whole, False)
    # until the next one is in its place, the old one counts with all lines
    assert encode(read(busy.content)[0]) == whole
    assert read(busy.content)[1].is_current


def test_a_journal_of_another_file_is_refused(busy: Journal) -> None:
    with pytest.raises(DamagedFile, match=r"continues another locks\.data than this one, by 5 lines"):
        read(busy.content, encode(busy.state))


@pytest.mark.parametrize(
    ("texts", "place"),
    [
        ([b"7"], "line 2"),
        ([b"[[],[],[]]", b'{"next":7}'], "line 3"),
        ([b"[[],[],[7]]"], "line 2"),
        ([b'[[[[1,"/l"]]],[],[]]'], "line 2"),
        ([b'[[[[1,"/l"],[["nodes/n1","shared"]]]],[],[]]'], "line 2"),
        ([b"[[7],[],[]]"], "line 2"),
        ([b"[[],[7],[]]"], "line 2"),
        ([b"[[],[],[]"], "line 2"),
    ],
)
def test_a_line_of_another_kind_is_damage(texts: Sequence[bytes], place: str) -> None:
    journal = Journal()
    for text in texts:
        journal.add(text)

    with pytest.raises(DamagedFile) as caught:
        read(journal.content)

    assert str(caught.value.fields["where"]).startswith(place)


@pytest.mark.parametrize("content", [b"x", b"[[],[]]\n", encode_line(b'{"snapshot":"0","journal":2}', 0)[0]])
def test_what_does_not_begin_as_a_journal_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedFile, match="line 1, byte 0"):
        read(content)


def test_two_who_hold_what_only_one_can_are_refused() -> None:
    journal = Journal()
    for number in (1, 2):
        journal.add(b'[[[[%d,"/l"],[["node/n1","exclusive"]]]],[],[]]' % number)

    with pytest.raises(DamagedFile, match="conflict"):
        read(journal.content)


@pytest.mark.parametrize("who", [A, C], ids=["another owner", "the owner itself"])
def test_a_change_costs_what_it_touches_whatever_else_is_held(who: Owner) -> None:
    def work_beside(held: int) -> tuple[int, int]:
        state = LockState()
        for number in range(0, held, 100):
            crowd = " ".join(f"network/n{number + each:06}=shared" for each in range(100))
            state = try_update(state, C, requests(crowd)).state
            state = try_update(state, owner(f"job/{number + 10}"), requests(crowd)).state
        change = try_update(state, who, requests("network/zzz=exclusive"))
        texts: list[bytes] = []
        calls = python_calls(lambda: texts.append(encode_changes(state, change.state, [(who, change)])))
        return calls, len(texts[0])

    few, many = work_beside(100), work_beside(20_000)

    # a look-up in a larger map may meet an equal hash more often
    assert many[0] <= few[0] + 10
    assert many[1] == few[1] < 120
