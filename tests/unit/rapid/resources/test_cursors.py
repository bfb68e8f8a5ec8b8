"""Cursors of pages."""

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from daemons.rapid.resources.joblists import Cursor


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("job_id", [0, 7, 2**63 - 1])
def test_a_cursor_is_read_as_it_was_written(job_id: int, ascending: bool) -> None:
    cursor = Cursor(JobId(job_id), ascending)

    assert Cursor.read(cursor.text()) == cursor
    assert cursor.text().replace("_", "").replace("-", "").isalnum()


@pytest.mark.parametrize("text", ["", "x", "7", "PD", "PDE!", "ä", "P" * 500, "PDEyMzQ1Njc4OTAxMjM0NTY3ODkw"])
def test_any_other_text_is_refused_with_its_beginning(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not one of ours"):
        Cursor.read(text)
