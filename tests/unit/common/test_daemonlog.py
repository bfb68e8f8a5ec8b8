"""Lines of logs as records, in the order of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.words.logs import LogChoice, LogRecord, in_order, read_records, stamp_of


def line(second: int, text: str = "a.b", program: str = "luxid", level: str = "info") -> str:
    return f"2026-03-01T12:00:{second:02d}.000Z {program} {level} {text}"


def records(*lines: str) -> list[LogRecord]:
    return list(read_records(lines))


def test_a_record_has_its_fields_and_its_traceback() -> None:
    cut, first, second = "rest of a line", line(1, r'job.failed job=17 reason="it said \"no\"" n=-'), line(2)

    one, other = records(cut, first, "  Traceback", "  ValueError: 3", second)

    assert (one.program, one.level, one.event) == ("luxid", "info", "job.failed")
    assert one.fields == {"job": "17", "reason": 'it said "no"', "n": "-"}
    assert one.lines == (first, "  Traceback", "  ValueError: 3")
    assert one.to_json()["more"] == ["  Traceback", "  ValueError: 3"]
    assert other.lines == (second,)
    assert stamp_of(one.at) == one.stamp


def test_older_records_are_passed_over_with_their_tracebacks() -> None:
    since = "2026-03-01T12:00:05.000Z"

    found = list(read_records([line(4), "  of 4", line(5), "  of 5", line(3), "  of 3", line(6)], since))

    assert [record.lines for record in found] == [(line(5), "  of 5"), (line(6),)]


@pytest.mark.parametrize(
    ("choice", "is_wanted"),
    [
        (LogChoice(), True),
        (LogChoice(level="warning"), True),
        (LogChoice(level="error"), False),
        (LogChoice(job_id=17), True),
        (LogChoice(job_id=7), False),
        (LogChoice(job_id=171), False),
        (LogChoice(job_id=9), True),
        (LogChoice(job_id=5), False),
        (LogChoice(since="2026-03-01T12:00:02.000Z"), False),
        (LogChoice(until="2026-03-01T12:00:00.500Z"), False),
    ],
)
def test_records_are_chosen_by_level_job_and_time(choice: LogChoice, is_wanted: bool) -> None:
    (record,) = records(line(1, "x.y job=17 pid=5 by_job=9", level="warning"))

    assert choice.wants(record) is is_wanted


@given(st.lists(st.lists(st.integers(0, 59), max_size=40).map(sorted), max_size=5))
def test_logs_that_are_nearly_in_order_are_put_in_order(logs: list[list[int]]) -> None:
    # neighbours in the wrong order, as of two processes
    swapped = [[second for pair in zip(log[1::2], log[::2], strict=False) for second in pair] for log in logs]

    found = list(in_order([records(*map(line, log)) for log in swapped]))

    assert [record.stamp for record in found] == sorted(record.stamp for record in found)
    assert len(found) == sum(map(len, swapped))
