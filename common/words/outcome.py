"""The outcome of a job, in words.

Source: luxid.md 4.4; cli.md 1.2.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest, JobLost
from common.queue.jobs import FINAL_NAMES, Dependency, JobState
from common.queue.terms import terms_of_trail
from common.words.fields import JobRow
from common.words.times import clock, duration, to_seconds

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


def outcome_of(row: JobRow) -> Outcome:
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


# Users as people name them, where luxid tells their numbers: `on request of user 1000`.


# uid -> login; None: the uid has no login
UserName = Callable[[int], str | None]

# not any number after "user": the text may hold the words of a command, too
_ASKER: Final = re.compile(r"(?<=\bon request of )user (\d{1,10})\b", re.ASCII)
_REFUSED: Final = re.compile(r"(?<!HTTP )\buser (\d{1,10})\b", re.ASCII)


def asker_named(text: str, user_name: UserName) -> str:
    """`job was killed on request of user jane`: the end of a job, with the name of the user who asked for it."""
    return _ASKER.sub(lambda match: _named(match, user_name), text)


def refused_named(text: str, user_name: UserName) -> str:
    """`... needs the role 'admin', and user jane has none`: the text of a refusal, with the names of users."""
    return _REFUSED.sub(lambda match: _named(match, user_name), text)


def _named(match: "re.Match[str]", user_name: UserName) -> str:
    name = user_name(int(match[1]))
    return match[0] if name is None else f"user {name}"


# The end of a job in words: one line that says why.
#
# Source: DESIGN section 6, "Explain"; `common.errors.CommandFailed`.


# prefix of the sources with which luxid reports its own acts in a reason trail
_LUXID: Final = "gnt:daemon:luxid:"


def end_words(job: Outcome, user_name: UserName) -> str | None:
    """`failed at opcode 2 of 3, TEST_DUMMY: no such node`; None: the job has not ended, or succeeded.

    Args: user_name: uid -> login; None: the uid has no login.
    """
    match job.status:
        case "canceled":
            return _canceled(job, user_name)
        case "error":
            return _failed(job)
        case _:
            return None


def _canceled(job: Outcome, user_name: UserName) -> str:
    place = next((at for at, status in enumerate(job.statuses) if status == "canceled"), None)
    if place is None:
        return "canceled, it is not known why"
    result = job.results[place]
    if (told := _told_by_luxid(job.ops[place])) is not None and not job.has_begun(place):
        words = told
    elif result is not None:
        words = result_text(result)
    else:
        words = f"canceled; why is {WITHHELD}" if job.has_begun(place) else "canceled, it is not known by whom"
    return f"{asker_named(words, user_name)}{_where(job, place)}"


def _failed(job: Outcome) -> str:
    place = next((at for at, status in enumerate(job.statuses) if status == "error"), None)
    if place is None:
        return "failed, it is not known why"
    result = job.results[place]
    text = result_text(result)
    if not job.has_begun(place):
        return f"never ran: {text}" if place == 0 else f"stopped before opcode {place + 1} of {len(job.ops)}: {text}"
    return f"failed{_how(result)}{_where(job, place)}, {job.summaries[place]}: {text}"


def _how(result: object) -> str:
    match result:
        case [_, [_, {"killed_for": "memory"}]]:
            return " (killed for memory)"
        case [_, [_, {"timed_out": True}]]:
            return " (its time was over)"
        case _:
            return ""


def _where(job: Outcome, place: int) -> str:
    return f" at opcode {place + 1} of {len(job.ops)}" if len(job.ops) > 1 else ""


def _told_by_luxid(op: Mapping[str, object]) -> str | None:
    """luxid's last remark in the opcode's reason trail."""
    trail = op.get("reason")
    entries = trail if isinstance(trail, list) else []
    return next((str(entry[1]) for entry in reversed(entries) if str(entry[0]).startswith(_LUXID)), None)


# The life of an ended job, in words: its times, its tries, and the resources that it used.


def life_lines(row: JobRow) -> Iterator[str]:
    """A line for the times, for each failed try but the last one, and for the resources.

    Args: row: with `uses`, `tries`, and the instants.
    """
    yield from _times(row)
    for tries in row["tries"] or ():
        for each in tries:
            took = _took(each.get("start"), each.get("end"))
            yield f"try {each.get('n')}{took} {each.get('why')}"
    if uses := row["uses"]:
        yield f"used {', '.join(f'{count} of {key!r}' for key, count in uses.items())}"


def _times(row: JobRow) -> Iterator[str]:
    received, begin, start, end = (
        to_seconds(stamp) for stamp in (row["received_ts"], row["begin_ts"], row["start_ts"], row["end_ts"])
    )
    parts = [] if received is None else [f"submitted at {clock(received)}"]
    if begin is not None:
        parts.append(f"not to begin before {clock(begin)}")
    if start is None:
        parts.append("never begun")
    else:
        parts.append(f"begun at {clock(start)}")
        parts += [] if end is None else [f"ran {duration(end - start)}"]
    yield ", ".join(parts)


def _took(start: object, end: object) -> str:
    return f" took {duration(end - start)}:" if isinstance(start, int | float) and isinstance(end, int | float) else ":"


# Jobs of a plan that never ran because it did not come to what they were for: `after: {test: failure}`.
#
# Theory. Such a job ends as an error, as Ganeti's rule for dependencies is, but nothing failed: the job before it
# succeeded. So it does not count where one exit code tells how several jobs went. A job that failed always counts, also
# if another one was for its failure and succeeded: whoever reads the exit code must not take a failed test, of which an
# alarm was told, for a test that passed.
#
# Source: chained-jobs design; DESIGN section 6.


_ENDED_SO: Final[Mapping[str, JobState]] = {"success": JobState.SUCCESS, "error": JobState.ERROR}


def not_needed(outcomes: Sequence[Outcome]) -> frozenset[int]:
    """The ids of those that never ran because a job of them succeeded, or was not needed itself.

    Only jobs among `outcomes` are looked at.
    """
    by_id = {outcome.job_id: outcome for outcome in outcomes}
    found: set[int] = set()
    # a job depends on earlier ones only
    for job_id in sorted(by_id):
        outcome = by_id[job_id]
        if _never_ran(outcome) and any(_came_otherwise(each, by_id, found) for each in _depends(outcome)):
            found.add(job_id)
    return frozenset(found)


def _never_ran(outcome: Outcome) -> bool:
    return outcome.status == "error" and not any(map(outcome.has_begun, range(len(outcome.statuses))))


def _came_otherwise(each: Dependency, by_id: Mapping[int, Outcome], found: set[int]) -> bool:
    """Whether the job before did not end as wanted, and nothing failed."""
    before = by_id.get(each.job_id)
    if before is None or not each.wanted:
        return False
    is_well = before.is_success or before.job_id in found
    return is_well and _ENDED_SO.get(before.status) not in each.wanted


def _depends(outcome: Outcome) -> Iterator[Dependency]:
    depends = outcome.ops[0].get("depends") if outcome.ops else None
    for each in depends if isinstance(depends, list | tuple) else ():
        try:
            yield Dependency.from_wire(list(each) if isinstance(each, tuple) else each)
        except InvalidRequest:
            # a later version's form; then the job counts
            continue


# A batch as a whole, in words: its state and its counts.
#
# Source: everyday.md sections d, j.


ACTIVE: Final = "active"
# which end of a job makes the end of its batch, the worst first
_ENDS: Final = ("error", "canceled", "success")
# state of a job -> word for its count, in the order told
_WORDS: Final = {
    "success": "ok",
    "error": "failed",
    "canceled": "canceled",
    "running": "running",
    "canceling": "ending",
    "waiting": "waiting",
    "queued": "queued",
}


def batch_state(counts: Mapping[str, int]) -> str:
    """`active` if a job has not ended; else the worst end of its jobs: `error`, `canceled` or `success`."""
    if any(count and status not in FINAL_NAMES for status, count in counts.items()):
        return ACTIVE
    return next((status for status in _ENDS if counts.get(status)), ACTIVE)


def counts_text(counts: Mapping[str, int]) -> str:
    """`97 ok, 2 failed, 1 running`."""
    return ", ".join(f"{counts[status]} {word}" for status, word in _WORDS.items() if counts.get(status))
