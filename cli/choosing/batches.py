"""Batches as luxid's jobs tell them.

Source: DESIGN section 16; everyday.md section d.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from cli.choosing.jobids import PREVIOUS, ids_of
from cli.choosing.lastsubmission import previous_ids
from cli.connection import Luxid, open_luxid
from cli.query import filter_jobs, query_jobs
from common.errors import PrerequisiteError
from common.queue.reasons import Batch, batch_of_trail
from common.queue.terms import JobTerms, terms_of_trail
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression
from common.words.outcome import batch_state
from common.words.times import to_seconds

_FIELDS: Final = ("id", "status", "batch", "user", "summary", "received_ts")


@attrs.frozen
class BatchRow:
    """A batch and its jobs, as far as they were found."""

    # as its jobs have it; None: this user may not read their opcodes
    batch: Batch | None
    batch_id: str
    # its jobs' common name, with {host} for the values; else what they do
    name: str
    user: str
    # seconds since the epoch
    received_at: float | None
    # by id, with `id` and `status`
    jobs: Sequence[JobRow]

    @property
    def counts(self) -> Counter[str]:
        return Counter(row["status"] or "" for row in self.jobs)

    @property
    def state(self) -> str:
        return batch_state(self.counts)

    @property
    def missing_count(self) -> int:
        """Number of jobs that were not found: they are archived, or were refused."""
        return 0 if self.batch is None else max(self.batch.size - len(self.jobs), 0)


def read_batches(client: Luxid, batch_id: str | None = None, *, with_archived: bool) -> list[BatchRow]:
    """All batches, or the one with this id, by the id of their first job.

    Raises: as `filter_jobs`.
    """
    condition: Expression = ["!=", "batch", ""] if batch_id is None else ["==", "batch", batch_id]
    fields = (*_FIELDS, "archived") if with_archived else _FIELDS
    members: dict[str, list[JobRow]] = defaultdict(list)
    for row in filter_jobs(client, condition, fields):
        members[row["batch"]].append(row)
    firsts = query_jobs(client, [rows[0]["id"] for rows in members.values()], ("id", "ops")) if members else []
    return [_batch_row(found, rows, first) for (found, rows), first in zip(members.items(), firsts, strict=True)]


def read_batch(client: Luxid, batch_id: str) -> BatchRow:
    """One batch, with those of its jobs that are archived.

    Args: batch_id: `PREV` is that of the last submission.
    Raises: PrerequisiteError: there is none. Else as `filter_jobs`.
    """
    if batch_id == PREVIOUS:
        batch_id = _previous_batch(client)
    found = read_batches(client, batch_id, with_archived=False)
    if not found or found[0].missing_count:
        found = read_batches(client, batch_id, with_archived=True)
    if not found:
        raise PrerequisiteError(f"there is no batch '{batch_id}'; see: gnt-job batch list --archived", "unknown_entity")
    return found[0]


def batch_ids(name: str) -> Sequence[int]:
    """The jobs of a batch, archived ones too, by id.

    Raises: PrerequisiteError: there is no such batch. Else as `Luxid.call`.
    """
    if name == PREVIOUS:
        return ids_of(name)
    with open_luxid() as client:
        return [row["id"] for row in read_batch(client, name).jobs]


def _previous_batch(client: Luxid) -> str:
    (first, *_) = previous_ids(None)
    (row,) = query_jobs(client, [first], ("id", "batch"))
    if not row["batch"]:
        raise PrerequisiteError(f"the last submission, job {first}, is not a batch", "wrong_state")
    return row["batch"]


def _batch_row(batch_id: str, rows: Sequence[JobRow], first: JobRow) -> BatchRow:
    op = first["ops"][0] if first["ops"] else {}
    batch, terms = batch_of_trail(op.get("reason")), terms_of_trail(op.get("reason"))
    name = _common_name(terms, batch) or ",".join(rows[0]["summary"] or ())
    return BatchRow(batch, batch_id, name, rows[0]["user"], to_seconds(rows[0]["received_ts"]), rows)


def _common_name(terms: JobTerms, batch: Batch | None) -> str:
    """`backup-{host}` of `backup-web1`."""
    name = terms.name
    for each in batch.each if batch is not None else ():
        if value := terms.labels.get(each):
            name = name.replace(value, f"{{{each}}}")
    return name


def elements_by_id(rows: Sequence[JobRow]) -> Mapping[int, str]:
    """Job id -> its node or values, for jobs with `id` and `ops`; empty: nothing tells them apart."""
    from cli.live.fleet import fleet_of

    fleet = fleet_of(rows)
    return {} if fleet is None else {job_id: job.element for job_id, job in fleet.jobs.items()}
