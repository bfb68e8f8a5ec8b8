"""Every state in which a luxid that died can leave a job, and what the next one makes of it.

The files are those that the steps of a submission, a start and an end leave behind one after the other; a job whose
livelock is held has a process, here the test.

Source: DESIGN sections 3 (invariants 1, 2, 5), 6 and 11; luxid.md 5.10, 13 (BUG-6, BUG-10).
"""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.ids import JobId
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState, to_timestamp
from common.system.livelock import Livelock
from daemons.luxid.files.knownids import GAP
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import after, command, dummy, read_job
from tests.support.cluster import FINAL, Cluster
from tests.support.fakes.disks import no_room, small_disk
from tests.support.wait import wait_until

_Q, _W, _R, _C = JobState.QUEUED, JobState.WAITING, JobState.RUNNING, JobState.CANCELING
_S, _E, _X = JobState.SUCCESS, JobState.ERROR, JobState.CANCELED
NOW = to_timestamp(1_800_000_000)


def write_job(cluster: Cluster, states: tuple[JobState, ...], livelock: str | None, job_id: int = 1) -> None:
    """A job whose opcodes leave a line when they are carried out."""
    ops = tuple(
        JobOp(
            command("sh", "-c", f"echo {index} >> {cluster.root / 'witness'}"),
            state=state,
            result="kept" if state is _S else None,
            start_at=None if state is _Q else NOW,
        )
        for index, state in enumerate(states)
    )
    job = Job(JobId(job_id), ops, received_at=NOW, livelock=livelock, process_id=None if livelock is None else 999_999)
    cluster.paths.job_file(job_id).write_bytes(encode_job(job))


def carried_out(cluster: Cluster) -> list[int]:
    witness = cluster.root / "witness"
    return [int(line) for line in witness.read_text().split()] if witness.exists() else []


@pytest.fixture
def livelock(idle: Cluster) -> Iterator[Livelock]:
    """Of a process that lives."""
    livelock = Livelock.create(idle.paths.livelocks, "job_000001")
    yield livelock
    livelock.remove()


DEAD = "dead"
CASES = [
    # found, livelock; states afterwards, opcodes that were carried out
    ((_Q, _Q), None, (_S, _S), [0, 1]),  # submitted, no start begun
    ((_Q, _Q), DEAD, (_S, _S), [0, 1]),  # a process was made; it did nothing, with or without the go-ahead
    ((_W, _Q), DEAD, (_E, _E), []),  # it asked for its locks
    ((_R, _Q), DEAD, (_E, _E), []),  # it was at work
    ((_C, _Q), DEAD, (_X, _X), []),  # it was about to cancel
    ((_S, _Q), DEAD, (_S, _S), [1]),  # it died between two opcodes
    ((_S, _W), DEAD, (_S, _E), []),
    ((_S, _R, _Q), DEAD, (_S, _E, _E), []),
    ((_E, _Q), DEAD, (_E, _E), []),  # it died while it ended the job
    ((_X, _Q), DEAD, (_X, _E), []),
    ((_S, _S), DEAD, (_S, _S), []),  # it had ended, and did not remove its livelock
    ((_X, _X), None, (_X, _X), []),  # canceled without a process
]


@pytest.mark.parametrize(("found", "livelock", "expected", "work"), CASES, ids=lambda value: str(value)[:60])
def test_a_job_without_a_process_is_ended_or_goes_on(
    idle: Cluster,
    found: tuple[JobState, ...],
    livelock: str | None,
    expected: tuple[JobState, ...],
    work: list[int],
) -> None:
    write_job(idle, found, None if livelock is None else str(idle.paths.livelocks / "job_000001_1"))

    idle.start("forkserver", "luxid")

    # a job may be as good as ended before the last of its opcodes is
    wait_until(lambda: {*idle.job(1, "opstatus")[0]} <= {*FINAL}, what="all opcodes have ended")
    assert idle.job(1, "opstatus") == ([state.value for state in expected],)
    assert carried_out(idle) == work
    wait_until(lambda: read_job(idle, 1).next_index is None, what="the file is final")
    assert [op.result for op in read_job(idle, 1).ops if op.result == "kept"] == ["kept"] * found.count(_S)
    assert idle.wait(idle.submit(dummy())) == ["success"]


