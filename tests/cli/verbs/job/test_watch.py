"""`gnt-job watch`, `wait`, `output`, and `--wait`. Source: cli.md 1.2 and 2; luxid.md 8."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.luxi.feed import Subscribe
from protocol.luxi.jobs import ReadJobOutput
from protocol.luxi.queries import QueryJobs
from tests.cli.command import Background, Ended, normalised
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid
from tests.support.wait import wait_until

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]
LATER = [AT[0] + 2, 0]


def wait_until_watched(luxid: FakeLuxid, *job_ids: int) -> None:
    wait_until(lambda: all(map(luxid.is_waited_for, job_ids)), what=f"jobs {job_ids} are watched")


def test_watch_shows_log_and_output_and_how_the_job_ended(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5, "running", start_ts=AT, summary=["RUN_COMMAND(ls)"]))

    with Background("gnt-job", "--root", tmp_path, "watch", "5") as watch:
        heading = watch.read_line(), watch.read_line()
        wait_until_watched(luxid, 5)
        luxid.change(5, log=[[1, AT, "message", "begun"]])
        begun = watch.read_line()
        luxid.change(5, output="a\nb")
        first = watch.read_line()
        luxid.change(5, status="success", end_ts=LATER)
        ended = watch.end()

    assert heading == ("Job 5: RUN_COMMAND(ls)\n", "----------------------\n")
    assert normalised(begun) == "CTIME begun\n"
    assert first == "a\n"
    assert ended == Ended(0, "b\njob 5: success in 2.0s\n", "")


def test_watch_of_a_failed_job_ends_with_1_and_the_opcode_that_failed(start_luxid: Start, job: Job) -> None:
    op = {"OP_ID": "OP_TEST_DUMMY"}
    failed = FakeJob(
        *(5, "error", [op, op], ["A", "B(2)"]),
        results=[1, ["OpExecError", ["disk full\nof logs"]]],
        op_statuses=["success", "error"],
    )
    start_luxid(failed)

    ended = job("watch", "5")

    assert ended.code == 1
    assert ended.out == "Job 5: A, B(2)\n--------------\njob 5: error\n"
    assert ended.err == "error: job 5 failed at opcode 2 of 2: B(2): disk full\nof logs\n"


def test_watch_of_an_archived_job_tells_how_it_ended(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "success", archived=True, log=[[1, AT, "message", "old"]]))

    ended = job("watch", "5")

    assert normalised(ended.out) == "Job 5: TEST_DELAY(1.0)\n----------------------\nCTIME old\njob 5: success\n"
    assert (ended.code, ended.err) == (0, "")


def test_watch_of_an_unknown_job_is_refused(start_luxid: Start, job: Job) -> None:
    start_luxid()

    error = "error: there is no job 5; 'gnt-job list' shows those that are not archived\n"
    assert job("watch", "5") == Ended(1, "", error)


def test_interrupted_watch_says_that_the_job_goes_on(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5, "running"))

    with Background("gnt-job", "--root", tmp_path, "watch", "5") as watch:
        wait_until_watched(luxid, 5)
        watch.interrupt()
        ended = watch.end()

    assert ended.code == 130
    prefix = f"gnt-job --root {tmp_path}"
    assert ended.err == f"\njob 5 goes on; watch again with: {prefix} watch 5; cancel with: {prefix} cancel 5\n"


def test_whoever_watches_a_paused_job_is_told_the_rule(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5))
    luxid.reasons = {
        5: [
            {
                "kind": "filter",
                "uuid": "u-1",
                "action": "PAUSE",
                "reason_trail": [["gnt:user", "the mirror is down", 1]],
            },
            {"kind": "order", "position": 1, "ahead": []},
        ]
    }

    with Background("gnt-job", "--root", tmp_path, "watch", "5") as watch:
        told = watch.read_error_line()
        luxid.change(5, status="success")
        ended = watch.end()

    assert told == "job 5 is paused by filter rule u-1: the mirror is down\n"
    assert ended.code == 0


def test_several_jobs_are_told_by_lines_that_begin_with_their_id(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(9, "running"), FakeJob(10))

    with Background("gnt-job", "--root", tmp_path, "watch", "9", "10") as watch:
        first = {watch.read_line(), watch.read_line()}
        wait_until_watched(luxid, 9, 10)
        luxid.change(10, status="canceled")
        canceled = watch.read_line()
        luxid.change(9, status="success", log=[[1, AT, "message", "done"]])
        ended = watch.end()

    assert first == {" 9  running    TEST_DELAY(1.0)\n", "10  queued     TEST_DELAY(1.0)\n"}
    assert canceled == "10  canceled   TEST_DELAY(1.0)\n"
    assert normalised(ended.out) == " 9  CTIME done\n 9  success    TEST_DELAY(1.0)\n"
    assert (ended.code, ended.err) == (1, "error: job 10 was canceled\n")


def test_watch_with_json_prints_a_line_for_each_event(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "success", output="hello", log=[[1, AT, "message", "m"]]))

    ended = job("watch", "--output", "json", "5")

    events = sorted(map(json.loads, ended.out.splitlines()), key=len)
    assert events[0] == {"id": 5, "output": "hello"}
    assert (events[1]["status"], events[1]["log"]) == ("success", [[1, AT[0], "message", "m"]])


def test_waiting_costs_a_call_for_each_change_and_no_more(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6))

    with Background("gnt-job", "--root", tmp_path, "wait", "5", "6") as wait:
        wait_until_watched(luxid, 5, 6)
        luxid.change(6, status="success")
        luxid.change(5, status="running")
        luxid.change(5, status="success")
        ended = wait.end()

    assert ended == Ended(0, "", "")
    assert [type(call) for call in luxid.calls] == [Subscribe, QueryJobs]


def test_many_jobs_are_watched_over_one_connection(start_luxid: Start, tmp_path: Path) -> None:
    """A watch took a thread and a connection for each job, 64 at once; the 65th job was told late."""
    jobs = range(1, 101)
    luxid = start_luxid(*(FakeJob(job_id, output="x\n") for job_id in jobs))

    with Background("gnt-job", "--root", tmp_path, "watch", *jobs) as watch:
        wait_until_watched(luxid, *jobs)
        threads = len(list(Path(f"/proc/{watch.pid}/task").iterdir()))
        for job_id in reversed(jobs):
            luxid.change(job_id, status="success", log=[[1, AT, "message", "done"]])
        ended = watch.end()

    lines = [line for line in ended.out.splitlines() if "success" in line or "done" in line]
    assert (ended.code, threads, len(lines)) == (0, 1, 200)
    kinds = [type(call) for call in luxid.calls]
    assert kinds.count(Subscribe) == 1
    assert ReadJobOutput not in kinds


def test_wait_ends_with_1_if_a_job_failed(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "success"), FakeJob(6, "error", results=["the process died"]))

    assert job("wait", "5", "6") == Ended(1, "", "error: job 6 failed: TEST_DELAY(1.0): the process died\n")


def test_wait_gives_up_after_its_timeout(start_luxid: Start, job: Job, tmp_path: Path) -> None:
    start_luxid(FakeJob(5))

    ended = job("wait", "--timeout", "0.05", "5")

    again = f"gnt-job --root {tmp_path} wait 5"
    error = f"error: job 5 has not ended within TIME; it goes on, wait longer with: {again}\n"
    assert (ended.code, ended.out, normalised(ended.err)) == (1, "", error)


def test_as_json_a_wait_that_is_given_up_tells_the_states_so_far(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "success"), FakeJob(6, "running"), FakeJob(7, "error"))

    ended = job("wait", "--timeout", "0.05", "--output", "json", "5", "6", "7")

    states = [{"id": 5, "status": "success"}, {"id": 6, "status": "running"}, {"id": 7, "status": "error"}]
    assert (ended.code, json.loads(ended.out)) == (1, states)
    assert ended.err.startswith("error: job 6 has not ended within ")


def test_output_prints_what_there_is_now(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "running", output="one\ntwo"))

    assert job("output", "5") == Ended(0, "one\ntwo", "")


@pytest.mark.parametrize(
    ("shown", "result", "said"),
    [
        ("one\n", {"output_bytes": 4, "tail": ["one"]}, ""),
        ("", {"output_bytes": 0, "tail": []}, ""),
        ("", None, ""),
        ("", {"output_bytes": 6, "tail": ["hello"]}, "nothing is kept of the 6 B that job 5 has printed"),
        ("one\n", {"output_bytes": 8, "output_lost": True}, "the disk took not all that job 5 has printed"),
        ("", ["CommandFailed", ["why", {"output_lost": True}]], "the disk took not all that job 5 has printed"),
    ],
)
@pytest.mark.parametrize("words", [(), ("--output", "json"), ("--follow",)])
def test_output_that_is_not_all_there_says_so(
    start_luxid: Start, job: Job, tmp_path: Path, words: tuple[str, ...], shown: str, result: object, said: str
) -> None:
    start_luxid(FakeJob(5, "success", output=shown, results=[result]))

    ended = job("output", *words, "5")

    rest = f"; its last lines are in: gnt-job --root {tmp_path} info 5\n"
    assert (ended.code, ended.err) == (0, f"warning: {said}{rest}" if said else "")


def test_output_follows_until_the_job_has_ended(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5, "running", output="one\n"))

    with Background("gnt-job", "--root", tmp_path, "output", "--follow", "5") as output:
        first = output.read_line()
        luxid.change(5, output="one\ntwo\n")
        second = output.read_line()
        luxid.change(5, status="error")
        ended = output.end()

    assert (first, second, ended) == ("one\n", "two\n", Ended(0, "", ""))


def test_run_with_wait_prints_only_the_output_of_the_command(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()

    with Background("gnt-job", "--root", tmp_path, "run", "--wait", "--print-jobid", "ls") as watched:
        job_id = watched.read_line()
        wait_until_watched(luxid, 1)
        luxid.change(1, status="success", output="file\n", log=[[1, AT, "message", "ran"]])
        ended = watched.end()

    assert job_id == "1\n"
    assert (ended.code, ended.out, normalised(ended.err)) == (0, "file\n", "CTIME ran\n")


def test_output_of_several_jobs_is_followed_by_lines_that_begin_with_their_id(
    start_luxid: Start, tmp_path: Path
) -> None:
    luxid = start_luxid(FakeJob(9, "running", output="one\nt"), FakeJob(10, "running"))

    with Background("gnt-job", "--root", tmp_path, "output", "--follow", "9", "10") as output:
        first = output.read_line()
        luxid.change(10, output="ten\n")
        second = output.read_line()
        luxid.change(9, output="one\ntwo", status="success")
        luxid.change(10, status="success")
        ended = output.end()

    assert (first, second, ended) == (" 9  one\n", "10  ten\n", Ended(0, " 9  two\n", ""))
    assert [type(call) for call in luxid.calls] == [Subscribe, QueryJobs]


def test_a_watcher_that_luxid_dropped_goes_on_where_it_was(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(FakeJob(5, "running", output="one\n", log=[[1, AT, "message", "begun"]]))

    with Background("gnt-job", "--root", tmp_path, "watch", "5") as watch:
        before = [watch.read_line() for _ in range(4)]
        luxid.drop_subscribers()
        wait_until(lambda: len(subscriptions(luxid)) == 2, what="it subscribes again", state=lambda: luxid.calls)
        luxid.change(5, status="success", output="one\ntwo\n", log=[[1, AT, "message", "begun"]])
        ended = watch.end()

    assert sorted(map(normalised, before[2:])) == ["CTIME begun\n", "one\n"]
    assert normalised(ended.out) == "two\njob 5: success\n"
    again = subscriptions(luxid)[1]
    assert again.since is not None
    assert again.log_after == (1,)
    assert [place.offset for place in again.outputs or ()] == [4]


def subscriptions(luxid: FakeLuxid) -> list[Subscribe]:
    return [call for call in luxid.calls if isinstance(call, Subscribe)]


def test_output_of_several_jobs_as_json(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(9, "success", output="nine"), FakeJob(10, "success", output="ten"))

    for follow in ([], ["--follow"]):
        ended = job("output", *follow, "--output", "json", "10", "9")
        assert json.loads(ended.out) == [{"id": 10, "output": "ten"}, {"id": 9, "output": "nine"}]


def test_watch_calls_jobs_by_their_names(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5, "success", name="backup-web1"), FakeJob(6, "success"))

    ended = job("watch", "5", "6")

    assert ended.code == 0
    assert sorted(ended.out.splitlines()) == ["5  success    backup-web1", "6  success    TEST_DELAY(1.0)"]
