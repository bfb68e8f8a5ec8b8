"""What is given back may be told before it is durable: the loss of power that undoes it ends its owner, too."""

import fcntl
import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from common.locks import Owner
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.encoding import encode
from daemons.wconfd.core.locks.waiting import LockChange, LockState, free_all, try_update
from daemons.wconfd.locks import lockfiles
from daemons.wconfd.locks.lockfiles import LAGGING_BYTES, LockFiles, journal_of
from daemons.wconfd.locks.lockstore import LockStore
from protocol.wconfd.locks import CommandOnNode
from tests.daemon.wconfd.locks.test_lock_files import Locks, moments, path
from tests.support.fakes.durable import durable_locks
from tests.support.locks import owner, requests
from tests.support.wait import PATIENCE_S

A, B, C = owner("job/1"), owner("job/2", 4711), owner("job/3")
_SECTOR = LAGGING_BYTES

__all__ = ["path"]


class Disk:
    """Whether each write to a journal was durable when it returned."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.writes: list[bool] = []
        real = os.pwrite

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            self.writes.append(bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DSYNC))
            return real(descriptor, data, offset)

        patch.setattr(os, "pwrite", pwrite)

    def since(self) -> list[bool]:
        found, self.writes = self.writes, []
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def give_back(locks: Locks, who: Owner = A) -> bool:
    change = free_all(locks.state, who)
    is_written = locks.files.append(locks.state, change.state, [(who, change)], may_lag=True)
    if is_written:
        locks.state = change.state
    return is_written


def lines(path: Path) -> list[bytes]:
    return journal_of(path).read_bytes().rstrip(b"\0").splitlines()


def test_what_lags_is_in_the_file_and_the_next_line_takes_its_place(path: Path, disk: Disk) -> None:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive", A)
    locks.take("node/n2=exclusive", B)
    assert disk.since() == [True, True]

    assert give_back(locks, A)
    assert give_back(locks, B)

    # a wconfd that is killed has lost nothing
    assert durable_locks(path) == locks.content == b"[[],[]]"
    assert (disk.since(), len(lines(path)), locks.files.lags) == ([False, False], 4, True)

    locks.take("node/n1=shared", C)

    assert (disk.since(), len(lines(path)), locks.files.lags) == ([True], 4, False)
    assert durable_locks(path) == locks.content
    assert Locks(path).content == locks.content


def test_a_line_is_never_shorter_than_the_one_whose_place_it_takes(path: Path) -> None:
    """Or the end of that one would stand behind it, and behind the next one."""
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive node/n2=exclusive node/n3=exclusive node/n4=exclusive", A)
    some = try_update(locks.state, A, requests("node/n1=release node/n2=release node/n3=release"))
    assert locks.files.append(locks.state, some.state, [(A, some)], may_lag=True)
    locks.state = some.state
    longer = lines(path)[-1]

    assert give_back(locks, A)

    assert len(lines(path)[-1]) == len(longer)
    assert lines(path)[-1].rstrip(b" ").endswith(b"[]]")
    assert durable_locks(path) == locks.content


def test_what_lags_is_durable_before_the_file_is_made_whole(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive", A)
    assert give_back(locks, A)
    assert not locks.files.is_whole
    disk.since()

    for _ in moments(path, partial(locks.files.make_whole, locks.state), monkeypatch):
        assert durable_locks(path) == locks.content

    # what lagged, and the line that names the next file
    assert disk.since() == [True, True]


def test_a_journal_that_was_found_is_synced_before_a_line_follows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line may lag: it was written by a wconfd that was killed."""
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive", A)
    assert give_back(locks, A)
    # as if there had been no room ahead, so that nothing needs to be cut off
    journal_of(path).write_bytes(journal_of(path).read_bytes().rstrip(b"\0"))
    again = Locks(path)
    called: list[str] = []
    for name in ("fsync", "pwrite"):
        monkeypatch.setattr(os, name, noting(called, name))

    again.take("node/n2=shared", B)

    assert called == ["fsync", "pwrite"]


def noting(called: list[str], name: str) -> object:
    real = getattr(os, name)

    def call(*args: object) -> object:
        called.append(name)
        return real(*args)

    return call


def test_a_line_too_long_to_lag_is_not_written_and_one_too_long_to_take_its_place_follows_it(
    path: Path, disk: Disk
) -> None:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    many = [owner(f"job/{number}") for number in range(10, 30)]
    for who in many:
        locks.take(f"node/n{who.ident}=exclusive", who)
    disk.since()

    lagging = [give_back(locks, who) for who in many]

    assert lagging[0] is True
    assert lagging[-1] is False
    assert all(len(line) < LAGGING_BYTES for line in lines(path)[-1:])
    assert disk.since() == [False] * lagging.count(True)
    count = len(lines(path))
    locks.take(" ".join(f"network/{number:040}=shared" for number in range(20)), C)
    # each is in the file, and the one that lagged is durable first
    assert (disk.since(), len(lines(path))) == ([True, True], count + 1)
    assert durable_locks(path) == locks.content


def test_after_a_write_that_fails_nothing_lags_and_all_of_it_is_in_the_whole_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(path)
    locks.files.make_whole(locks.state)
    locks.take("node/n1=exclusive", A)
    assert give_back(locks, A)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        locks.take("node/n2=exclusive", B)

    assert path.read_bytes() == locks.content == durable_locks(path)
    assert not locks.files.lags


