"""Bounds of the questions to the history (everyday.md section g)."""

from pathlib import Path

import pytest

from common.errors import InvalidRequest
from daemons.luxid.core.past.queries import MOST_OFFSET, Eyes
from daemons.luxid.history.index import open_index, read_list
from protocol.luxi.history import ReadHistory


def test_an_offset_beyond_the_numbers_of_the_index_is_refused_and_the_largest_is_not(tmp_path: Path) -> None:
    index = open_index(tmp_path / "history")

    assert read_list(index, ReadHistory(offset=MOST_OFFSET), Eyes(None)) == ((), 0)
    with pytest.raises(InvalidRequest, match=f"offset 0 to {MOST_OFFSET}"):
        read_list(index, ReadHistory(offset=MOST_OFFSET + 1), Eyes(None))

    index.close()
