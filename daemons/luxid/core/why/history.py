"""What held each queued job, and since when: noted as it changes.

Theory. An entry bears what it waits for and since when; no more, as long as that stays. A change of phase, a new
ruling, or the end of a job waited for is noted for the jobs that the event touches anyway. The next `decide` gives the
time: it compares what is noted with what was so before, and makes a span if the job now waits for something else. So
an event costs nothing for the other jobs, and a change that was undone before the next `decide` did not happen.

What concerns all jobs of a limit, or of a want of units, or all ready ones, is not told to each: it has a timeline of
its own while one of them waits. A ready job's time is divided only when the job is let go: while a limit of it was
full, that held it; while a want of it was short, that did; while no job was started at all, that did; otherwise it
waited for its turn.

The first of these is blamed: that the job is to begin later, other jobs, a filter rule, a limit, units, its turn. A job
whose file is rewritten keeps waiting for what it waited for. Spans are handed out, and kept no longer, when the job is
let go: it starts, or ends without a process.

A job that is here at the first `decide`, when time begins, was here before this luxid: what held it until then is
unknown, unless its file tells that it was to begin later.

Considered and rejected: keeping the jobs that a blocked one waits for with its span (more memory than all the rest; the
dependencies know them until they change), and a span for each job of a limit (a start would touch them all).

Source: DESIGN section 6, "Explain".
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from math import ceil
from typing import Final, assert_never

import attrs

from common.objects.filter import FilterRule
from common.queue.explanation import NAMED, SHORTEST_S, Cause, Span, WaitKind
from common.queue.jobs import Job, to_seconds
from common.queue.reasons import next_try
from common.queue.terms import DeferralCause as Deferred
from common.queue.terms import terms_of
from daemons.luxid.core.choice.limits import BatchLimit, BucketLimit, Limit, LimitUsage
from daemons.luxid.core.queue.dependents import UnmetDependencies
from daemons.luxid.core.queue.entry import Entry, Phase, Waited, WaitingOn
from daemons.luxid.core.resources import UnitBook, Want

# The intervals during which a condition shared by many jobs held: a limit was full, starts were suspended.
#
# Kept once for all of them, so that a change touches none; the spans of one job are cut out of it when it is let go.


# stretches that one timeline keeps
MOST_STRETCHES: Final = 64
Stretch = tuple[float, float]


class Stretches:
    """The stretches of time in which it was so, oldest first.

    A gap shorter than `SHORTEST_S` is none: a limit that one job leaves and the next one takes was full all the time.
    Of more than `MOST` stretches the two with the smallest gap become one.
    """

    def __init__(self) -> None:
        self._past: list[Stretch] = []
        self._since: float | None = None

    def set(self, is_so: bool, now_s: float) -> None:  # the state is the whole message
        """From now on it is so, or is not."""
        if is_so == (self._since is not None):
            return
        if self._since is not None:
            self._past.append((self._since, now_s))
            self._since = None
            self._keep_few()
        elif self._past and now_s - self._past[-1][1] < SHORTEST_S:
            self._since = self._past.pop()[0]
        else:
            self._since = now_s

    def within(self, since: float, until: float) -> list[Stretch]:
        """The stretches between two instants, the later one not after the last change."""
        found = [] if self._since is None else [(max(self._since, since), until)]
        for begin, end in reversed(self._past):
            if end <= since:
                break
            found.append((max(begin, since), min(end, until)))
        found.reverse()
        return [(begin, end) for begin, end in found if begin < end]

    def _keep_few(self) -> None:
        past = self._past
        if len(past) >= 2 and past[-2][1] - past[-2][0] < SHORTEST_S:
            del past[-2]
        if len(past) > MOST_STRETCHES:
            index = min(range(len(past) - 1), key=lambda at: past[at + 1][0] - past[at][1])
            past[index : index + 2] = [(past[index][0], past[index + 1][1])]


# spans that one job keeps; with more they are handed out early
MOST_PHASES: Final = 32
_TURN: Final = Cause(WaitKind.TURN)
_OBSTACLE: Final = Cause(WaitKind.OBSTACLE)
_START: Final = Cause(WaitKind.START)
_UNKNOWN: Final = Cause(WaitKind.UNKNOWN)
_BEGIN: Final = Cause(WaitKind.BEGIN)


@attrs.define
class _Line:
    """A limit behind which ready jobs wait."""

    full: Stretches = attrs.field(factory=Stretches)
    jobs: int = 0


class WaitHistory:
    """The spans of the jobs in the queue."""

    def __init__(self, limit_usage: LimitUsage, waits: UnmetDependencies, units: UnitBook) -> None:
        self._limit_usage = limit_usage
        self._units = units
        self._waits = waits
        # jobs noted since the last `decide`; a blocked one with what it waited for until then
        self._noted: dict[Entry, Cause | None] = {}
        self._gone: set[Entry] = set()
        # held ones that were blocked before
        self._set_aside: dict[Entry, Cause] = {}
        self._lines: dict[Limit, _Line] = {}
        self._nobody_starts = Stretches()
        # the first `decide`
        self._began_at: float | None = None
        # ready jobs that nothing holds but their turn or a want of units, by the end of the second since when they are
        self._since = Counter[int]()

    # what happened

    def note(self, entry: Entry) -> None:
        """Remember what blocks the job now. Call before its phase or dependencies change."""
        if entry not in self._noted:
            blocking = self._blocking(entry) if entry.phase is Phase.BLOCKED else None
            self._noted[entry] = blocking or self._set_aside.pop(entry, None)

    def leave(self, entry: Entry) -> None:
        """Take note that the job has ended."""
        self.note(entry)
        self._gone.add(entry)

    # what follows

    def tell(self, now_s: float, *, may_start: bool) -> tuple[Waited, ...]:
        """Let what was noted hold from now on; returns the spans of jobs that were let go.

        Args:
            may_start: jobs are started at all.
        Cost: linear in what was noted.
        """
        if self._began_at is None:
            self._began_at = now_s
        self._nobody_starts.set(not may_start, now_s)
        for limit in (*self._limit_usage.take_changed(), *self._units.take_changed()):
            if (line := self._lines.get(limit)) is not None:
                line.full.set(self._is_full(limit), now_s)
        noted, self._noted = self._noted, {}
        let_go = [entry for entry, before in noted.items() if self._settle(entry, before, now_s) and entry.waited]
        self._gone.clear()
        return tuple(map(self._let_go, let_go))

    def spans(self, entry: Entry, now_s: float) -> tuple[Span, ...]:
        """What held the job so far and was not handed out; what still does has no end."""
        before = self._set_aside.get(entry) or self._noted.get(entry) or self._blocking(entry)
        spans = _joined(entry.waited, self._until_now(entry, before, now_s))
        return tuple(attrs.evolve(span, until=None) if span.until == now_s else span for span in spans)

    def close(self, entries: Iterable[Entry], now_s: float) -> Iterator[Waited]:
        """The spans of all jobs, as if they were let go: nothing will be noted any more."""
        for entry in entries:
            if entry.waiting_on is not None:
                before = self._set_aside.get(entry) or self._noted.get(entry) or self._blocking(entry)
                entry.waited = _joined(entry.waited, self._until_now(entry, before, now_s))
            if (waited := self._let_go(entry)).spans:
                yield waited

    def delayed(self, now_s: float, for_s: float) -> int:
        """How many jobs could begin, and have waited for their turn or for units of resources for so long, to a second.

        Cost: linear in the different seconds since when jobs wait so.
        """
        return sum(count for since, count in self._since.items() if now_s - since >= for_s)

    # one job

    def _settle(self, entry: Entry, before: Cause | None, now_s: float) -> bool:
        """Whether the job's spans are to be handed out."""
        is_gone = entry in self._gone
        if entry.phase is Phase.HELD and not is_gone:
            if before is not None:
                self._set_aside[entry] = before
            return False
        waiting_on = None if is_gone else _waiting_on(entry)
        if not self._is_same(entry, waiting_on, before, now_s):
            self._change(entry, waiting_on, before, now_s)
        return waiting_on in (None, Phase.STARTING) or len(entry.waited) > MOST_PHASES

    def _is_same(self, entry: Entry, waiting_on: WaitingOn, before: Cause | None, now_s: float) -> bool:
        if entry.waiting_on is Phase.BLOCKED and waiting_on is Phase.BLOCKED:
            # what is too short for a span begins the next one
            return before == self._blocking(entry) or now_s - entry.waiting_since < SHORTEST_S
        if isinstance(entry.waiting_on, FilterRule) and isinstance(waiting_on, FilterRule):
            return entry.waiting_on.uuid == waiting_on.uuid
        return entry.waiting_on == waiting_on

    def _change(self, entry: Entry, waiting_on: WaitingOn, before: Cause | None, now_s: float) -> None:
        entry.waited = _joined(entry.waited, self._until_now(entry, before, now_s))
        if isinstance(entry.waiting_on, tuple):
            self._leave_lines(entry.waiting_on)
            self._count(entry.waiting_on, entry.waiting_since, -1)
        if isinstance(waiting_on, tuple):
            self._enter_lines(waiting_on, now_s)
            self._count(waiting_on, now_s, 1)
        entry.waiting_on, entry.waiting_since = waiting_on, now_s

    def _let_go(self, entry: Entry) -> Waited:
        spans, entry.waited = entry.waited, ()
        return Waited(entry.job.job_id, spans)

    def _blocking(self, entry: Entry) -> Cause:
        """The jobs that it waits for."""
        unmet = self._waits.of(entry.job.job_id)
        job_ids = sorted(islice(unmet, NAMED))
        return Cause(WaitKind.DEPENDENCY, tuple(job_ids), more=len(unmet) - len(job_ids))

    def _until_now(self, entry: Entry, before: Cause | None, now_s: float) -> Iterator[Span]:
        """What held the job since that was last something else."""
        waiting_on, since = entry.waiting_on, entry.waiting_since
        if waiting_on is None:
            return
        if since == self._began_at and (known_until := _known_until(entry.job)) is not None:
            deferred_at = min(_deferred_at(entry), since) if isinstance(waiting_on, Cause) else since
            yield Span(_UNKNOWN, known_until, max(known_until, deferred_at))
            since = max(known_until, deferred_at)
        if isinstance(waiting_on, tuple):
            yield from self._divided(waiting_on, since, now_s)
        else:
            yield Span(_cause(waiting_on, before), since, now_s)

    # ready jobs

    def _divided(self, limits: tuple[Limit, ...], since: float, now_s: float) -> list[Span]:
        spans: list[Span] = []
        free = [(since, now_s)]
        timelines = [(_limit_cause(limit), self._lines[limit].full) for limit in limits]
        for cause, timeline in (*timelines, (_OBSTACLE, self._nobody_starts)):
            rest = []
            for begin, end in free:
                for found in timeline.within(begin, end):
                    spans.append(Span(cause, *found))
                    rest.append((begin, found[0]))
                    begin = found[1]
                rest.append((begin, end))
            free = [stretch for stretch in rest if stretch[0] < stretch[1]]
        spans += [Span(_TURN, *stretch) for stretch in free]
        return sorted(spans, key=lambda span: span.since)

    def _enter_lines(self, limits: tuple[Limit, ...], now_s: float) -> None:
        for limit in limits:
            line = self._lines.get(limit)
            if line is None:
                line = self._lines[limit] = _Line()
                line.full.set(self._is_full(limit), now_s)
            line.jobs += 1

    def _count(self, limits: tuple[Limit, ...], since: float, by: int) -> None:
        # a limit is what somebody asked for
        if all(isinstance(limit, Want) for limit in limits):
            second = ceil(since)
            self._since[second] += by
            if not self._since[second]:
                del self._since[second]

    def _is_full(self, limit: Limit) -> bool:
        return self._units.is_short(limit) if isinstance(limit, Want) else self._limit_usage.is_full(limit)

    def _leave_lines(self, limits: tuple[Limit, ...]) -> None:
        for limit in limits:
            line = self._lines[limit]
            line.jobs -= 1
            if not line.jobs:
                del self._lines[limit]


