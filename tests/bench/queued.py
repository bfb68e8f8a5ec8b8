"""Job files as a queue that has grown finds them: written straight into its folder, while no luxid runs."""

import time
from pathlib import Path
from typing import Any

import orjson

from common.durable.atomicfile import FileWrite, write_files
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from protocol.luxi.queue import ReplaceFilter
from tests.support.cluster import Cluster


def startup(number: int) -> dict[str, Any]:
    """An opcode as a client submits it; each is for an instance of its own."""
    reason = [["gnt:client:gnt-instance", "startup", 1_800_000_000_000_000_000 + number]]
    return {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": f"i{number}.test", "reason": reason}


def pause_all(cluster: Cluster) -> None:
    """Let no job start."""
    cluster.luxi(ReplaceFilter(None, 0, (), "PAUSE", ()))


def queued_job(number: int) -> bytes:
    """The file of a job that waits for its turn."""
    return encode_job(Job(JobId(number), (JobOp(startup(number)),), received_at=(int(time.time()), 0)))


def put_jobs(paths: Paths, count: int) -> None:
    """Queue the jobs 1 to `count`; luxid must not run."""
    for number in range(1, count + 1):
        paths.job_file(number).write_bytes(queued_job(number))
    paths.serial_file.write_bytes(f"{count}\n".encode())


def bare_reads(paths: Paths) -> int:
    """Read all job files as JSON; return their number."""
    return len([orjson.loads(path.read_bytes()) for path in paths.queue.glob("job-*")])


def bare_submissions(folder: Path, count: int, each: int) -> None:
    """Make the files of `count` jobs durable, `each` at a time and with them a serial."""
    for first in range(0, count, each):
        jobs = [FileWrite(folder / f"job-{number}", queued_job(number)) for number in range(first, first + each)]
        write_files([FileWrite(folder / "serial", f"{first + each}\n".encode()), *jobs])
