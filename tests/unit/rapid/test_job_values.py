"""Values of job fields under /3, and LUXI's (luxid.md 7.3)."""

from hypothesis import given
from hypothesis import strategies as st

from common.queue.jobs import LogEntry
from common.wire import structure
from protocol.rapid.jobs import Job, job_object, log_line, luxi_row, to_pair, to_seconds

FIELDS = ("id", "status", "received_ts", "end_ts", "opstart", "oplog", "summary")
LUXI = [
    7,
    "running",
    [1700000000, 250000],
    None,
    [[1700000001, 0], None],
    [[[1, [1700000002, 5], "message", "hi"]]],
    ["X"],
]


def test_times_are_seconds_and_log_lines_objects() -> None:
    job = job_object(FIELDS, LUXI)

    assert job == {
        "id": 7,
        "status": "running",
        "received_ts": 1700000000.25,
        "end_ts": None,
        "opstart": [1700000001.0, None],
        "oplog": [[{"serial": 1, "at": 1700000002.000005, "kind": "message", "message": "hi"}]],
        "summary": ["X"],
    }
    assert structure(job, Job).received_ts == 1700000000.25


def test_numbers_that_are_no_instants_stay() -> None:
    for number in (1e308, -1e308, 10**30):
        assert to_pair(number) == number


def test_a_row_comes_back_as_it_was() -> None:
    assert luxi_row(FIELDS, job_object(FIELDS, LUXI)) == LUXI


def test_a_job_that_does_not_exist_has_null_for_everything() -> None:
    assert luxi_row(("id", *FIELDS), {"id": 7, "status": None}) == [7, 7, *[None] * 6]


@given(st.integers(0, 2**32 - 1), st.integers(0, 999_999))
def test_no_microsecond_is_lost(whole: int, micro: int) -> None:
    assert to_pair(to_seconds([whole, micro])) == [whole, micro]
    entry = LogEntry(3, (whole, micro), "message", "text")
    assert to_pair(log_line(entry).at) == [whole, micro]
