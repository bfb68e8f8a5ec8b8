"""The queue as a whole: drain flag, limits, and the pause of the watcher.

Source: luxid.md section 2.
"""

import attrs

from protocol.messages import Request


@attrs.frozen
class SetDrainFlag(Request[bool]):
    """Close or open the queue to new jobs."""

    METHOD = "SetDrainFlag"
    drain: bool


@attrs.frozen
class SetWatcherPause(Request[float | None]):
    """Pause the watcher until an instant; null: let it go on. Returns the instant."""

    METHOD = "SetWatcherPause"
    # seconds since the epoch
    until: float | None


@attrs.frozen
class SetJobLimits(Request[bool]):
    """Change limits of the cluster; null leaves one unchanged."""

    METHOD = "SetJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None = None
