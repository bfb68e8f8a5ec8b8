"""What clients were told, as a list of exchanges; and what follows from it.

An exchange is a question and its answer. Some got none, or an error: then the change may have been made, or not. The
oracle wants no more than this list, a look at the system, and the tally of side effects; how the system was
hurt is nothing to it.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

FINAL = ("success", "error", "canceled")


class Outcome(enum.Enum):
    ANSWERED = "answered"
    # nothing was changed, says the daemon
    REFUSED = "refused"
    UNKNOWN = "unknown"


@attrs.frozen
class Exchange:
    """One call of a client.

    The words after `what`:
    submit (tokens of each opcode of each job); answer: ids of the jobs
    saw (job id); answer: its state
    cancel (job id); answer: whether it is canceled now
    archive (job ids); answer: whether they are set aside
    drain (flag)      port (number): is one of the cluster's
    add-filter (name); answer: uuid      delete-filter (uuid)
    keep (name, value): of a schedule, whether it is paused; of a resource, its total; None: it is removed
    runs (): of schedules; answer: those that have jobs
    prune (job ids): archived jobs; answer: whether they are removed
    lock (owner, lock): exclusive; answer: whether it was free        free (owner)
    """

    what: str
    args: tuple[Any, ...]
    outcome: Outcome = Outcome.UNKNOWN
    answer: Any = None


@attrs.frozen
class ToldJob:
    """A job whose id was answered."""

    # of its opcodes; each leaves its own in the tally when it runs
    tokens: tuple[str, ...]
    # a final state that was told
    state: str | None = None
    archived: bool = False


@attrs.define
class Ledger:
    """What must be so, and what may be."""

    jobs: dict[int, ToldJob] = attrs.Factory(dict)
    # submissions that may have been taken, whole or not at all: tokens of their jobs
    doubtful: list[tuple[tuple[str, ...], ...]] = attrs.Factory(list)
    # calls without an answer may have set aside these
    maybe_archived: set[int] = attrs.Factory(set)
    # what the flag may be
    drained: set[bool] = attrs.Factory(lambda: {False})
    # uuid -> name
    filters: dict[str, str] = attrs.Factory(dict)
    # names of rules that may be there
    maybe_filters: set[str] = attrs.Factory(set)
    ports: set[int] = attrs.Factory(set)
    # owner -> locks
    locks: dict[str, set[str]] = attrs.Factory(dict)
    # owners of whose locks nothing is known
    vague_owners: set[str] = attrs.Factory(set)
    # schedule or resource -> what it may be
    kept: dict[str, set[object]] = attrs.Factory(dict)
    # runs of schedules that were told to have jobs
    runs: set[str] = attrs.Factory(set)
    # jobs that were told to be removed, and jobs that may be
    removed: set[int] = attrs.Factory(set)
    maybe_removed: set[int] = attrs.Factory(set)
    # ids that were given twice
    reused: set[int] = attrs.Factory(set)

    @classmethod
    def of(cls, exchanges: Iterable[Exchange]) -> "Ledger":
        ledger = cls()
        for exchange in exchanges:
            ledger.add(exchange)
        return ledger

    def add(self, exchange: Exchange) -> None:
        if exchange.outcome is not Outcome.REFUSED:
            getattr(self, f"_{exchange.what.replace('-', '_')}")(exchange, exchange.outcome is Outcome.ANSWERED)

    def _submit(self, exchange: Exchange, sure: bool) -> None:
        (jobs,) = exchange.args
        if not sure:
            self.doubtful.append(jobs)
            return
        # sent again under its key
        self.doubtful = [each for each in self.doubtful if each != jobs]
        for job_id, tokens in zip(exchange.answer, jobs, strict=True):
            if job_id in self.removed | self.maybe_removed or self.jobs.get(job_id, ToldJob(tokens)).tokens != tokens:
                self.reused.add(job_id)
            self.jobs[job_id] = ToldJob(tokens)

    def _saw(self, exchange: Exchange, sure: bool) -> None:
        (job_id,) = exchange.args
        if sure and exchange.answer in FINAL and job_id in self.jobs:
            self.jobs[job_id] = attrs.evolve(self.jobs[job_id], state=exchange.answer)

    def _cancel(self, exchange: Exchange, sure: bool) -> None:
        (job_id,) = exchange.args
        if sure and exchange.answer:
            self.jobs[job_id] = attrs.evolve(self.jobs[job_id], state="canceled")

    def _archive(self, exchange: Exchange, sure: bool) -> None:
        (job_ids,) = exchange.args
        if not (sure and exchange.answer):
            self.maybe_archived.update(job_ids)
            return
        for job_id in job_ids:
            self.jobs[job_id] = attrs.evolve(self.jobs[job_id], archived=True)

    def _drain(self, exchange: Exchange, sure: bool) -> None:
        (flag,) = exchange.args
        self.drained = {flag} if sure else self.drained | {flag}

    def _keep(self, exchange: Exchange, sure: bool) -> None:
        name, value = exchange.args
        self.kept[name] = {value} if sure else {value} | self.kept.get(name, {None})

    def _runs(self, exchange: Exchange, sure: bool) -> None:
        self.runs.update(exchange.answer if sure else ())

    def _prune(self, exchange: Exchange, sure: bool) -> None:
        (job_ids,) = exchange.args
        (self.removed if sure and exchange.answer else self.maybe_removed).update(job_ids)

    def _port(self, exchange: Exchange, sure: bool) -> None:
        if sure:
            self.ports.add(exchange.args[0])

    def _add_filter(self, exchange: Exchange, sure: bool) -> None:
        (name,) = exchange.args
        if sure:
            self.filters[exchange.answer] = name
        else:
            self.maybe_filters.add(name)

    def _delete_filter(self, exchange: Exchange, sure: bool) -> None:
        (uuid,) = exchange.args
        name = self.filters.pop(uuid, None)
        if not sure and name is not None:
            self.maybe_filters.add(name)

    def _lock(self, exchange: Exchange, sure: bool) -> None:
        owner, lock = exchange.args
        if sure and exchange.answer:
            self.locks.setdefault(owner, set()).add(lock)
        elif not sure:
            self.vague_owners.add(owner)

    def _free(self, exchange: Exchange, sure: bool) -> None:
        (owner,) = exchange.args
        self.locks.pop(owner, None)
        if sure:
            self.vague_owners.discard(owner)
        else:
            self.vague_owners.add(owner)


def answered(exchanges: Sequence[Exchange], count: int) -> list[Exchange]:
    """The list as it was when so many had their answer, and the next was under way."""
    return [
        *exchanges[:count],
        *(attrs.evolve(each, outcome=Outcome.UNKNOWN, answer=None) for each in exchanges[count : count + 1]),
    ]
