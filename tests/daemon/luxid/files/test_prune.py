"""Retention: what is kept no longer is archived and removed, and all else stays (DESIGN section 16)."""

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from common.errors import GantryError
from common.ids import JobId
from common.queue.explanation import Cause, Span, WaitKind
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Timestamp, to_timestamp
from common.queue.sidefiles import append_spans
from protocol.blocking import BlockingClient
from protocol.luxi.history import Past, Prune, Pruned, ReadHistory
from protocol.luxi.jobs import AutoArchiveJobs, SubmitJob
from tests.daemon.luxid.ops import after, command, dummy, gated
from tests.support.accounts.users import ADMIN, OPERATOR, Refused, call_as, needs_root
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

DAY = 86400.0
RULES = """
[luxid]
sweep_s = 3600.0
[retention]
archive_after_s = 3600.0
keep_days = 10
keep_failed_days = 20
keep_per_name = 2
keep_output_days = 5
interval_s = 3600.0
"""


@pytest.fixture
def idle(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, settings=RULES)


# bytes of the time of an output that came at once
TIME_BYTES = 16


def _begin(cluster: Cluster) -> None:
    cluster.start("wconfd", "forkserver", "luxid")


def _age(cluster: Cluster, days: float, *job_ids: int) -> None:
    """Make these live jobs as old, as if the clock had gone on; luxid must be down."""
    for job_id in job_ids:
        path = cluster.paths.job_file(job_id)
        job = decode_job(path.read_bytes(), path.name)
        assert job.end_at is not None
        at = to_timestamp(job.end_at[0] - days * DAY)
        ops = tuple(attrs.evolve(op, end_at=at, start_at=at, exec_at=at) for op in job.ops)
        path.write_bytes(encode_job(attrs.evolve(job, ops=ops, received_at=at, start_at=at, end_at=at)))
    cluster.paths.history.unlink(missing_ok=True)


def _prune(cluster: Cluster, *, is_dry: bool = False) -> Pruned:
    wait_until(lambda: not cluster.luxi(ReadHistory()).unread, what="the history is complete")
    return cluster.luxi(Prune(is_dry))


def _archived(cluster: Cluster, *job_ids: int) -> list[int]:
    return [job_id for job_id in job_ids if cluster.paths.archived_job_file(job_id).exists()]


def _by_ends(cluster: Cluster, job_ids: Sequence[int]) -> list[int]:
    """These archived jobs, the first to end before the others."""

    def end_of(job_id: int) -> Timestamp:
        path = cluster.paths.archived_job_file(job_id)
        return decode_job(path.read_bytes(), path.name).end_at or (0, 0)

    return sorted(job_ids, key=end_of)


def _outputs(cluster: Cluster) -> set[int]:
    return {int(path.name.split(".")[0][4:]) for path in cluster.paths.output.glob("job-*")}


def test_what_is_old_goes_and_what_is_needed_young_or_the_last_of_its_name_stays(idle: Cluster, tmp_path: Path) -> None:
    with idle as cluster:
        _begin(cluster)
        old = cluster.submit_many(*[(command("echo", "old"),)] * 5)
        rare = cluster.submit(command("echo", "rare"))
        failed = cluster.submit_many(*[(command("false"),)] * 3)
        young = cluster.submit_many(*[(command("echo", "old"),)] * 2)
        aged_output = cluster.submit(command("echo", "week"))
        cluster.wait(*old, rare, *failed, *young, aged_output)
        gate = tmp_path / "gate"
        # it needs the first one with its second opcode
        waiting = cluster.submit(gated(gate), dummy(depends=after(old[0])))
        cluster.kill("luxid")
        _age(cluster, 15, *old, rare, *failed)
        _age(cluster, 6, aged_output)
        cluster.start("luxid")

        told = _prune(cluster, is_dry=True)
        before = [path for path in cluster.paths.queue.rglob("job-*") if path.suffix != ".tmp"]
        done = _prune(cluster)

        assert attrs.evolve(told, waits=done.waits) == done
        assert (done.archived, done.jobs, done.left) == (10, 4, 0)
        # its output is older than outputs are kept, whatever becomes of the job
        assert (done.outputs, done.output_bytes) == (7, 5 * 4 + 5 + 5 + 7 * TIME_BYTES)
        assert done.oldest is not None
        assert done.oldest < time.time() - 14 * DAY
        assert len(before) == 13
        assert _archived(cluster, *old, rare, *failed) == [old[0], rare, *failed]
        assert _outputs(cluster) >= {*young}
        assert not _outputs(cluster) & {*old, rare, aged_output}
        # rows outlive their jobs, and ids are not used again
        rows = {job.id for job in cluster.luxi(ReadHistory(Past(until=time.time() - DAY))).jobs}
        assert rows == {*old, rare, *failed, aged_output}
        assert cluster.job(old[1], "status") == (None,)
        gate.touch()
        assert cluster.wait(waiting) == ["success"]
        assert cluster.submit(dummy()) == waiting + 1
        cluster.restart("luxid")
        # nothing needs the first one any more
        assert _prune(cluster).jobs == 1


