"""`gnt-job list` and `info`. Source: cli.md 1.3 and 2; STYLE section 8."""

import json
from collections.abc import Callable

import pytest

from tests.cli.command import Ended, normalised
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


def later(seconds: int) -> list[int]:
    return [AT[0] + seconds, 0]


JOBS = (
    FakeJob(9, "success", start_ts=AT, end_ts=later(75)),
    FakeJob(10, "running", start_ts=AT, priority=-10, summary=["RUN_COMMAND(a\nb)", "TEST_DUMMY"]),
    FakeJob(11),
    FakeJob(12, "error", start_ts=AT, end_ts=later(2), results=[["OpExecError", ["no space left"]]]),
)


def test_the_table_is_aligned_and_control_characters_cannot_break_it(start_luxid: Start, job: Job) -> None:
    start_luxid(*JOBS)

    ended = job("list", "-o", "id,status,priority,summary")

    assert (ended.code, ended.err) == (0, "")
    assert (
        ended.out
        == """\
ID  STATUS   PRIORITY  SUMMARY
 9  success  normal    TEST_DELAY(1.0)
10  running  high      RUN_COMMAND(a\\nb),TEST_DUMMY
11  queued   normal    TEST_DELAY(1.0)
12  error    normal    TEST_DELAY(1.0)
"""
    )


def test_the_time_of_an_ended_job_is_how_long_it_ran(start_luxid: Start, job: Job) -> None:
    start_luxid(*JOBS)

    assert job("list", "--no-headers", "-o", "id,time", "9", "12") == Ended(0, " 9  1m15s\n12   2.0s\n", "")


def test_an_empty_queue_is_a_header_alone(start_luxid: Start, job: Job) -> None:
    start_luxid()

    assert job("list") == Ended(0, "ID  STATUS  PRIORITY  TIME  SUMMARY\n", "")
    assert job("list", "--no-headers") == Ended(0, "", "")


def test_a_separator_leaves_the_columns_unaligned(start_luxid: Start, job: Job) -> None:
    start_luxid(*JOBS)

    ended = job("list", "--separator", "|", "--no-headers", "-o", "id,status,runtime,end_ts", "9", "11")

    assert normalised(ended.out) == "9|success|TIME|CLOCK\n11|queued|-|-\n"


@pytest.mark.parametrize(
    ("option", "ids"),
    [("--pending", "11\n"), ("--running", "10\n"), ("--error", "12\n"), ("--finished", "9\n12\n")],
)
def test_a_status_option_leaves_out_the_others(start_luxid: Start, job: Job, option: str, ids: str) -> None:
    start_luxid(*JOBS)

    ended = job("list", option, "--no-headers", "--separator", ",", "-o", "id")

    assert ended == Ended(0, ids, "")


def test_an_unknown_field_shows_question_marks_and_ends_with_14(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(11))

    ended = job("list", "--no-headers", "-o", "id,sumary")

    assert ended == Ended(14, "11  ??\n", "warning: unknown field 'sumary'; did you mean 'summary'?\n")


def test_a_job_that_does_not_exist_is_a_row_of_nothing_and_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(11))

    ended = job("list", "--no-headers", "--separator", " ", "-o", "id,status,opstart", "11", "99")

    error = "error: there is no job 99; 'gnt-job list' shows those that are not archived\n"
    assert ended == Ended(1, "11 queued -\n99 - -\n", error)


def test_json_has_the_values_of_the_wire(start_luxid: Start, job: Job) -> None:
    start_luxid(*JOBS)

    ended = job("list", "--output", "json", "-o", "id,time", "9")

    assert json.loads(ended.out) == [
        {"id": 9, "status": "success", "received_ts": AT, "start_ts": AT, "end_ts": later(75)}
    ]


def test_info_tells_everything_in_the_shape_of_ganeti(start_luxid: Start, job: Job) -> None:
    log = [[1, AT, "message", "half done"]]
    start_luxid(FakeJob(12, "error", start_ts=AT, end_ts=later(2), results=[["OpExecError", ["no space"]]], log=log))

    ended = job("info", "12")

    assert (ended.code, ended.err) == (0, "")
    assert (
        normalised(ended.out)
        == """\
- Job ID: 12
  Status: error
  Priority: 0
  Received:         CLOCK
  Processing start: CLOCK (delta TIME)
  Processing end:   CLOCK (delta TIME)
  Total processing time: 2.000000 seconds
  Opcodes:~
    - Opcode: OP_TEST_DELAY
      Status: error
      Processing start: CLOCK
      Execution start:  CLOCK
      Processing end:   CLOCK
      Input fields:~
        duration: 1.0
      Result: ["OpExecError",["no space"]]
      Execution log:~
        - Time: CLOCK
          Content: [1,"message","half done"]
""".replace("~", " ")
    )


def test_info_of_a_job_that_does_not_exist_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid()

    ended = job("info", "5")

    assert ended == Ended(1, "", "error: there is no job 5; 'gnt-job list' shows those that are not archived\n")
