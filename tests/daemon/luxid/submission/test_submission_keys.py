"""Submissions under a key: sent twice, they are taken once (DESIGN section 4; ours)."""

import os
import threading
from pathlib import Path

import orjson
import pytest

from common.durable.atomicfile import write_files
from common.errors import RemoteError
from common.ids import JobId
from daemons.luxid.files.submissionkeys import KEPT_AT_LEAST, note_of
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs, SubmitOnce
from protocol.luxi.queue import SetDrainFlag
from protocol.messages import positional
from tests.daemon.luxid.ops import dummy, gated
from tests.support.cluster import Cluster


def submit_many(cluster: Cluster, key: str | None, *results: int) -> list[int]:
    jobs = tuple((dummy(result=result),) for result in results)
    return [answer[1] for answer in cluster.luxi_wire(SubmitManyJobs(jobs, key))]


def age_keys(cluster: Cluster, seconds: int) -> None:
    for path in cluster.paths.submissions.iterdir():
        content = orjson.loads(path.read_bytes())
        content["received_at"][0] -= seconds
        path.write_bytes(orjson.dumps(content))


def test_the_same_key_gets_the_same_ids(cluster: Cluster) -> None:
    first = submit_many(cluster, "k1", 1, 2, 3)

    assert submit_many(cluster, "k1", 1, 2, 3) == first == [1, 2, 3]
    assert cluster.luxi(SubmitJob((dummy(),), "k2")) == cluster.luxi(SubmitJob((dummy(),), "k2")) == 4
    assert cluster.wait(1, 2, 3, 4) == ["success"] * 4
    assert cluster.paths.serial_file.read_text() == "4\n"


def test_without_a_key_each_submission_is_new(cluster: Cluster) -> None:
    assert submit_many(cluster, None, 1) != submit_many(cluster, None, 1)


def test_a_key_is_known_after_a_restart(cluster: Cluster) -> None:
    first = submit_many(cluster, "k1", 1, 2)
    cluster.wait(*first)
    cluster.restart("luxid")

    assert submit_many(cluster, "k1", 1, 2) == first


def test_a_repeated_submission_is_answered_also_when_the_queue_is_drained(cluster: Cluster) -> None:
    first = submit_many(cluster, "k1", 1)
    cluster.luxi(SetDrainFlag(True))

    assert submit_many(cluster, "k1", 1) == first
    with pytest.raises(RemoteError, match="drained"):
        submit_many(cluster, "k2", 1)


def test_a_key_with_other_jobs_is_refused(cluster: Cluster) -> None:
    submit_many(cluster, "k1", 1, 2)

    with pytest.raises(RemoteError, match=r"was used for other jobs \(1-2\)"):
        submit_many(cluster, "k1", 1, 3)
    assert submit_many(cluster, None, 1) == [3]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_of_no_use_is_refused(cluster: Cluster, key: str) -> None:
    with pytest.raises(RemoteError, match="1 to 200 characters"):
        submit_many(cluster, key, 1)
    assert submit_many(cluster, None, 1) == [1]


def test_many_at_once_under_one_key_are_one_submission(cluster: Cluster) -> None:
    answers: list[int] = []

    def one() -> None:
        with BlockingClient(cluster.paths.query_socket) as client:
            answers.append(client.call(SubmitJob((dummy(),), "k1")))

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [1] * 20
    assert cluster.paths.serial_file.read_text() == "1\n"


def test_a_failed_submission_leaves_no_key(cluster: Cluster) -> None:
    aside = cluster.paths.data / "aside"
    cluster.paths.queue.rename(aside)
    with pytest.raises(RemoteError, match="cannot be written"):
        submit_many(cluster, "k1", 1)
    aside.rename(cluster.paths.queue)

    assert list(cluster.paths.submissions.iterdir()) == []
    assert submit_many(cluster, "k1", 1) == [2]


def test_keys_are_forgotten_after_a_day_but_for_the_newest(cluster: Cluster) -> None:
    submit_many(cluster, "old", 1)
    for number in range(KEPT_AT_LEAST):
        submit_many(cluster, f"newer {number}", 1)
    cluster.kill("luxid")
    age_keys(cluster, 23 * 3600)
    cluster.start("luxid")
    assert submit_many(cluster, "old", 1) == [1]

    cluster.kill("luxid")
    age_keys(cluster, 3600)
    cluster.start("luxid")

    assert submit_many(cluster, "newer 0", 1) == [2]
    assert submit_many(cluster, "old", 1) == [KEPT_AT_LEAST + 2]
    # the one that was made just now is known, and the oldest is known no more
    assert len(list(cluster.paths.submissions.iterdir())) == KEPT_AT_LEAST


