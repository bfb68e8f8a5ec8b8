"""The two files of the locks on a real disk: every moment of a crash, and what a change costs (DESIGN section 3)."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from common.durable import atomicfile
from common.errors import DamagedFile
from common.locks import Owner
from daemons.wconfd.core.locks.encoding import LockRows, digest, encode, encode_line, encode_next, replay
from daemons.wconfd.core.locks.waiting import LockChange, LockState, free_all, try_update, update_or_queue
from daemons.wconfd.locks import lockfiles
from daemons.wconfd.locks.lockfiles import LockFiles, journal_of
from tests.support.fakes.durable import durable_locks
from tests.support.locks import owner, requests

A, B, C = owner("job/1"), owner("job/2", 4711), owner("job/3")
NO_LOCKS = b"[[],[]]"


class Locks:
    """The files with the state that was last made durable in them."""

    def __init__(self, path: Path, *, has_journal: bool = True) -> None:
        self.path = path
        self.files, self.state = LockFiles.load(path, max_bypass=2, has_journal=has_journal)

    def take(self, text: str, who: Owner = A) -> None:
        change = try_update(self.state, who, requests(text))
        assert not change.blocked_on
        self.change(who, change)

    def fill(self) -> None:
        """Some changes of each kind."""
        self.take("node/n1=exclusive")
        self.change(B, update_or_queue(self.state, B, 0, requests("node/n1=shared")))
        self.change(A, free_all(self.state, A))

    def change(self, who: Owner, change: LockChange) -> None:
        self.files.write(self.state, change.state, [(who, change)])
        self.state = change.state

    @property
    def content(self) -> bytes:
        return encode(self.state)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "locks.data"
    path.write_bytes(NO_LOCKS)
    return path


@pytest.fixture
def locks(path: Path) -> Locks:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    return locks


def size(path: Path) -> int:
    """Without the room that was made ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


def test_a_change_is_a_line_and_locks_data_is_not_touched(locks: Locks) -> None:
    before = locks.path.stat()

    locks.fill()

    assert locks.path.stat() == before
    assert (
        durable_locks(locks.path) == locks.content == b'[[[[2,"/run/livelocks/job_2",4711],[["node/n1","shared"]]]],[]]'
    )
    assert journal_of(locks.path).read_bytes().count(b"\n") == 4


def test_a_line_of_the_journal_is_on_the_disk_when_its_write_returns(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel says of the descriptor that it is appended by: no fsync is needed, and none could be forgotten."""
    flags: list[int] = []
    real = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        flags.append(fcntl.fcntl(descriptor, fcntl.F_GETFL))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    locks.fill()

    assert len(flags) == 3
    assert all(each & os.O_DSYNC for each in flags)


def crowd(state: LockState, held: int, who: Callable[[int], Owner]) -> LockState:
    for number in range(0, held, 100):
        text = " ".join(f"network/n{number + each:06}=shared" for each in range(100))
        state = try_update(state, who(number), requests(text)).state
    return state


@pytest.mark.parametrize("who", [lambda _: A, lambda number: owner(f"job/{number + 100}")], ids=["itself", "others"])
def test_a_change_beside_20_000_held_locks_writes_as_much_as_beside_none(
    locks: Locks, who: Callable[[int], Owner]
) -> None:
    locks.state = crowd(locks.state, 20_000, who)
    locks.files.make_whole(locks.state)
    journal = journal_of(locks.path)
    before, whole, inode = size(journal), locks.path.stat().st_size, locks.path.stat().st_ino

    for turn in range(20):
        locks.take(f"network/z={'release' if turn % 2 else 'exclusive'}")

    assert whole > 500_000
    assert size(journal) - before < 20 * 120
    assert locks.path.stat().st_ino == inode
    assert durable_locks(locks.path) == locks.content


def test_the_journal_is_begun_anew_when_it_has_outgrown_both_bounds(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockfiles, "LIMIT", 2000)
    locks.files.make_whole(locks.state)
    inodes = [locks.path.stat().st_ino]

    sizes = []
    for turn in range(70):
        locks.take(f"node/n1={'release' if turn % 2 else 'exclusive'}")
        sizes.append(size(journal_of(locks.path)))
        if locks.path.stat().st_ino != inodes[-1]:
            inodes.append(locks.path.stat().st_ino)

    assert 2000 < max(sizes) < 2200
    assert 2 <= len(inodes) <= 6
    assert durable_locks(locks.path) == locks.content
    # a large locks.data lets it grow further
    locks.state = crowd(locks.state, 100, lambda _: C)
    locks.files.make_whole(locks.state)
    whole = locks.path.stat()
    assert whole.st_size > 2000
    for turn in range(30):
        locks.take(f"node/n1={'release' if turn % 2 else 'exclusive'}")
    assert 2000 < size(journal_of(locks.path)) < 2 * whole.st_size
    assert locks.path.stat() == whole


# the moments of making locks.data whole


def moments(path: Path, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Do the work; then put the folder as it was before each call that changes files, one after the other."""
    folder, copies = path.parent, []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "unlink", "pwrite", "ftruncate")}

    def watched(name: str) -> Callable[..., object]:
        def call(*args: object) -> object:
            copies.append((name, {file.name: file.read_bytes() for file in folder.iterdir()}))
            return real[name](*args)

        return call

    with monkeypatch.context() as patch:
        for name in real:
            patch.setattr(os, name, watched(name))
        work()
    for name, files in copies:
        restore(folder, files)
        yield name


