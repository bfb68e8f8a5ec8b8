"""Processes that jobs left running. Ours."""

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class ReadLeftProcesses(Request[tuple[tuple[int, ...], ...]]):
    """The processes that ended jobs left running under their locks: for each id, in order, the pids."""

    METHOD = "ReadLeftProcesses"
    job_ids: tuple[JobId, ...]
