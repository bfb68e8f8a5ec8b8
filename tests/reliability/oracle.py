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


@attrs.frozen
class Rules:
    """What holds beside what was told."""

    # these opcodes want one lock exclusively: no two run at a time
    exclusive: frozenset[str] = frozenset()
    # token -> token of the job that has to succeed before
    after: Mapping[str, str] = attrs.Factory(dict)
    # no process of a job was killed and the power was not cut: then no job that can succeed ends in error
    no_job_hurt: bool = False


def judge(ledger: Ledger, view: View, tally: Sequence[str], rules: Rules = Rules()) -> list[str]:
    """What is wrong, at any moment; nothing, if all is well."""
    return [
        *_jobs_told(ledger, view),
        *_jobs_untold(ledger, view),
        *_effects(view, tally),
        *_order(view, tally, rules),
        *_settings(ledger, view),
        *_locks(ledger, view),
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
    for job_id, told in ledger.jobs.items():
        found = seen.get(job_id, [])
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
    there = Counter(tuple(op.token for op in job.ops) for job in view.jobs)
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


def _effects(view: View, tally: Sequence[str]) -> Iterator[str]:
    begun = Counter(line[:-1] for line in tally if line.endswith("+"))
    for token, count in begun.items():
        if count > 1:
            yield f"opcode {token} ran {count} times"
    states = {op.token: op.state for job in view.jobs for op in job.ops}
    for token in begun:
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


def _one_of(values: Iterable[object]) -> str:
    return " or ".join(sorted(map(str, values)))
