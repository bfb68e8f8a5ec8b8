"""Commits of many large files: etcd takes them in parts, and refuses a change of all (DESIGN section 14)."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from common.ids import JobId
from common.lease.changes import KeyChange
from common.lease.records import EtcdKeys, RunningJob
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from common.replica.replica import Move, Remove, TakeUp
from daemons.luxid.copying.nodecopies import NodeCopies
from daemons.luxid.copying.sending import CopyRules
from daemons.luxid.core.copies import etcdentries
from daemons.luxid.replicating.etcdcopies import EtcdCopies, QueueChanges
from protocol.noded.files import WireNames

pytestmark = pytest.mark.trio

COUNT = 14
# bytes of the comment in each file, and of a change that etcd takes here
LARGE = 1000
MOST = 8000
_KEYS = EtcdKeys("/test/")


class _Etcd:
    """Takes changes of so many bytes."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    async def commit(self, changes: Sequence[KeyChange]) -> int:
        assert sum(len(change.value or b"") for change in changes) <= MOST
        self.keys |= {change.key for change in changes}
        return 7


def _write(paths: Paths, number: int) -> Path:
    op = JobOp({"OP_ID": "OP_TEST_DUMMY", "comment": "x" * LARGE})
    path = paths.job_file(number)
    path.write_bytes(encode_job(Job(JobId(number), (op,), (1, 0))))
    return path


@pytest.mark.parametrize("what", ["what processes wrote", "what could not be made", "moves to the archive"])
async def test_many_large_files_are_committed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(etcdentries, "PART_BYTES", MOST // 2)
    paths, etcd = Paths.under_root(tmp_path), _Etcd()
    paths.make_folders()
    nodes = NodeCopies(paths, WireNames(), CopyRules(1811, "n1", waits=False, has_lease=True))
    changes = QueueChanges(paths, _KEYS, RunningJob(node="n1", epoch=1))
    copies = EtcdCopies(paths, changes, etcd, nodes, lambda _: None)
    files = [_write(paths, number) for number in range(1, COUNT + 1)]

    match what:
        case "what processes wrote":
            await copies.before(TakeUp(files))
        case "what could not be made":
            await copies.take_back(Remove(files))
        case _:
            copies.entries.committed([JobId(number) for number in range(1, COUNT + 1)], 3)
            await copies.before(Move([(path, paths.archived_job_file(int(path.name[4:]))) for path in files]))

    assert {f"{_KEYS.dirty}queue/job-{number}" for number in range(1, COUNT + 1)} <= etcd.keys
