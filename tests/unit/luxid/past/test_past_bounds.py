"""Bounds of the questions to the history (everyday.md section g)."""

from pathlib import Path

import pytest

from common.errors import InvalidRequest
from daemons.luxid.core.past.queries import MOST_OFFSET, Eyes, SqlCondition
from daemons.luxid.history.index import open_index, read_list
from protocol.luxi.history import ReadHistory


def test_an_offset_beyond_the_numbers_of_the_index_is_refused_and_the_largest_is_not(tmp_path: Path) -> None:
    index = open_index(tmp_path / "history")

    assert read_list(index, ReadHistory(offset=MOST_OFFSET), Eyes(None)) == ((), 0)
    with pytest.raises(InvalidRequest, match=f"offset 0 to {MOST_OFFSET}"):
        read_list(index, ReadHistory(offset=MOST_OFFSET + 1), Eyes(None))

    index.close()


def test_a_loss_of_power_leaves_no_mixture_of_old_and_new_pages(tmp_path: Path) -> None:
    """The check at the start finds no fault in an index whose order by ends lacks jobs that its table has."""
    index = open_index(tmp_path / "history")

    # NORMAL: the log is synced before it is moved, and the file before the log is used anew
    assert index.select(SqlCondition("PRAGMA synchronous", ())) == [(1,)]
    assert index.select(SqlCondition("PRAGMA journal_mode", ())) == [("wal",)]

    index.close()
