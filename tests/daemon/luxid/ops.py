"""Opcodes for tests, as clients send them."""

import shlex
from pathlib import Path
from typing import Any

from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from tests.support.cluster import Cluster


def delay(seconds: float, **fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DELAY", "duration": seconds, **fields}


def dummy(**fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DUMMY", **fields}


def command(*argv: str, **fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), **fields}


def gated(gate: Path) -> dict[str, Any]:
    """Ends when this file is there."""
    return command("sh", "-c", f"until [ -e {shlex.quote(str(gate))} ]; do sleep 0.02; done")


def after(*job_ids: int, wanted: tuple[str, ...] = ("success",)) -> list[Any]:
    """Dependencies on these jobs."""
    return [[job_id, list(wanted)] for job_id in job_ids]


def read_job(cluster: Cluster, job_id: int) -> Job:
    """The job as its file says."""
    path = cluster.paths.job_file(job_id)
    return decode_job(path.read_bytes(), path.name)


def process_of(cluster: Cluster, job_id: int) -> int:
    """The pid of the job's process, which it must have: a signal to process 0 would hit the test itself."""
    pid = read_job(cluster, job_id).process_id
    assert pid, f"job {job_id} has no process"
    return pid
