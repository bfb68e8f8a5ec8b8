"""`gnt-job list` and `info`. Source: cli.md 1.3 and 2."""

import json
from collections.abc import Callable

import pytest

from cli.connection import user_name
from protocol.luxi.queries import Query
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


FILTERED = (
    *JOBS,
    FakeJob(13, "queued", [{"OP_ID": "OP_RUN_COMMAND"}], ["RUN_COMMAND(reboot web1)"], user="ann"),
    FakeJob(8, "success", archived=True),
)


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["status=queued"], "11\n13\n"),
        (["--where", "status=queued & op=OP_RUN_COMMAND"], "13\n"),
        (["--where", "op!=run_command", "--pending"], "11\n"),
        (["-F", "id"], ""),
        (['"TEST_DUMMY" in summary and priority < 0'], "10\n"),
        (["--where", "summary =~ m/REBOOT/i or status=failed"], "12\n13\n"),
        (["--where", "user=ann"], "13\n"),
        (["--where", "priority=high"], "10\n"),
        (["--where", "priority!=normal | priority > 5"], "10\n"),
        (["--queued", "11", "12"], "11\n"),
        (["--failed", "--where", "id>12"], ""),
    ],
)
def test_a_filter_is_judged_by_luxid(start_luxid: Start, job: Job, words: list[str], ids: str) -> None:
    luxid = start_luxid(*FILTERED)

    ended = job("list", "--no-headers", "--separator", ",", "-o", "id", *words)

    if words == ["-F", "id"]:
        error = "error: field 'id' is not true or false but a number: 9\n"
        assert ended == Ended(1, "", error)
    else:
        assert ended == Ended(0, ids, "")
    (call,) = luxid.calls
    assert isinstance(call, Query)
    assert call.filter is not None


@pytest.mark.parametrize("verb", ["list", "wait", "watch", "rerun", "cancel"])
def test_a_star_in_a_comparison_of_whole_values_is_warned_of(start_luxid: Start, job: Job, verb: str) -> None:
    start_luxid(*JOBS)

    ended = job(verb, "--where", "user=a*")

    assert ended.err.startswith("warning: '*' stands for itself in user=a*: = compares whole values; for a pattern")


def test_archived_jobs_are_listed_on_request_with_a_column_that_says_so(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(8, "success", archived=True), FakeJob(9))

    ended = job("list", "--archived", "-o", "id")

    assert ended == Ended(0, "ID  ARCHIVED\n 8  Y\n 9  N\n", "")


def test_mine_are_the_jobs_that_this_user_submitted(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(8, user="somebody"), FakeJob(9, user=user_name()), FakeJob(10))

    assert job("list", "--mine", "--no-headers", "-o", "id,user") == Ended(0, f"9  {user_name()}\n", "")


def test_verbose_says_in_words_why_a_cell_is_empty(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(11))

    ended = job("list", "-v", "--no-headers", "-o", "id,start_ts,nonsense")

    assert (ended.code, ended.out) == (14, "11  (unavail)  (unknown)\n")


def test_a_filter_that_cannot_be_read_is_2_with_the_place(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    ended = job("list", "--where", "status running")

    error = "error: filter, character 8: expected 'and', 'or' or the end before 'running'\n"
    assert ended == Ended(2, "", error)
    assert luxid.calls == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "status=bogus",
            "1: no job is 'bogus'; states are queued, waiting, canceling, running, canceled, success, error",
        ),
        ("priority=urgent", "1: no priority is 'urgent'; write a number, or low (10), normal (0), high (-10)"),
        ("priority<high", "1: 'priority' is a number, and cannot be compared with 'high'"),
        ("id>abc", "1: 'id' is a number, and cannot be compared with 'abc'"),
        ("id=" + "9" * 5000, "4: the number 99999999999999999999... is too large"),
        ("!(id=1 | sumary=~x)", "10: no field 'sumary'; did you mean 'summary'?"),
        ("status=queued|waiting", "15: no field 'waiting'; did you mean 'status=waiting'?"),
        ("id=1 & runtime>5", "8: 'runtime' can be shown only; 'age' and 'start' can be compared"),
        ("age=~5", "1: 'age' is compared by <, <=, > and >= with a duration, as in 'age > 30m'"),
        ("labels=web", "1: 'labels' can be shown only; one label can be compared, as in label.team=web"),
        (
            "end > yesterdy",
            "1: 'yesterdy' is not a time; for example 'tomorrow 02:00', 'in 3h', '2h ago', 'monday 9:30' "
            "or '2026-11-21 02:00'",
        ),
    ],
)
def test_a_filter_that_can_hold_for_no_job_is_2(start_luxid: Start, job: Job, text: str, error: str) -> None:
    luxid = start_luxid()

    assert job("list", "--where", text) == Ended(2, "", f"error: filter, character {error}\n")
    assert luxid.calls == []


@pytest.mark.parametrize("names", ["", ","])
def test_a_list_of_no_fields_is_2(start_luxid: Start, job: Job, names: str) -> None:
    start_luxid(FakeJob(11))

    error = f"error: -o '{names}' names no field; 'gnt-job list-fields' shows all\n"
    assert job("list", "-o", names) == Ended(2, "", error)