def test_a_key_is_kept_until_its_jobs_have_ended(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    jobs = ((gated(gate),), (dummy(),))
    first = [answer[1] for answer in cluster.luxi_wire(SubmitManyJobs(jobs, "slow"))]
    cluster.wait(first[1])
    for number in range(KEPT_AT_LEAST):
        submit_many(cluster, f"newer {number}", 1)
    cluster.kill("luxid")
    age_keys(cluster, 25 * 3600)
    cluster.start("luxid")
    # this one makes the older ones looked at; the ninety-nine newest of them stay
    submit_many(cluster, "today", 1)

    assert cluster.luxi_wire(SubmitManyJobs(jobs, "slow")) == [[True, job_id] for job_id in first]
    assert len(list(cluster.paths.submissions.iterdir())) == KEPT_AT_LEAST + 1

    gate.touch()
    cluster.wait(*first)
    cluster.restart("luxid")
    assert cluster.luxi_wire(SubmitManyJobs(jobs, "slow")) != [[True, job_id] for job_id in first]


@pytest.mark.parametrize("years", [-1, 1])
def test_a_jump_of_the_clock_takes_no_job_twice(cluster: Cluster, years: int) -> None:
    submit_many(cluster, "k1", 1)
    cluster.kill("luxid")
    age_keys(cluster, years * 365 * 86_400)
    cluster.start("luxid")

    assert submit_many(cluster, "k1", 1) == [1]


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_submission_cut_off_by_a_crash_leaves_nothing_and_can_be_sent_again(idle: Cluster, written: int) -> None:
    """What a crash between two renames leaves: the note of the batch, the key, and the first of the jobs."""
    idle.start("luxid")
    submit_many(idle, "k0", 9)
    before = {*idle.paths.submissions.iterdir()}
    ids = submit_many(idle, "k1", 1, 2, 3)
    idle.kill("luxid")
    (key,) = {*idle.paths.submissions.iterdir()} - before
    write_files([note_of(idle.paths, JobId(ids[0]), 3, [key])])
    for job_id in ids[written:]:
        idle.paths.job_file(job_id).unlink()

    idle.start("luxid")

    assert not any(idle.paths.job_file(job_id).exists() for job_id in ids)
    assert submit_many(idle, "k1", 1, 2, 3) == [5, 6, 7]
    assert submit_many(idle, "k0", 9) == [1]


def test_jobs_that_were_removed_by_hand_cost_their_siblings_nothing(cluster: Cluster) -> None:
    ids = submit_many(cluster, "k1", 1, 2, 3)
    cluster.wait(*ids)
    cluster.kill("luxid")
    cluster.paths.job_file(ids[2]).unlink()

    cluster.start("luxid")

    assert cluster.paths.job_file(ids[0]).exists()
    assert submit_many(cluster, "k1", 1, 2, 3) == ids


def test_a_damaged_key_file_is_dropped_with_a_word(idle: Cluster) -> None:
    path = idle.paths.submissions / "half"
    path.write_bytes(b'{"digest": "x", "fir')

    idle.start("luxid")

    assert not path.exists()
    assert "submission.unreadable" in idle.log("luxid")


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_key_belongs_to_its_user(tmp_path_factory: pytest.TempPathFactory, idle: Cluster) -> None:
    idle.configure("[access]\nuids = [65534]\nsocket_mode = 0o666\n")
    idle.start("luxid")
    assert submit_many(idle, "k1", 1) == [1]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(idle.paths.sockets)
            os.setresuid(65534, 65534, 65534)
            with BlockingClient(idle.paths.query_socket.relative_to(idle.paths.sockets)) as client:
                code = 0 if client.call(SubmitJob((dummy(result=1),), "k1")) == JobId(2) else 2
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_client_without_a_key_sends_what_a_daemon_of_ganeti_takes() -> None:
    assert positional(SubmitJob((dummy(),))) == [[dummy()]]
    assert positional(SubmitJob((dummy(),), "k")) == [[dummy()], "k"]


def once(cluster: Cluster, key: str, *words: str, at_ns: int = 1) -> tuple[list[object], bool]:
    jobs = tuple(({**dummy(), "reason": [["gnt:user", word, at_ns]]},) for word in words)
    told = cluster.luxi_wire(SubmitOnce(jobs, key))
    return told["answers"], told["is_earlier"]


def test_a_named_key_tells_what_was_submitted_before_and_refuses_other_jobs(cluster: Cluster) -> None:
    first = once(cluster, "nightly", "a", "b")

    assert first == ([[True, 1], [True, 2]], False)
    # the same command at another time
    assert once(cluster, "nightly", "a", "b", at_ns=2) == (first[0], True)
    with pytest.raises(RemoteError, match=r"submission key 'nightly' was used for other jobs \(1-2\)"):
        once(cluster, "nightly", "a", "c")
    cluster.restart("luxid")
    assert once(cluster, "nightly", "a", "b", at_ns=3) == (first[0], True)
    assert cluster.paths.serial_file.read_text() == "2\n"
