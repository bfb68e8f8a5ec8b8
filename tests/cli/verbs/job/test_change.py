"""The verbs that change jobs or the queue. Source: cli.md 2 and 5."""

import json
from collections.abc import Callable
from pathlib import Path

from common.ids import JobId
from common.queue.jobs import JobState
from protocol.luxi.jobs import AfterJob, AutoArchiveJobs, CancelJobs, ChangeJobs, TermsChange
from protocol.luxi.queue import SetDrainFlag
from tests.cli.command import Ended, run
from tests.cli.fakeluxid import FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


def test_cancel_prints_what_luxid_says_and_fails_if_any_job_was_not_canceled(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5), FakeJob(6, "success"))

    ended = job("cancel", "5", "6", "7")

    assert ended == Ended(
        1,
        "Job 5 has been canceled\n",
        "error: job 6 is already final (success)\nerror: job 7: there is no such job\n",
    )


def test_kill_is_passed_on(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5, "running"))

    job("cancel", "--kill", "5")

    assert luxid.calls == [CancelJobs((JobId(5),), True)]


def test_cancel_by_state_asks_and_without_a_terminal_the_answer_is_no(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "running"))

    ended = job("cancel", "--pending", stdin="y\n")

    assert ended == Ended(
        13,
        "",
        "ID  STATUS  SUMMARY\n"
        " 5  queued  TEST_DELAY(1.0)\n"
        "nothing was changed; to cancel them without this question add --force\n",
    )
    assert luxid.jobs[5].status == "queued"


def test_cancel_by_state_with_force_does_not_ask(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "running"))

    ended = job("cancel", "--pending", "--force")

    assert ended == Ended(0, "Job 5 has been canceled\n", "")
    assert luxid.jobs[6].status == "running"


def test_a_job_that_cannot_be_archived_yet_keeps_no_other_from_the_archive(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5, "success"), FakeJob(6, "success", batch="b1"), FakeJob(7, "success"))

    ended = job("archive", "5", "6", "7")

    assert ended == Ended(1, "", "error: job 6: notifications for its batch are still pending\n")
    assert (luxid.jobs[5].archived, luxid.jobs[7].archived) == (True, True)


def test_the_archive_alone_chooses_no_jobs(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "running"))

    ended = job("cancel", "--archived", "--force")

    assert ended.code == 2
    assert "name jobs by their ids, or by a condition" in ended.err
    assert luxid.calls == []


def test_cancel_by_a_state_that_no_job_has_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(6, "running"))

    error = "error: no job to cancel matches; 'gnt-job list' shows all\n"
    assert job("cancel", "--queued") == Ended(1, "", error)
    assert job("cancel", "--where", "op=OP_NODE_ADD", "--force") == Ended(1, "", error)


def test_as_json_those_changed_are_a_list_also_if_there_are_none(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5), FakeJob(6, "success"))

    nothing_there = job("cancel", "--running", "--force", "--output", "json")
    not_confirmed = job("archive", "--finished", "--output", "json")

    assert (nothing_there.code, nothing_there.out) == (1, "[]\n")
    assert (not_confirmed.code, not_confirmed.out) == (13, "[]\n")


def test_jobs_that_cannot_be_changed_are_not_counted(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "success"))

    assert job("cancel", "--finished", "--dry-run", "--output", "json") == Ended(0, "[]\n", "")
    assert job("cancel", "--dry-run", "--output", "json", "5", "6") == Ended(0, "[5]\n", "")
    assert job("archive", "--pending", "--force").code == 1
    assert not any(isinstance(call, CancelJobs) for call in luxid.calls)


def test_cancel_wants_ids_or_a_condition(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5))
    error = "error: name jobs by their ids, or by a condition such as --pending or --where FILTER; see "

    ended = job("cancel")

    assert ended == Ended(2, "", f"{error}'gnt-job cancel --help'\n")


