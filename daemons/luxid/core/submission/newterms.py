"""The terms of new jobs: what clients may state of a job as a whole, and what luxid adds.

A client writes the entry; what it says of the clock and of users is not believed: a hold is put by the submitter, now.
The entry that names its batch must be readable, since a limit that nobody can read would limit nothing.

Source: DESIGN section 16; `common.queue.terms`.
"""

import attrs

from common.errors import InvalidRequest
from common.queue import batch
from common.queue.reasons import ReasonEntry
from common.queue.terms import SOURCE, Hold, check_terms, terms_entry
from daemons.luxid.core.submission.newjobs import ParsedJob


def with_checked_terms(ops: ParsedJob, by: str, now_ns: int) -> ParsedJob:
    """The job as it may be taken.

    Args:
        by: name of the submitter.
        now_ns: nanoseconds since the epoch.
    Raises: InvalidRequest: a term breaks a rule, there are several entries, or one is not in the first opcode's trail;
        or its batch cannot be read.
    """
    _check_batch(ops)
    stated = [(number, entry) for number, op in enumerate(ops, 1) for entry in op.reason if entry.source == SOURCE]
    if not stated:
        return ops
    if (number := stated[-1][0]) > 1:
        raise InvalidRequest(
            f"opcode {number} states terms; those of a job stand in the reason trail of its first opcode"
        )
    if len(stated) > 1:
        raise InvalidRequest(f"the job states its terms {len(stated)} times; state them once, in one entry")
    taken = _as_taken(stated[0][1], by, now_ns)
    first = attrs.evolve(ops[0], reason=tuple(taken if entry.source == SOURCE else entry for entry in ops[0].reason))
    return (first, *ops[1:])


def _as_taken(entry: ReasonEntry, by: str, now_ns: int) -> ReasonEntry:
    """The entry as luxid writes it: others look for its words in the text, and JSON has many ways to write one."""
    wanted = check_terms(entry.reason)
    hold = None if wanted.hold is None else Hold(by, now_ns / 1e9, wanted.hold.why)
    # a later instant would tell that the terms were changed after the job came
    return terms_entry(attrs.evolve(wanted, hold=hold), min(entry.at_ns, now_ns))


def _check_batch(ops: ParsedJob) -> None:
    """Raises: InvalidRequest: the entry that names the job's batch cannot be read; others do not count."""
    entry = next((entry for entry in ops[0].reason if entry.source == batch.SOURCE), None) if ops else None
    if entry is not None:
        batch.check_batch(entry.reason)
