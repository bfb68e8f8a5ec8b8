"""Ask why jobs do not run. Ours."""

import attrs

from common.ids import JobId
from common.queue.explanation import Reason
from protocol.messages import Request


@attrs.frozen
class ExplainJobs(Request[tuple[tuple[Reason, ...] | None, ...]]):
    """The reasons why jobs do not run, for each id, in order; null for a job that is not live."""

    METHOD = "ExplainJobs"
    job_ids: tuple[JobId, ...]