@pytest.mark.parametrize("found", [(_Q, _Q), (_W, _Q), (_R, _Q), (_S, _R), (_S, _Q)], ids=str)
def test_a_job_whose_process_lives_is_left_to_it(
    idle: Cluster, livelock: Livelock, found: tuple[JobState, ...]
) -> None:
    write_job(idle, found, livelock.path)

    idle.start("forkserver", "luxid")

    before = idle.paths.job_file(1).read_bytes()
    assert idle.wait(idle.submit(dummy())) == ["success"]
    assert idle.paths.job_file(1).read_bytes() == before
    assert carried_out(idle) == []
    done = attrs.evolve(read_job(idle, 1), ops=tuple(attrs.evolve(op, state=_S) for op in read_job(idle, 1).ops))
    temp = idle.paths.queue / "job-1-0.tmp"
    temp.write_bytes(encode_job(done))
    temp.rename(idle.paths.job_file(1))
    assert idle.wait(1) == ["success"]


def test_a_process_that_ends_without_having_begun_is_replaced_by_an_event(idle: Cluster, livelock: Livelock) -> None:
    write_job(idle, (_Q,), livelock.path)
    idle.start("forkserver", "luxid")
    assert idle.wait(idle.submit(dummy())) == ["success"]

    livelock.remove()

    assert idle.wait(1) == ["success"]
    assert carried_out(idle) == [0]
    assert "sweep.found_dead" not in idle.log("luxid")


@pytest.mark.parametrize("serial", [None, "0\n", "1\n", "5\n"])
def test_ids_begin_beyond_all_that_were_seen(idle: Cluster, serial: str | None) -> None:
    """The serial may be lost or behind (restored from a copy): then others may be lost, too, and ids are left out for
    them. It may be ahead, by ids that a submission spent which was cut off."""
    write_job(idle, (_Q,), None, job_id=3)
    if serial is not None:
        idle.paths.serial_file.write_text(serial)

    idle.start("luxid")

    first = idle.submit(dummy())
    assert first == (6 if serial == "5\n" else 3 + GAP + 1)
    idle.restart("luxid")
    assert idle.submit(dummy()) == first + 1


def test_files_set_aside_still_spend_their_ids(idle: Cluster) -> None:
    idle.paths.job_file(7).write_bytes(b"")
    idle.paths.job_file(8).write_bytes(b'{"id": 8, "ops": "later"}')
    idle.paths.job_file(9).write_bytes(b'{"id": 3, "ops": []}')

    idle.start("luxid")

    assert idle.luxi(QueryJobs(None, ("id",))) == ()
    assert sorted(path.name for path in idle.paths.damaged.iterdir()) == ["job-7", "job-8", "job-9"]
    assert idle.submit(dummy()) == 9 + GAP + 1


def test_a_chain_found_half_way_goes_on(idle: Cluster) -> None:
    write_job(idle, (_S,), None, job_id=1)
    write_job(idle, (_R,), str(idle.paths.livelocks / "job_000002_1"), job_id=2)
    for job_id, target in ((3, 1), (4, 2), (5, 4)):
        job = Job(JobId(job_id), (JobOp(dummy(depends=after(target))),), received_at=NOW)
        idle.paths.job_file(job_id).write_bytes(encode_job(job))

    idle.start("forkserver", "luxid")

    assert idle.wait(2, 3, 4, 5) == ["error", "success", "error", "error"]


def test_a_start_that_finds_the_disk_full_is_made_when_there_is_room(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with small_disk(root / "lib"), Cluster(root) as cluster:
        cluster.start("wconfd", "luxid")
        job_id = cluster.submit(dummy(result="done"))

        with no_room(cluster.paths.data):
            cluster.start("forkserver")
            wait_until(lambda: "job.not_written" in cluster.log("forkserver"), what="its begin cannot be written")
            assert cluster.status(job_id) == "queued"

        assert cluster.wait(job_id) == ["success"]
        assert cluster.job(job_id, "opresult") == (["done"],)


def test_a_job_that_succeeds_on_a_full_disk_has_succeeded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    go = tmp_path / "go"
    with small_disk(root / "lib"), Cluster(root) as cluster:
        cluster.start()
        job_id = cluster.submit(command("sh", "-c", f"while ! [ -e {go} ]; do sleep 0.05; done"))
        cluster.wait(job_id, status="running")

        with no_room(cluster.paths.data):
            go.touch()
            wait_until(lambda: "job.not_written" in cluster.log("forkserver"), what="the end cannot be written")

        assert cluster.wait(job_id) == ["success"]