def test_a_dry_run_says_which_jobs_and_changes_none(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "running", [{"OP_ID": "OP_X"}], ["X"]), FakeJob(7, "success"))

    by_filter = job("cancel", "--dry-run", "--where", "id > 4")
    by_ids = job("cancel", "--dry-run", "6")
    as_json = job("archive", "--dry-run", "--where", "id > 4", "--output", "json")

    table = "ID  STATUS   SUMMARY\n 5  queued   TEST_DELAY(1.0)\n 6  running  X\n"
    assert by_filter == Ended(0, table, "would cancel 2 jobs; nothing was changed\n")
    assert by_ids == Ended(0, "ID  STATUS   SUMMARY\n 6  running  X\n", "would cancel 1 job; nothing was changed\n")
    assert as_json == Ended(0, "[7]\n", "")
    assert [job.status for job in luxid.jobs.values()] == ["queued", "running", "success"]


def test_a_filter_chooses_only_jobs_that_can_be_changed_so(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6, "success"), FakeJob(7, "error"))

    canceled = job("cancel", "--force", "--where", "id > 4")
    raised = job("change-priority", "--priority", "high", "--force", "id > 4")
    archived = job("archive", "--force", "--where", "status=failed | status=canceled")

    assert canceled == Ended(0, "Job 5 has been canceled\n", "")
    assert raised.code == 1
    assert archived == Ended(0, "", "")
    assert [number for number, job in luxid.jobs.items() if job.archived] == [5, 7]


def test_change_priority_sends_the_number_of_the_word(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6))

    ended = job("change-priority", "--priority", "low", "--output", "json", "5", "6")

    answers = json.loads(ended.out)
    assert (ended.code, [is_done for is_done, _ in answers]) == (0, [True, True])
    assert [luxid.jobs[job_id].priority for job_id in (5, 6)] == [10, 10]


def test_very_many_jobs_are_canceled_in_one_call(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(*(FakeJob(number) for number in range(1, 501)))

    ended = job("cancel", "--queued", "--force", "--output", "json")

    assert ended.code == 0
    assert [len(call.job_ids) for call in luxid.calls if isinstance(call, CancelJobs)] == [500]


def test_hold_and_release_are_passed_on_with_the_words(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6))

    held = job("hold", "--why", "the disk is full", "5", "6")
    released = job("release", "5")

    assert held == Ended(0, "job 5 was changed\njob 6 was changed\n", "")
    assert released.code == 0
    assert luxid.calls == [
        ChangeJobs((JobId(5), JobId(6)), TermsChange(hold="the disk is full")),
        ChangeJobs((JobId(5),), TermsChange(release=True)),
    ]


def test_modify_changes_what_is_named_and_asks_for_nothing_else(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5))

    named = job("modify", "--name", "copy", "--label", "team=db", "--no-label", "x", "--begin", "@1900000000", "5")
    at_once = job("modify", "--begin", "now", "--name", "", "--priority", "high", "5")

    assert (named.code, at_once.code) == (0, 0)
    assert luxid.calls == [
        ChangeJobs(
            (JobId(5),),
            TermsChange(name="copy", labels={"team": "db"}, without_labels=("x",), begin_at=1_900_000_000.0),
        ),
        ChangeJobs((JobId(5),), TermsChange(name="", begin_at=0.0, priority=-10)),
    ]


def test_modify_sends_times_tries_units_limits_and_what_to_wait_for(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5))

    ended = job(
        *("modify", "--timeout", "2h", "--retries", "3", "--use", "licences=2", "--no-use", "web1:memory"),
        *("--at-most", "4", "--after-success", "2-3", "--after", "4:error", "--no-after", "1", "5"),
    )

    success, error = (JobState.SUCCESS,), (JobState.ERROR,)
    after = (AfterJob(JobId(4), error), AfterJob(JobId(2), success), AfterJob(JobId(3), success))
    change = TermsChange(
        uses={"licences": 2},
        without_uses=("web1:memory",),
        timeout=7200.0,
        retries=3,
        at_most=4,
        after=after,
        without_after=(JobId(1),),
    )
    assert (ended.code, luxid.calls) == (0, [ChangeJobs((JobId(5),), change)])