def _waiting_on(entry: Entry) -> WaitingOn:
    match entry.phase:
        case Phase.BLOCKED | Phase.STARTING:
            return entry.phase
        case Phase.DEFERRED:
            return _deferral_cause(entry)
        case Phase.READY:
            return entry.ruling.rule if entry.ruling.is_pause else entry.admission.closers
        case Phase.HELD | Phase.RUNNING | Phase.ORPHANED:
            return None
        case _:
            assert_never(entry.phase)


def _deferral_cause(entry: Entry) -> Cause:
    deferral = entry.deferral
    assert deferral is not None
    match deferral.cause:
        case Deferred.HOLD:
            hold = terms_of(entry.job).hold
            assert hold is not None
            return Cause(WaitKind.HOLD, names=(hold.by,) if hold.by else (), reason=hold.why)
        case Deferred.BEGIN:
            return _BEGIN
        case Deferred.RETRY:
            failed = next_try(entry.job)
            return Cause(WaitKind.RETRY, reason=failed.why if failed is not None else "")
        case _:
            assert_never(deferral.cause)


def _cause(waiting_on: Phase | FilterRule | Cause, blocking: Cause | None) -> Cause:
    if isinstance(waiting_on, Cause):
        return waiting_on
    if isinstance(waiting_on, FilterRule):
        reasons = (entry.reason for entry in waiting_on.reason_trail if entry.reason)
        return Cause(WaitKind.FILTER, names=(waiting_on.uuid,), reason=next(reasons, ""))
    return blocking if blocking is not None and waiting_on is Phase.BLOCKED else _START


