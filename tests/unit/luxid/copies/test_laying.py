"""What etcd says is laid over the files of the queue, in an order that no loss of power breaks (DESIGN section 14)."""

import os
from pathlib import Path

import pytest

from common.ids import JobId
from common.lease.changes import ArchivedFile, CommittedEntry, Dirty, WrittenFile
from common.lease.records import EtcdKeys, RunningJob
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.copies.backlog import QueueFact
from daemons.luxid.replicating.etcdcopies import QueueChanges
from daemons.luxid.replicating.replaying import EtcdQueue, Laying, read_found


def test_the_folder_of_an_archived_job_is_durable_before_the_live_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Etcd knows only that it was moved: a folder that is lost would take the only file of the job with it."""
    paths, job_id = Paths.under_root(tmp_path), JobId(7)
    paths.make_folders()
    live, archived = paths.job_file(job_id), paths.archived_job_file(job_id)
    live.write_bytes(encode_job(Job(job_id, (JobOp({"OP_ID": "OP_TEST_DUMMY"}, JobState.SUCCESS),), (1, 0))))
    steps: list[tuple[str, str]] = []
    fsync, unlink = os.fsync, os.unlink

    def noting_fsync(fd: int) -> None:
        steps.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def noting_unlink(path: str | Path) -> None:
        steps.append(("unlink", str(path)))
        unlink(path)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "unlink", noting_unlink)
    changes = QueueChanges(paths, EtcdKeys("/test/"), RunningJob(node="n1", epoch=1))

    Laying(paths, changes, "n1", (9, 0)).lay(EtcdQueue({job_id: ArchivedFile()}, {job_id: 3}, {}))

    assert archived.exists()
    assert not live.exists()
    is_gone = steps.index(("unlink", str(live)))
    assert ("fsync", str(archived.parent.parent)) in steps[:is_gone]
    assert ("fsync", str(archived.parent)) in steps[:is_gone]


def test_a_foreign_key_among_the_running_jobs_is_left_alone(tmp_path: Path) -> None:
    keys = EtcdKeys("/test/")
    changes = QueueChanges(Paths.under_root(tmp_path), keys, RunningJob(node="n1", epoch=1))
    dirty = Dirty(3, {f"{keys.running}note": CommittedEntry(b"of an operator", 3)})

    assert read_found(dirty, changes, keys) == EtcdQueue({}, {}, {})


@pytest.mark.parametrize("damaged", ["", "not a number"])
def test_a_damaged_serial_becomes_what_etcd_has(tmp_path: Path, damaged: str) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    paths.serial_file.write_text(damaged)
    changes = QueueChanges(paths, EtcdKeys("/test/"), RunningJob(node="n1", epoch=1))

    Laying(paths, changes, "n1", (9, 0)).lay(
        EtcdQueue({QueueFact.SERIAL: WrittenFile(b"17\n")}, {QueueFact.SERIAL: 3}, {})
    )

    assert paths.serial_file.read_bytes() == b"17\n"
