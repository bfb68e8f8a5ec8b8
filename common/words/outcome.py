"""The outcome of a job, in words.

Source: luxid.md 4.4; cli.md 1.2.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import JobLost
from common.queue.terms import terms_of_trail
from common.words.fields import Row
from common.words.times import duration, to_seconds

# replacement for a text that luxid tells only the submitter and operators
WITHHELD: Final = "told only to its submitter and to operators"

# luxid's fields needed for an outcome
FIELDS: Final = ("id", "status", "summary", "ops", "opstatus", "opresult", "opexec", "start_ts", "end_ts")


@attrs.frozen
class Outcome:
    """A job that has ended, or that goes on after the wait for it ended."""

    job_id: int
    status: str
    # one text for each opcode
    summaries: tuple[str, ...]
    statuses: tuple[str, ...]
    results: tuple[object, ...]
    # opcodes as submitted
    ops: tuple[Mapping[str, object], ...]
    # start of each opcode's execution, as on the wire; None: it was not executed
    exec_stamps: tuple[object, ...]
    # seconds from start to end; None if it never started
    runtime_s: float | None

    @property
    def is_success(self) -> bool:
        return self.status == "success"

    @property
    def name(self) -> str:
        """The job's name; "": its submitter gave it none."""
        return terms_of_trail(self.ops[0].get("reason")).name if self.ops else ""

    @property
    def mention(self) -> str:
        """`job 12`, or `job 12 (backup-web1)`: the job, within a sentence."""
        return f"job {self.job_id} ({self.name})" if self.name else f"job {self.job_id}"

    @property
    def title(self) -> str:
        """What people call the job: its name, or the summaries of its opcodes."""
        return self.name or ", ".join(self.summaries)

    def has_begun(self, place: int) -> bool:
        """Whether this opcode was executed."""
        return self.exec_stamps[place] is not None

    def op_id(self, place: int) -> str:
        return str(self.ops[place].get("OP_ID"))


def no_such_job(job_id: int) -> str:
    return f"there is no job {job_id}; 'gnt-job list' shows those that are not archived"


def outcome_of(row: Row) -> Outcome:
    """Build the outcome of a job.

    Args: row: with `FIELDS`.
    Raises: JobLost: the job does not exist.
    """
    if row["status"] is None:
        raise JobLost(no_such_job(row["id"]))
    start, end = to_seconds(row["start_ts"]), to_seconds(row["end_ts"])
    runtime = end - start if start is not None and end is not None else None
    return Outcome(
        row["id"],
        row["status"],
        summaries=tuple(row["summary"] or ()),
        statuses=tuple(row["opstatus"] or ()),
        results=tuple(row["opresult"] or ()),
        ops=tuple(row["ops"] or ()),
        exec_stamps=tuple(row["opexec"] or ()),
        runtime_s=runtime,
    )


def explain_failure(outcome: Outcome) -> str:
    """Why a job did not succeed: `job 12 failed: TEST_DUMMY: no such node`, `job 12 (build) failed: no such node`."""
    if outcome.status == "canceled":
        return f"{outcome.mention} was canceled"
    if outcome.status != "error":
        return f"{outcome.mention} is {outcome.status}"
    place = next((at for at, status in enumerate(outcome.statuses) if status == "error"), None)
    if place is None:
        return f"{outcome.mention} failed"
    is_one = len(outcome.statuses) == 1
    which = "" if is_one else f" at opcode {place + 1} of {len(outcome.statuses)}"
    # a name says what the only opcode does
    doing = "" if is_one and outcome.name else f"{outcome.summaries[place]}: "
    return f"{outcome.mention} failed{which}: {doing}{result_text(outcome.results[place])}"


def explain_not_needed(outcome: Outcome) -> str:
    """Why a job did not run though nothing failed: `job 4 (alarm) was not needed: dependency job 2 ended with ...`."""
    return f"{outcome.mention} was not needed: {result_text(outcome.results[0])}"


def result_text(result: object) -> str:
    """The text of a failed opcode's result, which is `[class, [message, ...]]`, or a text."""
    match result:
        case [str(name), [str(message), *_]]:
            return message or name
        case [str(name), list()]:
            return name
        case None:
            return f"what it said is {WITHHELD}"
        case _:
            return str(result)


def describe(outcome: Outcome) -> str:
    """`job 12: success in 3.2s`, `job 12 (build): success in 3.2s`."""
    took = "" if outcome.runtime_s is None else f" in {duration(outcome.runtime_s)}"
    return f"{outcome.mention}: {outcome.status}{took}"
