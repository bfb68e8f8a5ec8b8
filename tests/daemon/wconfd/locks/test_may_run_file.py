"""Locks, and the commands for which they are kept, lie in two files: whatever moment a crash hits, both are right.

The store does its work; before each call that changes files, and at the end, all files are kept. Then a wconfd is
started, so to speak, on each of these remains: the dead are released.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import Unavailable
from common.locks import Owner
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.waiting import LockState
from daemons.wconfd.locks.lockstore import LockStore
from protocol.wconfd.locks import Claim, CommandOnNode
from tests.daemon.wconfd.locks.test_lock_files import restore
from tests.support.locks import held_text, owned, owner, requests

OLD, NEW, OTHER = Owner(1, "/nowhere/old"), Owner(1, "/nowhere/new"), owner("job/2")
G1, G2 = CommandOnNode("web1", "1.0.1"), CommandOnNode("web2", "1.1.1")
CHANGING = ("fsync", "rename", "unlink", "pwrite", "ftruncate")


@attrs.frozen
class Moment:
    # what the story has been told is durable, and what it has asked for since
    done: str
    asked: str
    files: Mapping[str, bytes]


class Story:
    """Steps of a store, and what the disk had before each of its writes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.moments: list[Moment] = []
        self.done = self.asked = "begun"

    def run(self, act: Callable[[], Awaitable[None]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in CHANGING:
                patch.setattr(os, name, self._watched(getattr(os, name)))
            trio.run(act)
        self.note()

    async def step(self, name: str, act: Awaitable[object]) -> None:
        self.asked = name
        await act
        self.done = name
        self.note()

    def note(self) -> None:
        files = self._files()
        # as of one moment: the writer may be making the locks whole
        while (again := self._files()) != files:
            files = again
        self.moments.append(Moment(self.done, self.asked, files))

    def _files(self) -> Mapping[str, bytes]:
        return {file.name: file.read_bytes() for file in self.folder.iterdir() if not file.name.endswith(".tmp")}

    def _watched(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            self.note()
            return real(*args, **named)

        return call


def remains(moment: Moment, folder: Path) -> LockState:
    """The locks as the next wconfd has them, in which OLD is dead, and NEW and OTHER live."""
    folder.mkdir(exist_ok=True)
    restore(folder, moment.files)
    return orphanedlocks.release_dead(LockStore.load(folder / "locks.data", max_bypass=2).state, [OLD], 7.0).state


def holders(state: LockState) -> dict[str, str]:
    """What is held, and for which commands: owner -> locks, and keys behind a slash."""
    found = {each.livelock: held_text(state.table, each) for each in state.table.owners()}
    for each, row in state.may_run:
        found[each.livelock] += "".join(f" /{command.key}" for command in row.commands)
    return found


WANTED = "node/a=exclusive"
ORDER = ["begun", "taken", "kept", "died", "adopted", "adopter freed"]
AFTER: dict[str, dict[str, str]] = {
    "begun": {},
    # without a command that may run the dead one has lost it
    "taken": {},
    "kept": {"/nowhere/old": f"{WANTED} /1.0.1 /1.1.1"},
    "died": {"/nowhere/old": f"{WANTED} /1.0.1 /1.1.1"},
    "adopted": {"/nowhere/new": f"{WANTED} /1.0.1 /1.1.1"},
    "adopter freed": {OTHER.livelock: "node/a=shared"},
}


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_crash_at_any_moment_loses_no_command_and_frees_nothing_early(tmp_path: Path, has_journal: bool) -> None:
    story = Story(tmp_path / "lib")

    async def run() -> None:
        locks = LockStore.load(tmp_path / "lib" / "locks.data", max_bypass=2, has_journal=has_journal)
        async with trio.open_nursery() as nursery:
            await nursery.start(locks.run)
            take = requests(WANTED)
            await story.step("taken", locks.change(OLD, lambda state: waiting.try_update(state, OLD, take)))
            await story.step("kept", locks.change(OLD, lambda state: orphanedlocks.keep_for(state, OLD, [G1, G2])))
            await story.step("died", locks.release_dead([OLD]))
            await story.step("adopted", locks.carry_out(lambda state: orphanedlocks.adopt(state, NEW)))
            asked = requests("node/a=shared")
            await locks.change(OTHER, lambda state: waiting.update_or_queue(state, OTHER, 0, asked))
            await story.step("adopter freed", locks.change(NEW, lambda state: waiting.free_all(state, NEW)))
            nursery.cancel_scope.cancel()

    story.run(run)

    assert len(story.moments) > 20
    for moment in story.moments:
        state = remains(moment, tmp_path / "crashed")
        # with the first of them alone the lock may be free; then nobody was told of a command
        possible = [AFTER[name] for name in sorted({moment.done, moment.asked}, key=ORDER.index)]
        found = {
            who: held for who, held in holders(state).items() if who != OTHER.livelock or "adopter" in moment.asked
        }
        assert found in possible, moment
    assert holders(remains(story.moments[-1], tmp_path / "crashed")) == AFTER["adopter freed"]
    assert story.moments[-1].files["ghosts.data"] == b'{"guarded":[]}'


def test_a_crash_while_commands_end_or_are_claimed_keeps_what_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path / "lib")
    claim = Claim(OLD, tuple(owned(WANTED)), (G1, G2))

    async def run() -> None:
        locks = LockStore.load(tmp_path / "lib" / "locks.data", max_bypass=2)
        async with trio.open_nursery() as nursery:
            await nursery.start(locks.run)
            await story.step("claimed", locks.carry_out(lambda s: orphanedlocks.claim_locks(s, [claim], 1.0)))
            await story.step("one released", locks.carry_out(lambda s: orphanedlocks.release(s, ["1.0.1"])))
            await story.step("both released", locks.carry_out(lambda s: orphanedlocks.release(s, ["1.1.1"])))
            nursery.cancel_scope.cancel()

    story.run(run)

    after = {
        "begun": {},
        "claimed": {"/nowhere/old": f"{WANTED} /1.0.1 /1.1.1"},
        "one released": {"/nowhere/old": f"{WANTED} /1.1.1"},
        "both released": {},
    }
    for moment in story.moments:
        found = holders(remains(moment, tmp_path / "crashed"))
        assert found in [after[moment.done], after[moment.asked]], moment


def test_a_command_of_a_living_owner_that_has_ended_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    story = Story(tmp_path / "lib")

    async def run() -> None:
        locks = LockStore.load(tmp_path / "lib" / "locks.data", max_bypass=2)
        async with trio.open_nursery() as nursery:
            await nursery.start(locks.run)
            take = requests(WANTED)
            await story.step("taken", locks.change(OLD, lambda state: waiting.try_update(state, OLD, take)))
            await story.step("kept", locks.change(OLD, lambda state: orphanedlocks.keep_for(state, OLD, [G1, G2])))
            await story.step(
                "released", locks.carry_out(lambda state: orphanedlocks.release(state, ["1.0.1", "1.1.1"]))
            )
            nursery.cancel_scope.cancel()

    story.run(run)

    # OLD lives until the crash: what is left of it is free, or is kept by its commands
    kept = {"/nowhere/old": f"{WANTED} /1.0.1 /1.1.1"}
    after: dict[str, dict[str, str]] = {"begun": {}, "taken": {}, "kept": kept, "released": {}}
    for moment in story.moments:
        found = holders(remains(moment, tmp_path / "crashed"))
        assert found in [after[moment.done], after[moment.asked]], moment


@pytest.mark.trio
async def test_a_command_that_cannot_be_written_is_refused_and_a_void_one_is_gone_before_the_owner_takes_locks_again(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locks.data"
    locks = LockStore.load(path)
    await nursery.start(locks.run)
    take = requests(WANTED)
    await locks.change(OLD, lambda state: waiting.try_update(state, OLD, take))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("daemons.wconfd.locks.lockfiles.write_file", refuse)
        with pytest.raises(Unavailable, match="could not be written: No space left on device; nothing was changed"):
            await locks.change(OLD, lambda state: orphanedlocks.keep_for(state, OLD, [G1]))
        assert OLD not in locks.state.may_run

    await locks.change(OLD, lambda state: orphanedlocks.keep_for(state, OLD, [G1]))
    with monkeypatch.context() as patch:
        # the file is not tidied
        patch.setattr("daemons.wconfd.locks.lockfiles.MayRunFile.tidy", lambda *_: None)
        await locks.change(OLD, lambda state: waiting.free_all(state, OLD))
        assert b"1.0.1" in (tmp_path / "ghosts.data").read_bytes()
        await locks.change(OLD, lambda state: waiting.try_update(state, OLD, take))

        assert b"1.0.1" not in (tmp_path / "ghosts.data").read_bytes()
