"""A job that has not ended, as the core sees it.

Source: DESIGN section 6.
"""

import attrs

from common.objects.filter import FilterRule
from common.queue.deferral import Deferral
from common.queue.jobs import Job
from common.queue.terms import Use
from common.queue.waithistory import Cause, Span
from daemons.luxid.core.choice.admission import Admission, admission_of
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.ratelimit import Limit
from daemons.luxid.core.choice.userbounds import User
from daemons.luxid.core.filters.filterclasses import FilterClass
from daemons.luxid.core.filters.filtering import Ruling
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.resources.wants import Place, wants_of

# limits and wants of a ready job, which may be none; what a deferred one waits for; None: the job waits for nothing
WaitingOn = Phase | FilterRule | tuple[Limit, ...] | Cause | None


@attrs.define(eq=False)
class Entry:
    """A job that has not ended.

    Each field has one module that writes it: `entries` the phase, `history` what it waits for, `pauses` whether it is
    stopped, `jobqueue` what defers it, `judging` all else.
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
    # units that it takes with its slot
    uses: tuple[Use, ...] = ()
    # whom it counts for; None: nobody who is bounded
    user: User | None = None
    # whether its batch stopped before its first opcode had ended
    is_stopped: bool = False
    # what defers the job, whatever the time is now; None: nothing
    deferral: Deferral | None = None
    # pause, limits, wants and user; follows from the filter class, the buckets, the uses and the priority, and is asked
    # for at each change of phase
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

    @property
    def place(self) -> Place:
        """Its place among the jobs that wait for units."""
        return self.job.priority, self.received_tick, self.job.job_id

    def rule(self, filter_class: FilterClass) -> None:
        """Put the ruling of this filter class in force."""
        self.filter_class = filter_class
        ruling = filter_class.ruling
        limits = (*ruling.limits, *self.buckets) if ruling.limits else self.buckets
        wants = wants_of(self.uses, self.job.priority) if self.uses else ()
        self.admission = admission_of(limits, wants, self.user, is_paused=ruling.is_pause)
