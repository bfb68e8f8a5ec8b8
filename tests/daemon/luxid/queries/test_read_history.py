"""ReadHistory and SummarizeHistory: what has run, from an index that job files make (DESIGN section 16)."""

import sqlite3
import time
from pathlib import Path

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.queue.jobs import JobState
from common.queue.terms import JobTerms, terms_entry
from protocol.luxi.history import EndedJob, Grouping, Past, ReadHistory, Sorting, SummarizeHistory
from protocol.luxi.jobs import ArchiveJob, AutoArchiveJobs, CancelJob, SubmitJob
from tests.daemon.luxid.ops import after, command, delay, dummy, gated
from tests.support.accounts.users import ALICE, BOB, call_as, needs_root, uid_of
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def _named(name: str, **labels: str) -> list[list[str | int]]:
    return [terms_entry(JobTerms(name, labels), 0).to_wire()]


def _ids(cluster: Cluster, call: ReadHistory | None = None) -> list[int]:
    return [job.id for job in cluster.luxi(call or ReadHistory()).jobs]


def _one(cluster: Cluster, job_id: int) -> EndedJob:
    (job,) = cluster.luxi(ReadHistory(Past(filter=["==", "id", job_id]))).jobs
    return job


def test_a_job_is_in_the_history_as_soon_as_its_end_is_seen(cluster: Cluster) -> None:
    began = time.time()
    good, bad = (
        cluster.submit(dummy(reason=_named("backup", team="web"))),
        cluster.submit(command("sh", "-c", "exit 3")),
    )
    cluster.wait(good, bad)

    assert set(_ids(cluster)) == {good, bad}
    row = _one(cluster, good)
    assert (row.status, row.name, row.summary, row.labels) == (
        JobState.SUCCESS,
        "backup",
        "TEST_DUMMY",
        {"team": "web"},
    )
    assert row.received_at == row.eligible_at
    assert row.start_at is not None
    assert row.end_at is not None
    assert began - 1 <= row.start_at <= row.end_at <= time.time() + 1
    failed = _one(cluster, bad)
    assert (failed.status, failed.exit_code, failed.is_archived) == (JobState.ERROR, 3, False)
    assert "exit code 3" in failed.why

    cluster.luxi(ArchiveJob(bad))
    assert _one(cluster, bad).is_archived


def test_the_end_of_a_dependency_begins_the_wait(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = cluster.submit(gated(gate))
    second = cluster.submit(dummy(depends=after(first)))
    received = time.time()
    wait_until(lambda: time.time() > received + 0.4, what="the wait can be told from none")
    gate.touch()
    cluster.wait(first, second)

    ended, row = _one(cluster, first).end_at, _one(cluster, second)
    assert ended is not None
    assert row.received_at is not None
    assert row.eligible_at is not None
    # luxid notes the end of the wait when it hears of the end
    assert row.eligible_at >= ended - 0.01
    assert row.eligible_at > row.received_at + 0.3


def test_choices_sums_and_pages(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(dummy(reason=_named(f"night-{n % 2}", team="web")),) for n in range(6)])
    gone = cluster.submit(dummy(depends=after(cluster.submit(delay(60)))))
    cluster.luxi(CancelJob(gone))
    cluster.wait(*jobs, gone)

    assert _ids(cluster, ReadHistory(Past(states=(JobState.CANCELED,)))) == [gone]
    assert _ids(cluster, ReadHistory(Past(filter=["=~", "name", "^night-1"]), Sorting.ID)) == jobs[1::2][::-1]
    page = cluster.luxi(ReadHistory(Past(filter=["==", "label.team", "web"]), Sorting.ID, True, 2, 1))
    assert ([job.id for job in page.jobs], page.total) == (jobs[1:3], 6)
    assert _ids(cluster, ReadHistory(Past(until=time.time() - 3600))) == []
    by_name = cluster.luxi(SummarizeHistory(by=Grouping.NAME))
    assert [(each.group, each.count, each.canceled) for each in by_name] == [
        ("night-0", 3, 0),
        ("night-1", 3, 0),
        ("TEST_DUMMY", 1, 1),
    ]
    with pytest.raises(RemoteError, match="no field 'colour' in the history"):
        cluster.luxi(ReadHistory(Past(filter=["==", "colour", "red"])))


