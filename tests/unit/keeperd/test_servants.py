"""The daemons of the master are watched whatever goes wrong (lease.md 7)."""

import errno
from pathlib import Path

import pytest
import trio

from common.daemons import MASTER_DAEMONS
from common.paths import Paths
from common.settings import Settings
from daemons.keeperd.servants import Servants


@pytest.mark.trio
async def test_daemons_that_cannot_be_looked_for_are_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[str] = []

    def find(_: Paths, name: str) -> None:
        asked.append(name)
        if len(asked) == 1:
            raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("daemons.keeperd.servants.find_daemon", find)
    servants = Servants(Settings(Paths.under_root(tmp_path)), lambda _: None)

    assert await servants.until_one_ends() in MASTER_DAEMONS
    assert len(asked) > 1
