"""Judges a system from outside: by what clients were told, what there is, and the tally of side effects.

A command of a job appends `TOKEN+` to the tally when it begins and `TOKEN-` when it ends; each opcode has a token of
its own. A *view* is what is seen of the system, in its files or through its daemons (`views`).

Source: DESIGN section 3, invariants 1 to 5; section 11.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tests.reliability.ledger import FINAL, Ledger


@attrs.frozen
class SeenOp:
    token: str
    state: str


@attrs.frozen
class SeenJob:
    job_id: int
    state: str
    ops: tuple[SeenOp, ...]
    archived: bool = False


@attrs.frozen
class View:
    """What there is."""

    jobs: tuple[SeenJob, ...]
    drained: bool
    # uuid -> name
    filters: Mapping[str, str]
    ports: frozenset[int]
    # owner -> locks; None: not looked at
    locks: Mapping[str, frozenset[str]] | None = None
    # schedule or resource -> what it is; see `Exchange`
    kept: Mapping[str, object] = attrs.Factory(dict)
    # runs of schedules that have a job, one for each such job
    runs: tuple[str, ...] = ()
    # the highest id that is known to have been used; None: not looked at
    highest_id: int | None = None
    # job -> its state in the history of ended jobs; None: not looked at
    past: Mapping[int, str] | None = None


@attrs.frozen
class Rules:
    """What holds beside what was told."""

    # these opcodes want one lock exclusively: no two run at a time
    exclusive: frozenset[str] = frozenset()
    # token -> token of the job that has to succeed before
    after: Mapping[str, str] = attrs.Factory(dict)
    # of these jobs' ends somebody is told, at least once
    told: frozenset[str] = frozenset()
    # no process of a job was killed and the power was not cut: then no job that can succeed ends in error
    no_job_hurt: bool = False


def judge(ledger: Ledger, view: View, tally: Sequence[str], rules: Rules = Rules()) -> list[str]:
    """What is wrong, at any moment; nothing, if all is well."""
    return [
        *_jobs_told(ledger, view),
        *_jobs_untold(ledger, view),
        *_effects(ledger, view, tally),
        *_order(view, tally, rules),
        *_settings(ledger, view),
        *_locks(ledger, view),
        *_kept(ledger, view),
        *_past(ledger, view),
    ]


def judge_rest(ledger: Ledger, view: View, tally: Sequence[str], rules: Rules = Rules()) -> Iterator[str]:
    """What is wrong when everything has come to rest."""
    begun = Counter(line[:-1] for line in tally if line.endswith("+"))
    for job in view.jobs:
        if job.state not in FINAL:
            yield f"job {job.job_id} is still {job.state}"
        if job.state == "error" and rules.no_job_hurt:
            yield f"job {job.job_id} ended in error, and its process was not hurt"
        for op in job.ops:
            if op.state == "success" and op.token and begun[op.token] != 1:
                yield f"job {job.job_id} succeeded, and its opcode {op.token} ran {begun[op.token]} times"
    for owner, locks in (view.locks or {}).items():
        if owner not in ledger.locks and owner not in ledger.vague_owners:
            yield f"{owner} still holds {sorted(locks)}"


def _jobs_told(ledger: Ledger, view: View) -> Iterator[str]:
    seen: dict[int, list[SeenJob]] = {}
    for job in view.jobs:
        seen.setdefault(job.job_id, []).append(job)
    yield from (f"job {job_id} was given twice" for job_id in sorted(ledger.reused))
    if view.highest_id is not None and view.highest_id < max(ledger.jobs, default=0):
        yield f"job {max(ledger.jobs)} was answered, and {view.highest_id} is the highest id: it would be given again"
    for job_id, told in ledger.jobs.items():
        found = seen.get(job_id, [])
        if job_id in ledger.removed and found:
            yield f"job {job_id} was told to be removed and is there"
        if job_id in ledger.removed or (job_id in ledger.maybe_removed and not found):
            continue
        if len(found) != 1:
            yield f"job {job_id} was answered and is there {len(found)} times"
            continue
        (job,) = found
        if tuple(op.token for op in job.ops) != told.tokens:
            yield f"job {job_id} was answered for {told.tokens} and is {[op.token for op in job.ops]}"
        if told.state is not None and job.state != told.state:
            yield f"job {job_id} was told to be {told.state} and is {job.state}"
        if told.archived and not job.archived:
            yield f"job {job_id} was told to be archived and is not"
        if job.archived and not told.archived and job_id not in ledger.maybe_archived:
            yield f"job {job_id} is archived and nobody asked for it"


def _jobs_untold(ledger: Ledger, view: View) -> Iterator[str]:
    """What was not answered is there whole or not at all, and once."""
    # jobs of luxid's own, deliveries and runs of schedules, have no tokens
    there = Counter(tuple(op.token for op in job.ops) for job in view.jobs if any(op.token for op in job.ops))
    known = {told.tokens for told in ledger.jobs.values()}
    for tokens, count in there.items():
        if count > 1:
            yield f"{tokens} was submitted once and is {count} jobs"
        if tokens not in known and not any(tokens in jobs for jobs in ledger.doubtful):
            yield f"{tokens} is a job and nobody submitted it"
    for jobs in ledger.doubtful:
        count = sum(tokens in there for tokens in jobs)
        if 0 < count < len(jobs):
            yield f"of a submission of {len(jobs)} jobs that got no answer {count} are there: {jobs}"


def _effects(ledger: Ledger, view: View, tally: Sequence[str]) -> Iterator[str]:
    begun = Counter(line[:-1] for line in tally if line.endswith("+"))
    for token, count in begun.items():
        if count > 1:
            yield f"opcode {token} ran {count} times"
    states = {op.token: op.state for job in view.jobs for op in job.ops}
    removed = {token for job_id in ledger.removed | ledger.maybe_removed for token in ledger.jobs[job_id].tokens}
    for token in begun:
        if token not in states and token in removed:
            continue
        if token not in states:
            yield f"opcode {token} ran and its job is not there"
        elif states[token] in ("queued", "waiting"):
            yield f"opcode {token} ran and is {states[token]}: it would run again"


def _order(view: View, tally: Sequence[str], rules: Rules) -> Iterator[str]:
    running: str | None = None
    for line in tally:
        token = line[:-1]
        if token not in rules.exclusive:
            continue
        if line.endswith("+"):
            if running is not None:
                yield f"{token} ran while {running} ran, and both want one lock exclusively"
            running = token
        elif running == token:
            running = None
    succeeded = {op.token for job in view.jobs for op in job.ops if job.state == "success"}
    for token, before in rules.after.items():
        if f"{token}+" in tally and before not in succeeded:
            yield f"{token} ran after a success of {before}, and that is none"


def _settings(ledger: Ledger, view: View) -> Iterator[str]:
    if view.drained not in ledger.drained:
        yield f"the drain flag is {view.drained}, and was told to be {_one_of(ledger.drained)}"
    for uuid, name in ledger.filters.items():
        if uuid not in view.filters:
            yield f"filter rule {name} was answered and is not there"
    names = set(ledger.filters.values()) | ledger.maybe_filters
    for uuid, name in view.filters.items():
        if uuid not in ledger.filters and name not in names:
            yield f"filter rule {name} is there and was deleted, or never made"
    if missing := ledger.ports - view.ports:
        yield f"ports {sorted(missing)} were answered and are not there"


def _locks(ledger: Ledger, view: View) -> Iterator[str]:
    if view.locks is None:
        return
    for owner, locks in ledger.locks.items():
        if owner not in ledger.vague_owners and (missing := locks - view.locks.get(owner, frozenset())):
            yield f"{owner} was granted {sorted(missing)} and does not hold it"


def _kept(ledger: Ledger, view: View) -> Iterator[str]:
    for name, values in ledger.kept.items():
        if (value := view.kept.get(name)) not in values:
            yield f"{name} is {value}, and was told to be {_one_of(values)}"
    yield from (f"{name} is there and nobody made it" for name in view.kept.keys() - ledger.kept.keys())
    yield from (f"run {run} was told to have a job and has none" for run in ledger.runs.difference(view.runs))
    yield from (f"run {run} has {count} jobs" for run, count in Counter(view.runs).items() if count > 1)


def _past(ledger: Ledger, view: View) -> Iterator[str]:
    """The history has each ended job once, as it ended; of removed ones it may know, or not."""
    if view.past is None:
        return
    ended = {job.job_id: job.state for job in view.jobs if job.state in FINAL}
    for job_id, state in ended.items():
        if (noted := view.past.get(job_id)) != state:
            yield f"job {job_id} is {state}, and the history says {noted}"
    # later ones have come since the view was taken
    last = max((job.job_id for job in view.jobs), default=0)
    known = ended.keys() | ledger.removed | ledger.maybe_removed
    for job_id in (job_id for job_id in view.past if job_id <= last and job_id not in known):
        yield f"the history has job {job_id}, and it is not there"


def untold(view: View, tally: Sequence[str], rules: Rules) -> list[str]:
    """The ends of which nobody was told."""
    return [
        f"nobody was told of the end of job {job.job_id}"
        for job in view.jobs
        if job.state in FINAL
        and rules.told.intersection(op.token for op in job.ops)
        and f"told {job.job_id}" not in tally
    ]


def _one_of(values: Iterable[object]) -> str:
    return " or ".join(sorted(map(str, values)))
