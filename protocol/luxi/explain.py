"""Why jobs do not run. Ours."""

from typing import Any

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class ExplainJobs(Request[tuple[Any, ...]]):
    """Why jobs do not run: for each id, in order, a list of `{"kind": ..., ...}`; null for one that is not live.

    Kinds: dependency, filter, limit, slots, order, aged weight, weight, moment, obstacle, unreadable; of a job whose
    process waits for locks: lock, turn, lock chain; of one that is being killed: ending; and unknown: what wconfd
    did not tell in time. Ours.
    """

    METHOD = "ExplainJobs"
    job_ids: tuple[JobId, ...]