def test_what_ended_or_was_archived_while_nothing_was_noted_is_caught_up(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(dummy(),)] * 12)
    cluster.wait(*jobs)
    cluster.luxi(AutoArchiveJobs(-1, 60))
    live = cluster.submit(dummy())
    cluster.wait(live)
    _ids(cluster)
    cluster.kill("luxid")
    # as after a loss of power, or from a backup: no rows of some jobs, others at their old place, one that is gone
    with sqlite3.connect(cluster.paths.history) as index:
        index.execute("DELETE FROM jobs WHERE id <= 3 OR id = ?", (live,))
        index.execute("UPDATE jobs SET place = 0 WHERE id = 5")
    index.close()
    cluster.paths.archived_job_file(jobs[6]).unlink()

    cluster.start("luxid")

    _wait_complete(cluster)
    rows = {job.id: job for job in cluster.luxi(ReadHistory()).jobs}
    assert sorted(rows) == [*jobs, live]
    assert [rows[job_id].is_archived for job_id in (jobs[0], JobId(5), live)] == [True, True, False]
    assert _place(cluster, jobs[6]) == 2


@pytest.mark.parametrize("content", [None, b"no index at all, but long enough to be taken for one" * 100])
def test_a_missing_or_damaged_index_is_made_anew(cluster: Cluster, content: bytes | None) -> None:
    jobs = cluster.submit_many(*[(dummy(),)] * 3)
    cluster.wait(*jobs)
    assert len(_ids(cluster)) == 3
    cluster.luxi(ArchiveJob(jobs[0]))

    # while it is in use
    cluster.paths.history.unlink()
    if content is not None:
        cluster.paths.history.write_bytes(content)

    def is_back() -> bool:
        try:
            reply = cluster.luxi(ReadHistory())
        except RemoteError:
            return False
        return len(reply.jobs) == 3 and not reply.unread

    wait_until(is_back, what="the history is made anew")
    assert "history.damaged" in cluster.log("luxid")
    last = cluster.submit(dummy())
    cluster.wait(last)
    assert set(_ids(cluster)) == {*jobs, last}


def test_an_index_of_another_version_is_made_anew(cluster: Cluster) -> None:
    cluster.wait(cluster.submit(dummy()))
    _ids(cluster)
    cluster.kill("luxid")
    with sqlite3.connect(cluster.paths.history) as index:
        index.execute("PRAGMA user_version = 99")
    index.close()

    cluster.start("luxid")

    _wait_complete(cluster)
    assert _ids(cluster) == [1]
    assert "it has version 99" in cluster.log("luxid")


@needs_root
def test_others_see_of_a_job_what_lists_show(tmp_path: Path) -> None:
    access = f'[access]\nsubmit = ["{ALICE}", {uid_of(BOB)}]\n'
    with Cluster(tmp_path, settings=access) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        job_id = int(call_as(ALICE, cluster, SubmitJob((command("sh", "-c", "exit 4", "--secret"),))))
        cluster.wait(job_id)
        wanted = Past(filter=["=~", "summary", "secret"])

        own = call_as(ALICE, cluster, ReadHistory(wanted))
        others = call_as(BOB, cluster, ReadHistory())
        sums = call_as(BOB, cluster, SummarizeHistory())
        hidden = call_as(BOB, cluster, ReadHistory(wanted))

    assert [job.exit_code for job in own.jobs] == [4]
    assert [(job.id, job.exit_code) for job in others.jobs] == [(job_id, None)]
    assert "secret" not in str((others, sums))
    assert (hidden.total, hidden.jobs) == (0, ())


def _wait_complete(cluster: Cluster) -> None:
    wait_until(lambda: not cluster.luxi(ReadHistory()).unread, what="the history is complete")


def _place(cluster: Cluster, job_id: int) -> int:
    with sqlite3.connect(cluster.paths.history) as index:
        place = index.execute("SELECT place FROM jobs WHERE id = ?", (job_id,)).fetchone()[0]
    index.close()
    return int(place)
