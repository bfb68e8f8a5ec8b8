"""Batches: jobs that were submitted together.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Mapping

import attrs

from common.ids import JobId


@attrs.frozen
class BatchNow:
    """The jobs of a batch that are in the queue."""

    batch: str
    # "active" as long as one of them is; then the worst end of theirs: "error", "canceled" or "success"
    state: str
    # state -> number of jobs
    counts: Mapping[str, int]
    # name of its first job; empty: it has none
    name: str
    user: str
    first_id: JobId
    last_id: JobId


@attrs.frozen
class BatchList:
    # the newest first
    batches: tuple[BatchNow, ...]
