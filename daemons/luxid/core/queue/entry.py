"""A job that has not ended, as the core sees it.

Source: DESIGN section 6.
"""

import attrs

from common.objects.filter import FilterRule
from common.queue.jobs import Job
from common.queue.waithistory import Span
from daemons.luxid.core.choice.admission import Admission, admission_of
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.ratelimit import Limit
from daemons.luxid.core.filters.filterclasses import FilterClass
from daemons.luxid.core.filters.filtering import Ruling
from daemons.luxid.core.queue.decisions import Phase

# limits of a ready job, which may be none; None: the job waits for nothing
WaitingOn = Phase | FilterRule | tuple[Limit, ...] | None


@attrs.define(eq=False)
class Entry:
    """A job that has not ended.

    Each field has one module that writes it: `entries` the phase, `history` what it waits for, `pauses` whether it is
    stopped, `judging` all else.
    """

    job: Job
    phase: Phase
    filter_class: FilterClass
    # limits that the job names itself
    buckets: tuple[Limit, ...]
    # locks of the next opcode, or of the one under way
    needs: Needs
    # tick in which the job was received; 0 if that is not known
    received_tick: int
    # summary of the opcode, if the job has only one: a list of all jobs need not read them
    summary: str | None = None
    # whether its batch stopped before its first opcode had ended
    is_stopped: bool = False
    # pause and limits; follows from the filter class and the buckets, and is asked for at each change of phase
    admission: Admission = attrs.field(init=False)
    # what `history` noted last: what the job waits for, since when, and for what before
    waiting_on: WaitingOn = None
    waiting_since: float = 0.0
    waited: tuple[Span, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.rule(self.filter_class)

    @property
    def ruling(self) -> Ruling:
        return self.filter_class.ruling

    @property
    def limits(self) -> tuple[Limit, ...]:
        return self.admission.limits

    def rule(self, filter_class: FilterClass) -> None:
        """Put the ruling of this filter class in force."""
        self.filter_class = filter_class
        ruling = filter_class.ruling
        limits = (*ruling.limits, *self.buckets) if ruling.limits else self.buckets
        self.admission = admission_of(limits, is_paused=ruling.is_pause)
