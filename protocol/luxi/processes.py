"""What jobs left running. Ours."""

from typing import Any

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class ReadLeftProcesses(Request[tuple[Any, ...]]):
    """What jobs that have ended left running under their locks: for each id, in order, the pids. Ours."""

    METHOD = "ReadLeftProcesses"
    job_ids: tuple[JobId, ...]
