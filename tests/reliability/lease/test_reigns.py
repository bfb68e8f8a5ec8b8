"""The judgement of what etcd has kept finds writes without a mastership, and masterships that are not one at a time."""

from common.ids import JobId
from common.lease.changes import WrittenFile, encode_fate
from common.lease.records import EtcdKeys, MasterRecord, RunningJob, encode
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from tests.reliability.lease.reigns import KeyChange, Reign, entries_left, reign_violations, reigns_of

KEYS = EtcdKeys("/test/")
JOB = KEYS.dirty + "queue/job-7"


def master(revision: int, node: str, epoch: int, leaving_for: str = "") -> KeyChange:
    record = MasterRecord(node=node, nonce=f"{node}-{epoch}", epoch=epoch, ttl_s=5.0, leaving_for=leaving_for)
    return KeyChange(revision, KEYS.master, encode(record))


def raised(revision: int, epoch: int) -> KeyChange:
    return KeyChange(revision, KEYS.epoch, b"%d" % epoch)


def job(revision: int, state: JobState) -> KeyChange:
    content = encode_job(Job(JobId(7), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=state),)))
    return KeyChange(revision, JOB, encode_fate(WrittenFile(content)))


FIRST = [master(2, "node1", 1), raised(2, 1), job(3, JobState.QUEUED)]
GONE = KeyChange(5, KEYS.master, None)
SECOND = [master(6, "node2", 2), raised(6, 2), job(7, JobState.SUCCESS)]


def the_one(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_masterships_that_follow_each_other_are_sound() -> None:
    changes = [*FIRST, GONE, *SECOND]

    assert reigns_of(changes, KEYS) == [Reign("node1", 1, 2, 5), Reign("node2", 2, 6, None)]
    assert reign_violations(changes, KEYS, {JOB: "node1"}) == []
    # sent again to the next one
    assert reign_violations(changes, KEYS, {JOB: "node2"}) == []


def test_a_master_that_makes_way_is_still_the_same() -> None:
    changes = [*FIRST, master(4, "node1", 1, leaving_for="node2"), GONE]

    assert reigns_of(changes, KEYS) == [Reign("node1", 1, 2, 5)]


def test_a_write_while_nobody_is_the_master_is_found() -> None:
    late = KeyChange(5, JOB, b"-")

    assert the_one(reign_violations([*FIRST, GONE, late], KEYS, {})) == (
        f"{JOB} was changed at revision 5, when nobody was the master"
    )


def test_two_masters_in_one_epoch_are_found() -> None:
    found = reign_violations([*FIRST, GONE, master(6, "node2", 1)], KEYS, {})

    assert the_one(found) == "node2 became the master with epoch 1 after node1 with 1"


def test_a_master_beside_another_is_found() -> None:
    assert the_one(reign_violations([*FIRST, *SECOND], KEYS, {})) == "node2 became the master at 6 while node1 was"


def test_an_epoch_that_falls_is_found() -> None:
    found = reign_violations([*FIRST, GONE, *SECOND, raised(8, 1)], KEYS, {})

    assert the_one(found) == "the epoch went from 2 to 1 at revision 8"


def test_an_entry_of_another_writer_is_found() -> None:
    late = KeyChange(8, KEYS.running_job(JobId(7)), encode(RunningJob(node="node1", epoch=1)))

    assert "was written by node1 in epoch 1 at revision 8, when node2 was the master in epoch 2" in the_one(
        reign_violations([*FIRST, GONE, *SECOND, late], KEYS, {})
    )


def test_an_acknowledgement_of_one_that_was_not_the_master_is_found() -> None:
    changes = [*FIRST[:2], GONE, *SECOND]

    assert the_one(reign_violations(changes, KEYS, {JOB: "node1"})) == (
        f"node1 acknowledged {JOB} of revision 7, and was not the master then or later"
    )


def test_an_acknowledgement_without_a_write_is_found() -> None:
    assert "was never in etcd" in the_one(reign_violations(FIRST, KEYS, {KEYS.dirty + "queue/job-8": "node1"}))


def test_an_end_that_is_taken_back_in_etcd_is_found() -> None:
    found = reign_violations([*FIRST, GONE, *SECOND, job(8, JobState.ERROR)], KEYS, {})

    assert the_one(found) == f"{JOB} was success at revision 7 and error at 8"


def test_an_entry_that_some_node_lacks_is_told_until_it_is_removed() -> None:
    assert entries_left(FIRST, KEYS) == [JOB]
    assert entries_left([*FIRST, KeyChange(4, JOB, None)], KEYS) == []
