"""The verbs that change jobs or the queue. Source: cli.md 2 and 5."""

import json
from collections.abc import Callable
from pathlib import Path

from protocol.luxi import AutoArchiveJobs, CancelJob, SetDrainFlag
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

    assert luxid.calls == [CancelJob(5, True)]  # type: ignore[arg-type]


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


def test_cancel_by_a_state_that_no_job_has_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(6, "running"))

    assert job("cancel", "--queued") == Ended(1, "", "error: no job is queued; 'gnt-job list' shows all\n")


def test_cancel_wants_either_ids_or_a_state(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5))
    error = (
        "error: name jobs by their ids, or by one of --pending, --queued and --waiting; see 'gnt-job cancel --help'\n"
    )

    assert job("cancel") == Ended(2, "", error)
    assert job("cancel", "--queued", "5") == Ended(2, "", error)


def test_change_priority_sends_the_number_of_the_word(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(5), FakeJob(6))

    ended = job("change-priority", "--priority", "low", "--output", "json", "5", "6")

    answers = json.loads(ended.out)
    assert (ended.code, [is_done for is_done, _ in answers]) == (0, [True, True])
    assert [luxid.jobs[job_id].priority for job_id in (5, 6)] == [10, 10]


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
        "error: 'old' is no duration; write seconds, or a number with s, m, h, d or w, as in 90s\n"
    )


def test_the_queue_is_drained_and_opened(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()

    def queue(action: str) -> Ended:
        return run("gnt-cluster", "--root", tmp_path, "queue", action)

    assert queue("drain") == Ended(0, "", "")
    assert queue("info") == Ended(0, "The drain flag is set\n", "")
    assert queue("undrain") == Ended(0, "", "")
    assert queue("info") == Ended(0, "The drain flag is unset\n", "")
    assert [call for call in luxid.calls if isinstance(call, SetDrainFlag)] == [SetDrainFlag(True), SetDrainFlag(False)]


def test_cluster_info_is_one_parameter_a_line(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid()

    ended = run("gnt-cluster", "info", "--root", tmp_path)

    assert ended == Ended(0, "name: lab\ntags: -\nndparams:\n  ssh_port: 22\n", "")