def _limit_cause(limit: Limit) -> Cause:
    if isinstance(limit, BatchLimit):
        return Cause(WaitKind.BATCH, names=(limit.name,), limit=limit.count)
    if isinstance(limit, Want):
        return Cause(WaitKind.RESOURCE, names=(limit.name,), limit=limit.count)
    # the text of a bucket tells its limit and is the user's; a rule has a UUID
    return Cause(WaitKind.LIMIT, names=(limit.name,), limit=limit.count, is_bucket=isinstance(limit, BucketLimit))


def _deferred_at(entry: Entry) -> float:
    """Since when what defers the job has done so, as far as its file tells."""
    hold = terms_of(entry.job).hold
    return hold.at if hold is not None else 0.0


def _known_until(job: Job) -> float | None:
    """When the job came, or went on to its next opcode, or its last try failed."""
    stamps = [stamp for stamp in (job.received_at, *(op.end_at for op in job.ops)) if stamp is not None]
    failed = next_try(job)
    ends = [*map(to_seconds, stamps), *([failed.end_at] if failed is not None else [])]
    return max(ends, default=None)


def _joined(before: tuple[Span, ...], after: Iterable[Span]) -> tuple[Span, ...]:
    """One behind the other, without what is too short; what one cause held without a gap is one span."""
    spans = list(before)
    for span in after:
        if spans and spans[-1].cause == span.cause and span.since - (spans[-1].until or 0.0) < SHORTEST_S:
            spans[-1] = attrs.evolve(spans[-1], until=span.until)
        elif not span.is_short:
            spans.append(span)
    return tuple(spans)
