"""The waits of jobs. Ours."""

import attrs

from common.ids import JobId
from common.queue.waithistory import Span
from protocol.messages import Request


@attrs.frozen
class ReadJobWaits(Request[tuple[tuple[Span, ...] | None, ...]]):
    """What jobs waited for so far, archived ones included: for each id, in order, its spans; null: no such job."""

    METHOD = "ReadJobWaits"
    job_ids: tuple[JobId, ...]