def test_nothing_is_removed_by_itself_unless_it_is_enabled(idle: Cluster) -> None:
    with idle as cluster:
        _begin(cluster)
        jobs = cluster.submit_many(*[(dummy(),)] * 4)
        cluster.wait(*jobs)
        cluster.luxi(AutoArchiveJobs(-1, 60))
        cluster.kill("luxid")
        _age_archived(cluster, 400, *jobs)

        cluster.start("luxid")

        wait_until(lambda: "retention.off" in cluster.log("luxid"), what="what would be removed is told")
        assert _archived(cluster, *jobs) == jobs
        assert "jobs=2" in cluster.log("luxid").split("retention.off")[1].splitlines()[0]

        cluster.configure(RULES.replace("[retention]", "[retention]\nenabled = true"))
        cluster.restart("luxid")

        wait_until(lambda: len(_archived(cluster, *jobs)) == 2, what="the old ones are removed")


def test_a_key_keeps_its_jobs_for_its_day_and_goes_with_them(idle: Cluster) -> None:
    with idle as cluster:
        cluster.configure(RULES + "keep_jobs = 1\n")
        _begin(cluster)
        keyed = cluster.luxi(SubmitJob((dummy(),), "nightly"))
        cluster.wait(keyed)
        others = cluster.submit_many(*[(dummy(),)] * 4)
        cluster.wait(*others)
        cluster.luxi(AutoArchiveJobs(-1, 60))

        assert _prune(cluster).jobs == 2
        left = _archived(cluster, keyed, *others)
        # besides the last two of their name, in the order of their ends
        assert (left[0], len(left)) == (keyed, 3)
        assert cluster.luxi(SubmitJob((dummy(),), "nightly")) == keyed

        cluster.kill("luxid")
        (path,) = cluster.paths.submissions.iterdir()
        path.write_bytes(path.read_bytes().replace(b'"received_at":[', b'"received_at":[1,1],"was":['))
        cluster.start("luxid")

        done = _prune(cluster)
        assert (done.jobs, done.keys) == (1, 1)
        assert list(cluster.paths.submissions.iterdir()) == []


def test_histories_of_waits_go_when_all_their_jobs_are_gone(idle: Cluster) -> None:
    with idle as cluster:
        cluster.configure(RULES + "keep_jobs = 1\n")
        _begin(cluster)
        cluster.wait(*cluster.submit_many(*[(dummy(),)] * 103))
        # those that stay are the last to end
        cluster.wait(*cluster.submit_many(*[(dummy(),)] * 2))
        for group in (50, 102):
            append_spans(cluster.paths.waits_file(group), [(group, Span(Cause(WaitKind.TURN), 1.0, 2.0))])
        cluster.luxi(AutoArchiveJobs(-1, 60))

        told = _prune(cluster, is_dry=True)
        done = _prune(cluster)

        assert (told.waits, done.jobs, done.waits) == (1, 103, 1)
        assert [path.name for path in cluster.paths.waits.iterdir()] == ["1"]


def test_a_kill_in_the_middle_leaves_nothing_half_and_the_next_call_goes_on(idle: Cluster) -> None:
    with idle as cluster:
        cluster.configure(RULES + "keep_jobs = 1\n")
        _begin(cluster)
        jobs = cluster.submit_many(*[(command("true"),)] * 30)
        cluster.wait(*jobs)
        cluster.luxi(AutoArchiveJobs(-1, 60))
        cluster.kill("luxid")
        # as if killed between two steps: the file of one is removed and not noted, of another one only the output
        first, second = _by_ends(cluster, jobs)[:2]
        for path in cluster.paths.output.glob(f"job-{first}.*"):
            path.unlink()
        cluster.paths.archived_job_file(first).unlink()
        for path in cluster.paths.output.glob(f"job-{second}.*"):
            path.unlink()
        cluster.start("luxid")

        done = _prune(cluster)

        assert (done.jobs, done.left) == (27, 0)
        left = _archived(cluster, *jobs)
        assert len(left) == 2
        assert _outputs(cluster) <= {*left}
        assert _prune(cluster) == Pruned()
        assert cluster.submit(dummy()) == jobs[-1] + 1


