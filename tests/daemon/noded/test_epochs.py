"""A higher epoch waits for what runs under lower ones (DESIGN 12 and 14)."""

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from daemons.noded.epochs import Epochs, StaleEpoch


@pytest.mark.trio
async def test_nothing_of_an_old_master_is_written_after_the_new_one_was_heard(tmp_path: Path) -> None:
    epochs, told = Epochs(tmp_path / "epoch"), list[str]()
    may_end = trio.Event()

    async def old_master() -> None:
        async with epochs.admitted(1, changes=True):
            await may_end.wait()
            told.append("old is written")

    async def new_master() -> None:
        async with epochs.admitted(2, changes=True):
            told.append("new is written")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(old_master)
        await wait_all_tasks_blocked(0.05)
        nursery.start_soon(new_master)
        nursery.start_soon(new_master)
        while epochs.highest < 2:
            await wait_all_tasks_blocked(0.01)
        await wait_all_tasks_blocked(0.05)
        assert told == []
        may_end.set()

    assert told == ["old is written", "new is written", "new is written"]
    with pytest.raises(StaleEpoch):
        async with epochs.admitted(1, changes=True):
            pass


@pytest.mark.trio
async def test_calls_that_change_nothing_are_not_waited_for(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path / "epoch")

    async with (
        epochs.admitted(1, changes=False),
        epochs.admitted(None, changes=True),
        epochs.admitted(2, changes=True),
    ):
        assert epochs.highest == 2


@pytest.mark.trio
async def test_the_epoch_is_durable_before_the_call(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path / "epoch")

    async with epochs.admitted(5, changes=True):
        assert Epochs(tmp_path / "epoch").highest == 5
    async with epochs.admitted(5, changes=True):
        pass