def failing(*_: object) -> int:
    raise OSError(5, os.strerror(5))


# a loss of power, with each sector of the journal as it was after any of the writes that were not durable


class Sectors:
    """What may be on the disk: the durable writes, and of each sector any version since."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        # contents since the last durable one, which is the first
        self.versions = [path.read_bytes()]
        self.is_under_way = False
        real = os.pwrite

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            written = real(descriptor, data, offset)
            self.versions.append(path.read_bytes())
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DSYNC:
                # until it returns its sectors may be there or not
                self.check()
                self.versions = self.versions[-1:]
            return written

        patch.setattr(os, "pwrite", pwrite)
        self.check: Callable[[], None] = lambda: None

    def mixtures(self) -> Iterator[bytes]:
        size = max(map(len, self.versions))
        parts = []
        for begin in range(0, size, _SECTOR):
            versions = (version.ljust(size, b"\0")[begin : begin + _SECTOR] for version in self.versions)
            parts.append(list(dict.fromkeys(versions)))
        for chosen in itertools.product(*parts):
            yield b"".join(chosen)


acts = st.lists(
    st.tuples(
        st.sampled_from(("take", "give some back", "give back")), st.integers(1, 3), st.sampled_from((1, 8, 40, 150))
    ),
    min_size=4,
    max_size=16,
)


@given(acts)
@settings(max_examples=60, deadline=None)
def test_whichever_sectors_a_loss_of_power_has_left_the_journal_says_a_state_that_was(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, int, int]]
) -> None:
    """None of them is taken for damage, and all that was durable is in it."""
    path = tmp_path_factory.mktemp("locks") / "locks.data"
    path.write_bytes(b"[[],[]]")
    files, state = LockFiles.load(path, max_bypass=2, has_journal=True)
    files.make_whole(state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockfiles, "ROOM", _SECTOR)
        sectors = Sectors(journal_of(path), patch)
        # states since the last durable one, and the one that is being made durable
        states = [encode(state)]

        def check() -> None:
            for content in sectors.mixtures():
                journal_of(copy).write_bytes(content)
                assert durable_locks(copy) in states

        sectors.check = check
        copy = path.parent / "copy"
        copy.write_bytes(path.read_bytes())
        for act, who, length in acts:
            change = carried_out(state, act, owner(f"job/{who}"), length)
            if change.state is state:
                continue
            states.append(encode(change.state))
            may_lag = act != "take"
            assert change.only_gives_back is may_lag
            made = [(owner(f"job/{who}"), change)]
            if files.append(state, change.state, made, may_lag=may_lag):
                check()
            else:
                assert may_lag
                files.write(state, change.state, made)
            if not files.lags:
                states = states[-1:]
            state = change.state


def carried_out(state: LockState, act: str, who: Owner, length: int) -> LockChange:
    """Args: length: of the names of locks that are taken."""
    match act:
        case "take" if state.table.modes_of(who):
            return LockChange(state)
        case "take":
            text = " ".join(f"node/{who.ident}-{number:0{length}}=shared" for number in range(4))
        case "give some back":
            text = " ".join(f"{lock}=release" for lock in [*state.table.modes_of(who)][1:])
        case _:
            return free_all(state, who)
    return try_update(state, who, requests(text))


# what the store lets lag


async def held_by(store: LockStore, who: Owner, text: str) -> None:
    change = await store.change(who, lambda state: try_update(state, who, requests(text)))
    assert not change.blocked_on


async def freed(store: LockStore, who: Owner) -> None:
    await store.change(who, lambda state: free_all(state, who), gives_back=True)


@pytest.fixture
async def store(path: Path, nursery: trio.Nursery) -> LockStore:
    store = LockStore.load(path, max_bypass=2)
    await nursery.start(store.run)
    await held_by(store, A, "node/n1=exclusive node/n2=exclusive")
    return store


@pytest.mark.trio
async def test_what_is_given_back_lags_and_a_grant_does_not(store: LockStore, disk: Disk) -> None:
    disk.since()
    await freed(store, A)
    assert disk.since() == [False]

    await held_by(store, B, "node/n1=exclusive")
    assert disk.since() == [True]


@pytest.mark.trio
async def test_what_is_given_back_to_somebody_who_waits_is_a_grant(store: LockStore, disk: Disk) -> None:
    await store.change(B, lambda state: waiting.update_or_queue(state, B, 0, requests("node/n1=shared")))
    disk.since()

    await freed(store, A)

    assert await store.wait_granted(B, PATIENCE_S)
    assert disk.since() == [True]


@pytest.mark.trio
async def test_what_may_outlive_its_owner_does_not_lag(store: LockStore, disk: Disk, path: Path) -> None:
    command = CommandOnNode("web1", "1.0.1")
    await held_by(store, B, "node/n3=exclusive")
    await freed(store, B)
    assert disk.since()[-1] is False

    # the locks of B are given back durably before a command is noted
    await store.change(A, lambda state: orphanedlocks.keep_for(state, A, (command,)))
    assert disk.since() == [True]

    await freed(store, A)
    assert disk.since() == [True]
    assert durable_locks(path) == b"[[],[]]"