def test_modify_wants_something_to_change_that_a_job_can_have(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5))

    nothing, bad_label, bad_time = (
        job("modify", "5"),
        job("modify", "--label", "Team=web", "5"),
        job("modify", "--begin", "soonish", "5"),
    )

    assert (nothing.code, bad_label.code, bad_time.code) == (2, 2, 2)
    assert "nothing to change; for example --name NAME, --begin TIME, --priority low or --timeout 2h" in nothing.err
    assert "a label is named by 1 to 63" in bad_label.err
    assert "'soonish' is not a time" in bad_time.err
    assert luxid.calls == []


def test_archive_says_why_a_job_cannot_be_archived(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5, "success"), FakeJob(6, "running"), FakeJob(7, "error", archived=True))

    ended = job("archive", "5", "6", "7", "8")

    assert luxid.jobs[5].archived
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "error: job 6 is running; only a job that has ended can be archived, 'gnt-job wait 6' waits for that",
        "error: job 7 is already archived; 'gnt-job info 7' shows it",
        "error: there is no job 8; 'gnt-job list' shows those that are not archived",
    ]


def test_autoarchive_understands_ages(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5, "success"))

    assert job("autoarchive", "7d") == Ended(0, "Archived 1 jobs, 0 unchecked left\n", "")
    assert job("autoarchive", "all").code == 0
    assert luxid.calls == [AutoArchiveJobs(7 * 86400, 89), AutoArchiveJobs(-1, 89)]
    assert job("autoarchive", "old").err == (
        "error: 'old' is not a duration; write seconds, or a number with s, m, h, d or w, as in 90s\n"
    )


def test_the_queue_is_drained_and_opened(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()

    def queue(*words: str) -> Ended:
        return run("gnt-cluster", "--root", tmp_path, "queue", *words)

    assert queue("drain") == Ended(0, "", "")
    assert queue("info") == Ended(0, "The drain flag is set\n", "")
    assert queue("undrain") == Ended(0, "", "")
    assert queue("info") == Ended(0, "The drain flag is unset\n", "")
    assert queue("drain", "--output", "json") == Ended(0, '{"drained":true}\n', "")
    assert queue("undrain", "--output", "json") == Ended(0, '{"drained":false}\n', "")
    assert [call for call in luxid.calls if isinstance(call, SetDrainFlag)] == [
        SetDrainFlag(True),
        SetDrainFlag(False),
    ] * 2


def test_the_queues_info_shows_the_chain_of_filter_rules_in_force(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid()
    for words in (("pause", "--priority", "7"), ("limit", "3", "--where", "reason=backup", "--priority", "2")):
        assert run("gnt-filter", "--root", tmp_path, *words).code == 0

    shown = run("gnt-cluster", "--root", tmp_path, "queue")
    told = json.loads(run("gnt-cluster", "--root", tmp_path, "queue", "info", "--output", "json").out)

    head, title, columns, *rules = shown.out.splitlines()
    assert head == "The drain flag is unset"
    assert title == "Filter rules, in order of evaluation:"
    assert columns.split()[:3] == ["UUID", "WATERMARK", "PRIORITY"]
    assert [line.split()[2] for line in rules] == ["2", "7"]
    assert told["drained"] is False
    assert [rule["action"] for rule in told["filters"]] == [["RATE_LIMIT", 3], "PAUSE"]


def test_of_very_many_jobs_all_alike_are_told_by_a_line(start_luxid: Start, job: Job) -> None:
    start_luxid(*(FakeJob(number) for number in range(1, 102)), FakeJob(200, "success"), FakeJob(201, "success"))
    ids = [str(number) for number in (*range(1, 102), 200, 201, 300)]

    ended = job("cancel", *ids)

    assert ended == Ended(
        1,
        "each of 101 jobs, 1 to 101, has been canceled\n",
        "error: each of 2 jobs, 200 to 201, is already final (success)\nerror: job 300: there is no such job\n",
    )


def test_as_json_each_of_very_many_jobs_is_told(start_luxid: Start, job: Job) -> None:
    start_luxid(*(FakeJob(number) for number in range(1, 102)))

    ended = job("cancel", "--pending", "--force", "--output", "json")

    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)[-1] == [True, "Job 101 has been canceled"]
    assert len(json.loads(ended.out)) == 101
