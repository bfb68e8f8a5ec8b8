"""The queue as a whole, and the cluster.

Source: luxid.md 2.2, 2.7.
"""

import attrs


@attrs.frozen
class Queue:
    # whether new jobs are refused
    drained: bool
    # seconds since 1970; null: the watcher is not paused
    watcher_paused_until: float | None
    # number of jobs that may run at once, and that luxid looks at closely
    max_running_jobs: int | None
    max_tracked_jobs: int | None
    # number of queued jobs that are on hold, or begin later, or wait for their next try
    deferred: int


@attrs.frozen
class LimitsWish:
    """Limits of the cluster; null leaves one unchanged."""

    max_running_jobs: int | None = None
    max_tracked_jobs: int | None = None
