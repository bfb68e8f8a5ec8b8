"""A program: submissions to a queue, each killed at another step.

python -m tests.support.killedsubmission ROOT JOBS HAS_KEY [NAME]

For each fsync, rename and removal a queue ROOT/NUMBER is made, and a process that submits to it is killed right
before that step; the last one is not killed. With NAME there is one queue, and nobody is killed.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from daemons.luxid.files.store import open_store
from daemons.luxid.files.submissionkeys import SubmissionKeys, WantedKey

STEPS = ("fsync", "rename", "unlink")


def submit(root: Path, jobs: int, has_key: bool, kill_at: int | None) -> None:
    paths = Paths.under_root(root)
    paths.make_folders()
    store = open_store(paths)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(store.files.run)
            op = JobOp({"OP_ID": "OP_TEST_DUMMY"})
            made = [Job(JobId(number), (op,), received_at=(2_000_000_000, 0)) for number in range(1, jobs + 1)]
            async with SubmissionKeys(paths, store.files, ()).claim("0", WantedKey("key"), []) as claim:
                await store.add_jobs(made, [claim.file(made, {})] if has_key else [])
            nursery.cancel_scope.cancel()

    if kill_at is not None:
        kill_before(kill_at)
    trio.run(run)


def kill_before(step: int) -> None:
    steps = itertools.count(1)
    for name in STEPS:
        setattr(os, name, _killing(getattr(os, name), step, steps))


def _killing(real: Callable[..., Any], step: int, steps: "itertools.count[int]") -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)

    return call


def main(root: str, jobs: str, has_key: str, name: str = "") -> None:
    if name:
        submit(Path(root, name), int(jobs), has_key == "True", None)
        return
    for step in itertools.count(1):
        pid = os.fork()
        if pid == 0:
            submit(Path(root, f"{step:03}"), int(jobs), has_key == "True", step)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
