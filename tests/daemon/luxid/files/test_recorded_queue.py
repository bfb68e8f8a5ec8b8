"""The queue folder of a real Ganeti, found by a luxid that is started on it.

Source: luxid.md 3, 5.8, 5.10.
"""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.ids import JobId
from protocol.luxi.jobs import ArchiveJob
from protocol.luxi.queries import QueryJobs
from tests.support.cluster import FINAL, Cluster
from tests.support.configs import RECORDED

FIELDS = (
    *("id", "status", "priority", "archived", "ops", "opresult", "opstatus", "oplog", "opstart", "opexec", "opend"),
    *("oppriority", "summary", "received_ts", "start_ts", "end_ts"),
)
# field -> key in the file; of opcodes, and of the job
OF_OPS = {
    **{"ops": "input", "opresult": "result", "opstatus": "status", "oplog": "log", "oppriority": "priority"},
    **{"opstart": "start_timestamp", "opexec": "exec_timestamp", "opend": "end_timestamp"},
}
OF_JOB = {"received_ts": "received_timestamp", "start_ts": "start_timestamp", "end_ts": "end_timestamp"}


@pytest.fixture(params=["queue-live", "queue-after"])
def recorded(request: pytest.FixtureRequest) -> Path:
    folder: Path = RECORDED / request.param
    return folder


def in_file(path: Path) -> dict[str, Any]:
    """What the fields that are in a job's file must say."""
    job = orjson.loads(path.read_bytes())
    ops = {field: [op[key] for op in job["ops"]] for field, key in OF_OPS.items()}
    return {"id": job["id"], **ops, **{field: job[key] for field, key in OF_JOB.items()}}


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The same without parameters of opcodes that are null; those may be left out."""
    ops = [{key: value for key, value in op.items() if value is not None} for op in values["ops"]]
    return {**values, "ops": ops}


def is_final(path: Path) -> bool:
    return all(op["status"] in FINAL for op in orjson.loads(path.read_bytes())["ops"])


def test_a_recorded_queue_is_loaded_answered_ended_and_archived(idle: Cluster, recorded: Path) -> None:
    files = sorted(recorded.glob("job-*"), key=lambda path: int(path.name[4:]))
    idle.paths.make_folders()
    for path in recorded.iterdir():
        shutil.copyfile(path, idle.paths.queue / path.name)
    idle.start("forkserver", "luxid")

    rows = {row[0]: dict(zip(FIELDS, row, strict=True)) for row in idle.luxi_wire(QueryJobs(None, FIELDS))}

    assert list(rows) == [int(path.name[4:]) for path in files]
    for path in filter(is_final, files):
        expected = in_file(path)
        row = rows[expected["id"]]
        assert given({field: row[field] for field in expected}) == given(expected)
        assert not row["archived"]
    # whose processes are gone ends as dead, what waited goes on
    idle.wait(*rows)
    assert all(idle.luxi(ArchiveJob(JobId(job_id))) for job_id in rows)
    assert idle.luxi_wire(QueryJobs(None, ("id",))) == []
    assert sorted(path.name for path in idle.paths.archive.rglob("job-*")) == sorted(path.name for path in files)
    assert list(idle.paths.damaged.iterdir()) == []