def restore(folder: Path, files: Mapping[str, bytes]) -> None:
    for file in folder.iterdir():
        file.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def filled(path: Path) -> Locks:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.fill()
    return locks


@pytest.mark.parametrize("ending", ["make_whole", "finish"])
def test_a_crash_at_any_moment_of_making_it_whole_changes_nothing(
    path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = filled(path)
    expected = locks.content
    seen = []

    for name in moments(path, lambda: getattr(locks.files, ending)(locks.state), monkeypatch):
        seen.append(name)
        assert durable_locks(path) == expected
        # the next wconfd continues from the remains of the crash, and is as safe
        again = Locks(path)
        again.take("node/n7=shared", C)
        assert durable_locks(path) == again.content
        again.files.make_whole(again.state)
        assert path.read_bytes() == again.content == durable_locks(path)

    assert {"rename", "pwrite", "fsync"} <= set(seen)
    assert seen.count("rename") == (2 if ending == "make_whole" else 1)


def test_a_crash_while_it_is_made_whole_after_a_crash_while_it_was_made_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = filled(path)
    expected = locks.content
    for _ in moments(path, lambda: locks.files.make_whole(locks.state), monkeypatch):
        kept = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        for has_journal in (True, False):
            restore(path.parent, kept)
            again = Locks(path, has_journal=has_journal)
            for _ in moments(path, partial(again.files.make_whole, again.state), monkeypatch):
                assert durable_locks(path) == expected


def test_an_outdated_journal_is_gone_before_a_file_comes_that_it_could_continue(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # from nothing held to nothing held: the next locks.data is to the byte like the one the old journal continues
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive")
    held = locks.content
    outdated = journal_of(path).read_bytes()
    locks.files.make_whole(locks.state)
    path.write_bytes(held)
    # as after a crash: locks.data is new, its journal is not
    marked = outdated.rstrip(b"\0") + line_behind(outdated, held)
    journal_of(path).write_bytes(marked)
    assert durable_locks(path) == held

    again = Locks(path, has_journal=False)
    change = free_all(again.state, A)
    states = []
    for _ in moments(path, lambda: again.files.write(again.state, change.state, [(A, change)]), monkeypatch):
        states.append(durable_locks(path))

    assert set(states) == {held, NO_LOCKS}
    assert states == sorted(states, key=[held, NO_LOCKS].index)


def line_behind(journal: bytes, next_content: bytes) -> bytes:
    crc = replay(journal, NO_LOCKS, LockRows.read(NO_LOCKS)).crc
    return encode_line(encode_next(digest(next_content)), crc)[0]


# failures


def failing(number: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


def test_a_failed_append_leaves_nothing_and_the_next_change_makes_the_file_whole(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks.fill()
    before, lines, real = locks.content, size(journal_of(locks.path)), os.pwrite

    def torn(descriptor: int, data: bytes, offset: int) -> int:
        if offset > lines:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:7], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", torn)
        patch.setattr(atomicfile, "_write_all", failing(28))
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                locks.take("node/n2=exclusive")
            assert durable_locks(locks.path) == before
            assert journal_of(locks.path).stat().st_size == lines
    locks.take("node/n2=exclusive")

    assert locks.path.read_bytes() == locks.content == durable_locks(locks.path)
    locks.take("node/n3=exclusive")
    assert durable_locks(locks.path) == locks.content != locks.path.read_bytes()


def test_after_a_failed_sync_the_change_is_made_durable_in_a_file_of_its_own(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks.fill()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(5))
        locks.take("node/n2=exclusive")

    assert locks.path.read_bytes() == locks.content == durable_locks(locks.path)


def test_a_journal_that_was_removed_meanwhile_is_replaced(locks: Locks) -> None:
    journal_of(locks.path).unlink()

    locks.take("node/n2=exclusive")

    assert locks.path.read_bytes() == locks.content
    assert journal_of(locks.path).exists()


def test_a_journal_that_cannot_be_begun_anew_goes_on(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockfiles, "LIMIT", 300)
    locks.files.make_whole(locks.state)
    attempts = []

    def full(*_: object) -> None:
        attempts.append(1)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomicfile, "_write_all", full)
        for turn in range(100):
            locks.take(f"node/n1={'release' if turn % 2 else 'exclusive'}")
            assert durable_locks(locks.path) == locks.content
    # not at each change
    assert 1 <= len(attempts) <= 6


def test_whatever_a_failed_replacement_has_left_no_line_follows_it(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks.fill()
    before = locks.content
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing(5))
        with pytest.raises(OSError, match="Input/output"):
            locks.files.make_whole(locks.state)
        with pytest.raises(OSError, match="Input/output"):
            locks.take("node/n2=exclusive")
    assert durable_locks(locks.path) == before

    locks.take("node/n2=exclusive")

    assert locks.path.read_bytes() == locks.content
    assert [path.name for path in locks.path.parent.iterdir() if path.name.endswith(".tmp")] == []


# starts and ends


def test_reading_changes_nothing(locks: Locks) -> None:
    locks.fill()
    content = {file: file.read_bytes() for file in locks.path.parent.iterdir()}

    again = Locks(locks.path)

    assert again.content == locks.content
    assert {file: file.read_bytes() for file in locks.path.parent.iterdir()} == content


def test_a_line_that_was_never_finished_is_cut_off_before_the_next_one(locks: Locks) -> None:
    locks.fill()
    journal = journal_of(locks.path)
    journal.write_bytes(journal.read_bytes().rstrip(b"\0") + b"0123abcd [[[" + b"x" * 5000)

    again = Locks(locks.path)
    again.take("node/n2=shared")

    assert b"xxx" not in journal.read_bytes()
    assert durable_locks(locks.path) == again.content


def test_at_the_end_the_file_is_whole_and_alone(locks: Locks) -> None:
    locks.fill()
    assert not locks.files.is_whole

    locks.files.finish(locks.state)

    assert {file.name: file.read_bytes() for file in locks.path.parent.iterdir()} == {"locks.data": locks.content}


def test_at_rest_the_end_removes_the_journal_and_nothing_else(locks: Locks) -> None:
    before = locks.path.stat()

    locks.files.finish(locks.state)

    assert locks.path.stat() == before
    assert not journal_of(locks.path).exists()


def test_without_a_journal_the_file_is_whole_after_each_change_and_an_older_journal_is_taken_over(locks: Locks) -> None:
    locks.fill()

    again = Locks(locks.path, has_journal=False)
    assert again.content == locks.content
    again.take("node/n2=shared")

    assert {file.name: file.read_bytes() for file in locks.path.parent.iterdir()} == {"locks.data": again.content}
    inode = locks.path.stat().st_ino
    again.take("node/n3=shared")
    assert locks.path.read_bytes() == again.content
    assert locks.path.stat().st_ino != inode


def test_a_file_edited_at_rest_counts(locks: Locks) -> None:
    locks.path.write_bytes(b'[[[[7,"/l"],[["node/n9","shared"]]]], []]\n')

    again = Locks(locks.path)

    assert again.content == b'[[[[7,"/l"],[["node/n9","shared"]]]],[]]'
    again.take("node/n2=shared")
    assert durable_locks(locks.path) == again.content


def test_a_file_edited_beside_a_journal_with_changes_is_refused_with_what_to_do(locks: Locks) -> None:
    locks.fill()
    locks.path.write_bytes(b"[[],[]]\n")
    journal = journal_of(locks.path)

    with pytest.raises(DamagedFile, match=rf"'{journal}': it continues another .* by 3 lines; .* by: rm {journal}"):
        Locks(locks.path)

    journal.unlink()
    assert Locks(locks.path).content == NO_LOCKS


def test_the_remedy_of_a_damaged_file_works_as_it_is_written(locks: Locks) -> None:
    locks.fill()
    locks.path.write_bytes(b"[[")
    with pytest.raises(DamagedFile, match="start without locks by: ") as caught:
        Locks(locks.path)

    assert os.system(str(caught.value).partition("start without locks by: ")[2]) == 0

    assert Locks(locks.path).content == NO_LOCKS


def test_no_file_means_no_locks_whatever_a_journal_says(locks: Locks) -> None:
    locks.fill()
    locks.path.unlink()

    again = Locks(locks.path)
    assert again.content == NO_LOCKS
    again.take("node/n2=shared")

    assert locks.path.read_bytes() == again.content == durable_locks(locks.path)


def test_what_reading_grants_is_whole_on_disk_at_once(locks: Locks) -> None:
    # no holder blocks job 3; job 2, which had been passed often enough, held it back
    locks.take("node/n1=shared")
    locks.change(B, update_or_queue(locks.state, B, 0, requests("node/n1=exclusive")))
    locks.take("node/n1=shared", owner("job/4"))
    locks.take("node/n1=shared", owner("job/5"))
    change = update_or_queue(locks.state, C, 0, requests("node/n1=shared"))
    assert change.blocked_on == (B,)
    locks.change(C, change)

    files, state = LockFiles.load(locks.path, max_bypass=None, has_journal=True)

    assert state.pending_of(C) is None
    assert locks.path.read_bytes() == encode(state) == durable_locks(locks.path)
    assert files.is_whole


def test_a_reader_is_not_misled_by_a_daemon_that_ends_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read `locks.data` before that was made whole, and finds no journal any more."""
    locks, read_journal = Locks(path), lockfiles._read_journal
    locks.take("node/n1=exclusive")
    locks.take("node/n2=exclusive", C)

    def ended(path: Path) -> bytes | None:
        if journal_of(path).exists():
            locks.files.finish(locks.state)
        return read_journal(path)

    monkeypatch.setattr(lockfiles, "_read_journal", ended)

    assert lockfiles.read_locks(path).state == locks.state
