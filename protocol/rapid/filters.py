"""Filter rules under /3.

Source: filters design; luxid.md 6.
"""

import attrs

from common.ids import JobId
from common.queue.filters.actions import Action
from common.queue.reasons import ReasonTrail


@attrs.frozen
class FilterLoad:
    """What a rule does to the jobs."""

    # number of jobs since luxid's start: refused when they came, or canceled in the queue
    rejected: int
    # queued jobs that wait for no other job, and that the rule keeps from starting
    held: int
    # jobs that count against the limit of a RATE_LIMIT now; 0 for other actions
    running: int


@attrs.frozen
class ChainRule:
    """A rule of the chain; the first that matches a job decides."""

    uuid: str
    # smaller comes first
    priority: int
    # last job id used when the rule was added
    watermark: JobId
    # `[what is tested, expression of the query language]`; all of them must hold
    predicates: tuple[object, ...]
    # word, or `["RATE_LIMIT", n]`
    action: Action
    # who added it, and why: `[source, reason, nanoseconds since 1970]`
    reason_trail: ReasonTrail


@attrs.frozen
class Filter(ChainRule):
    """A rule of the chain, with what it does to the jobs."""

    # null: it is not in force
    load: FilterLoad | None = None


@attrs.frozen
class FilterList:
    # in the order of the chain
    filters: tuple[Filter, ...]


@attrs.frozen
class FilterWish:
    """A rule to set, or to try."""

    # ACCEPT, PAUSE, REJECT, CONTINUE, or `["RATE_LIMIT", n]`
    action: Action
    # smaller comes first
    priority: int = 0
    # as in `Filter`; none, and no `where`: the rule is for all jobs
    predicates: tuple[object, ...] = ()
    # further conditions as text: "op=OP_RUN_COMMAND & reason=~upgrade"
    where: str | None = None
    # shown to users who ask why a job waits
    reason: str = ""


@attrs.frozen
class FilterTrial:
    """The jobs that wait now and to which a rule would apply; nothing was changed."""

    count: int
    ids: tuple[JobId, ...]
