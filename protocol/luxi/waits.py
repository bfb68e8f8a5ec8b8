"""What jobs waited for. Ours."""

from typing import Any

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class ReadJobWaits(Request[tuple[Any, ...]]):
    """What jobs waited for so far, also archived ones: for each id, in order, a list of spans; null: no such job. Ours.

    A span is `{"kind", "since", "until", ...}` with instants in seconds since the epoch; `until` is null in the last
    one if the job still waits. Kinds: dependency, filter, limit, turn, obstacle, start, locks, unknown. What is to
    blame: `job_ids` (`more`: how many are left out), `names` (of locks, or of the rule or limit), `owners` of locks
    that are no jobs, `limit` and `is_bucket`, `reason` of a rule; each is left out if there is none.
    """

    METHOD = "ReadJobWaits"
    job_ids: tuple[JobId, ...]