def test_list_fields_tells_luxids_fields_and_our_own(start_luxid: Start, job: Job) -> None:
    start_luxid()

    every = job("list-fields")
    some = job("list-fields", "--no-headers", "--separator", "|", "age", "status", "oder")

    assert (every.code, every.err) == (0, "")
    assert (
        every.out
        == """\
NAME     TYPE    TITLE    DESCRIPTION
age      Custom  Age      how long ago the job was submitted (no filter)
cpu      Custom  Cpu      CPU time that its commands used (no filter)
id       Number  ID       the job's id
memory   Custom  Memory   highest memory of its commands (no filter)
read     Custom  Read     what its commands read from disks (no filter)
runtime  Custom  Runtime  how long it ran, or has been running (no filter)
status   Text    STATUS   the job's status
summary  Custom  SUMMARY  the job's summary
time     Custom  Time     how long it ran or runs; before that, how long it has been waiting (no filter)
written  Custom  Written  what its commands wrote to disks (no filter)
"""
    )
    assert some == Ended(
        14,
        "age|Custom|Age|how long ago the job was submitted (no filter)\nstatus|Text|STATUS|the job's status\n"
        "oder|Unknown|ODER|the job's oder\n",
        "warning: unknown field 'oder'; without names all fields are listed\n",
    )


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

    ended = job("list", "--output", "json", "-o", "id,time", "9", env={"TZ": "UTC"})

    [told] = json.loads(ended.out)
    assert {name: told.pop(name)[:13] for name in ("received", "start", "end")} == dict.fromkeys(
        ("received", "start", "end"), "2023-11-14T22"
    )
    assert told == {"id": 9, "status": "success", "received_ts": AT, "start_ts": AT, "end_ts": later(75)}


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


def test_info_says_that_the_result_is_not_for_this_user(start_luxid: Start, job: Job) -> None:
    """DESIGN section 4: of other users' jobs luxid tells neither the result nor the log."""
    start_luxid(FakeJob(12, "success", ops=[{"OP_ID": "OP_RUN_COMMAND", "argv": ["sh"]}], start_ts=AT, end_ts=AT))

    ended = job("info", "12")

    assert "      Result: like the arguments, told only to its submitter and to operators\n" in ended.out


def test_info_of_a_job_that_does_not_exist_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid()

    ended = job("info", "5")

    assert ended == Ended(1, "", "error: there is no job 5; 'gnt-job list' shows those that are not archived\n")


def test_a_limit_shows_the_newest_and_tells_how_many_are_left_out(start_luxid: Start, job: Job) -> None:
    start_luxid(*JOBS)

    ended = job("list", "--no-headers", "-o", "id", "--limit", "2")

    assert ended == Ended(0, "11\n12\n", "… 2 more; --limit 4 shows all, --since or --where fewer\n")


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["runtime"], [10, 9, 12, 11]),
        (["end_ts"], [9, 12, 10, 11]),
        (["end_ts", "--reverse"], [12, 9, 10, 11]),
        (["status"], [12, 11, 10, 9]),
        (["priority", "--limit", "3"], [9, 11, 12]),
    ],
)
def test_a_list_is_sorted_by_a_field(start_luxid: Start, job: Job, words: list[str], ids: list[int]) -> None:
    start_luxid(*JOBS)

    ended = job("list", "--no-headers", "--separator", ",", "-o", "id", "--sort", *words)

    assert [int(line) for line in ended.out.splitlines()] == ids


def test_it_is_not_sorted_by_what_is_no_field(start_luxid: Start, job: Job) -> None:
    start_luxid()

    error = "error: --sort 'runtme' is not a field; 'gnt-job list-fields' shows all\n"
    assert job("list", "--sort", "runtme") == Ended(2, "", error)


def test_people_see_names_and_programs_the_summary_too(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(7, name="backup", labels={"team": "web"}), FakeJob(8))

    assert job("list", "-o", "id,summary,labels").out == (
        "ID  SUMMARY          LABELS\n 7  backup           team=web\n 8  TEST_DELAY(1.0)  -\n"
    )
    assert job("list", "--no-headers", "-o", "id,summary").out == "7  TEST_DELAY(1.0)\n8  TEST_DELAY(1.0)\n"
    [told, _] = json.loads(job("list", "--output", "json").out)
    assert (told["name"], told["summary"]) == ("backup", ["TEST_DELAY(1.0)"])
    # the wire's instant, and beside it a text with its zone
    assert told["received_ts"] == AT
    assert told["received"].startswith("2023-11-1")
    assert told["received"][-6] in "+-"
    assert told["end"] is None


def test_the_times_of_a_list_are_conditions(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(*JOBS)

    job("list", "--since", "@1700000000", "--until", "2023-11-16 00:00Z")

    [query] = [call for call in luxid.calls if isinstance(call, Query)]
    assert query.filter is not None
    assert query.filter.to_wire() == ["&", [">=", "received_ts", AT[0]], ["<", "received_ts", 1_700_092_800]]
