"""What ran, under /3.

Source: DESIGN sections 15 and 16.
"""

import attrs

from protocol.luxi.history import EndedJob, PastSum


@attrs.frozen
class History:
    """A part of the ended jobs."""

    jobs: tuple[EndedJob, ...]
    # number of jobs that the choice has
    total: int
    # number of ended jobs that are not in the index yet, for a moment after a start
    unread: int = 0


@attrs.frozen
class HistorySummary:
    # the largest group first
    groups: tuple[PastSum, ...]
