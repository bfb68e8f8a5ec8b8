"""A luxid that can be told to die just before a run of a schedule is submitted, or just after.

It does so while a file of that name is in its root.
"""

import os
import signal
import sys
from pathlib import Path

from common.ids import JobId
from daemons.luxid import main
from daemons.luxid.core.rights import Submitter
from daemons.luxid.handlers.schedules import OwnJobs
from protocol.luxi.jobs import JobInput

BEFORE = "die-before-submission"
AFTER = "die-after-submission"
_submit = OwnJobs.submit


async def _brittle(self: OwnJobs, job: JobInput, key: str, submitter: Submitter) -> JobId:
    root = Path(sys.argv[sys.argv.index("--root") + 1])
    if (root / BEFORE).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    job_id = await _submit(self, job, key, submitter)
    if (root / AFTER).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return job_id


if __name__ == "__main__":
    OwnJobs.submit = _brittle  # type: ignore[method-assign]
    main.main()