def test_luxid_killed_while_it_removes_finishes_after_its_restart(idle: Cluster) -> None:
    with idle as cluster:
        cluster.configure(RULES + "keep_jobs = 1\n")
        _begin(cluster)
        cluster.wait(cluster.submit(dummy()))
        _copy_archived(cluster, 2000)
        cluster.restart("luxid")
        wait_until(lambda: not cluster.luxi(ReadHistory()).unread, what="the history is complete")
        luxid = cluster.daemons["luxid"]
        child = _prune_beside(cluster)
        wait_until(lambda: "jobs.removed" in cluster.log("luxid"), what="a group is removed")
        luxid.send_signal(signal.SIGKILL)
        luxid.wait(60)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        del cluster.daemons["luxid"]
        cluster.start("luxid")

        _prune(cluster)

        left = sorted(int(path.name[4:]) for path in cluster.paths.archive.rglob("job-*"))
        assert left == [1999, 2000]
        with sqlite3.connect(cluster.paths.history) as index:
            places = dict(index.execute("SELECT place, COUNT(*) FROM jobs GROUP BY place"))
        index.close()
        assert places == {1: 2, 2: 1998}


def test_a_query_that_runs_while_jobs_are_removed_sees_all_or_nothing_of_them(idle: Cluster) -> None:
    with idle as cluster:
        cluster.configure(RULES + "keep_jobs = 1\n")
        _begin(cluster)
        cluster.wait(cluster.submit(dummy()))
        _copy_archived(cluster, 1500)
        cluster.restart("luxid")
        wait_until(lambda: not cluster.luxi(ReadHistory()).unread, what="the history is complete")
        child = _prune_beside(cluster)
        seen: list[tuple[int, int]] = []
        while not seen or os.waitpid(child, os.WNOHANG) == (0, 0):
            reply = cluster.luxi(ReadHistory(Past(), limit=2000))
            seen.append((len(reply.jobs), reply.total))

        # rows outlive the files
        assert set(seen) == {(1500, 1500)}
        assert _archived(cluster, *range(1, 1501)) == [1499, 1500]


def test_rows_of_removed_jobs_go_when_they_are_old_and_no_others(idle: Cluster) -> None:
    with idle as cluster:
        _begin(cluster)
        jobs = cluster.submit_many(*[(dummy(),)] * 5)
        cluster.wait(*jobs)
        cluster.luxi(AutoArchiveJobs(-1, 60))
        cluster.kill("luxid")
        _age_archived(cluster, 500, *jobs)
        cluster.start("luxid")

        # those that have just been removed go by the next look, or by the same
        done = _prune(cluster)

        assert (done.jobs, done.rows) == (3, 3)
        assert len(cluster.luxi(ReadHistory()).jobs) == 2


@needs_root
def test_operators_may_ask_and_only_administrators_may_remove(tmp_path: Path) -> None:
    access = f'[access]\noperate = ["{OPERATOR}"]\nadmin = ["{ADMIN}"]\n'
    with Cluster(tmp_path, settings=RULES + access) as cluster:
        _begin(cluster)
        wait_until(lambda: not cluster.luxi(ReadHistory()).unread, what="the history is complete")

        assert call_as(OPERATOR, cluster, Prune(True)) == Pruned()
        with pytest.raises(Refused, match="the removal of old jobs and files needs the role 'admin'"):
            call_as(OPERATOR, cluster, Prune())
        assert call_as(ADMIN, cluster, Prune()) == Pruned()


def _prune_beside(cluster: Cluster) -> int:
    """Prune in a process of its own; return its pid."""
    child = os.fork()
    if not child:
        try:
            with contextlib.suppress(GantryError, OSError):
                BlockingClient(cluster.paths.query_socket).call(Prune())
        finally:
            os._exit(0)
    return child


def _age_archived(cluster: Cluster, days: float, *job_ids: int) -> None:
    for job_id in job_ids:
        path = cluster.paths.archived_job_file(job_id)
        path.rename(cluster.paths.job_file(job_id))
    _age(cluster, days, *job_ids)
    for job_id in job_ids:
        cluster.paths.job_file(job_id).rename(cluster.paths.archived_job_file(job_id))


def _copy_archived(cluster: Cluster, highest: int) -> Sequence[JobId]:
    """Archive the first job, and give it many twins."""
    cluster.luxi(AutoArchiveJobs(-1, 60))
    cluster.kill("luxid")
    job = decode_job(cluster.paths.archived_job_file(1).read_bytes(), "job-1")
    for number in range(2, highest + 1):
        path = cluster.paths.archived_job_file(number)
        path.write_bytes(encode_job(attrs.evolve(job, job_id=JobId(number))))
    cluster.paths.serial_file.write_text(f"{highest}\n")
    cluster.start("luxid")
    return [JobId(number) for number in range(1, highest + 1)]
