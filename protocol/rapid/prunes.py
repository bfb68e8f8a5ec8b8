"""Remove what is kept no longer.

Source: DESIGN sections 15 and 16.
"""

import attrs


@attrs.frozen
class PruneWish:
    # whether only to tell what would be removed
    dry_run: bool


@attrs.frozen
class Removed:
    """What was removed, or would be; numbers of files, or of jobs."""

    archived: int
    jobs: int
    outputs: int
    output_bytes: int
    waits: int
    keys: int
    # rows of the history
    rows: int
    # instants of the oldest and the newest end among the removed jobs, in seconds since 1970; null: none
    oldest: float | None
    newest: float | None
    # number of jobs that are due still, because the time of the call was over: send it again
    left: int
