"""Reason trails: who requested an opcode, by which program, and why.

A reason may also limit: of the jobs with `rate-limit:3:backup` in a trail at most three run at
once. The number and the label together, as written, name the bucket.

Source: luxid.md 2.1, 2.3, 5.5; opcodes.md 2; DESIGN section 11.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import orjson

from common.access import Role
from common.errors import InvalidRequest
from common.queue.jobs import FINAL, Job, JobOp, JobState, OpEvent, Timestamp, apply_event, may_mention, replace_op
from common.shapes import OwnForm


@attrs.frozen
class ReasonEntry(OwnForm):
    """One step of a trail, oldest first."""

    # by convention gnt:user, gnt:client:<program>, gnt:opcode:<name>, gnt:daemon:luxid:<what>
    source: str
    reason: str
    # nanoseconds since the epoch
    at_ns: int

    def to_wire(self) -> list[str | int]:
        return [self.source, self.reason, self.at_ns]

    @classmethod
    def from_wire(cls, value: object) -> "ReasonEntry":
        """Raises: InvalidRequest: the value is not `[source, reason, nanoseconds]`."""
        match value:
            case [str() as source, str() as reason, int() as at_ns] if not isinstance(at_ns, bool):
                return cls(source, reason, at_ns)
            case _:
                raise InvalidRequest(f"a reason is [source, reason, time in ns]; got {value!r}")


ReasonTrail = tuple[ReasonEntry, ...]
# of the entry with a user's own words
USER_SOURCE: Final = "gnt:user"


def opcode_source(op_id: str) -> str:
    """The source of luxid's entry for an opcode: `gnt:opcode:test_delay`."""
    return f"gnt:opcode:{op_id.removeprefix('OP_').lower()}"


def user_trail(reason: str | None, program: str, command: str, at_ns: int) -> ReasonTrail:
    """The trail of a command line: the user's own words, if any, then the program."""
    own: Sequence[ReasonEntry] = [ReasonEntry(USER_SOURCE, reason, at_ns)] if reason else []
    return (*own, ReasonEntry(f"gnt:client:{program}", command, at_ns))


def user_reason(trail: ReasonTrail) -> str:
    """The user's own words in such a trail; "": there are none."""
    return next((entry.reason for entry in trail if entry.source == USER_SOURCE), "")


def texts_of(trail: object, source: str) -> Iterator[str]:
    """The texts of the entries with this source, in order. Args: trail: as a job file has it; it may be malformed."""
    for entry in trail if isinstance(trail, list | tuple) else ():
        if isinstance(entry, Sequence) and len(entry) > 1 and entry[0] == source and isinstance(entry[1], str):
            yield entry[1]


@attrs.frozen
class RateBucket:
    """The jobs that share a reason `rate-limit:...`; at most `limit` of them run at once."""

    # text after `rate-limit:`, unchanged: `3:backup` and `03:backup` are two buckets
    text: str
    limit: int


def trail_with(op_input: Mapping[str, object], word: str) -> object:
    """The trail of an opcode, or one without entries if it certainly has none with this word, of `a-z`, `:` and `-`.

    Cost: where it has none, that of a search in the opcode's text: for each job of a long queue a few are looked for.
    """
    return op_input.get("reason") if may_mention(op_input, word) else ()


def first_trail(job: Job, source: str) -> object:
    """The trail of the job's first opcode, which states what is said of the job as a whole.

    Args, Cost: as `trail_with`, of an entry's source.
    """
    return trail_with(job.ops[0].input, source) if job.ops else ()


# at most 18 digits: a larger number would limit nothing
RATE_LIMIT: Final = "rate-limit:"
_RATE_LIMIT: Final = re.compile(r"rate-limit:(([0-9]{1,18})(?::.*)?)", re.ASCII | re.DOTALL)


def rate_bucket(reason: str) -> RateBucket | None:
    """The bucket that a reason names: `rate-limit:`, a number greater than 0, then the end or `:label`."""
    match = _RATE_LIMIT.fullmatch(reason)
    return RateBucket(match[1], int(match[2])) if match and int(match[2]) > 0 else None


def rate_buckets(trails: Iterable[object]) -> tuple[RateBucket, ...]:
    """The buckets of a job, each once.

    Args:
        trails: trails from the job file, one for each opcode; a malformed one has no buckets.
    """
    found: dict[RateBucket, None] = {}
    for trail in trails:
        for entry in trail if isinstance(trail, list | tuple) else ():
            # tested by hand: a pattern takes three times as long, and this runs for each job of a long queue
            reason = entry[1] if isinstance(entry, list | tuple) and len(entry) > 1 else None
            if not isinstance(reason, str) or not reason.startswith(RATE_LIMIT):
                continue
            if (bucket := rate_bucket(reason)) is not None:
                found[bucket] = None
    return tuple(found)


# The tries of a command that is run again after failures.
#
# Each try that failed and is followed by another one leaves an entry in its opcode's trail, with the source
# `gantry:try` and a JSON object as its text:
#
#     {"n":1,"start":1790000000.1,"end":1790000004.2,"why":"ended with exit code 75","exit":75,"next":1790000034.2,
#      "output":812,"errors":0}
#
# So the tries are in the job's file, in one write with the opcode's return to the queue. The last try is the opcode
# itself: its result, its times. A try that was lost, with its machine or the process of its job, has `"lost":true`, and
# does not count among those that its submitter allows.
#
# Source: DESIGN section 16; everyday.md sections b, j.


TRY_SOURCE: Final = "gantry:try"
# beginning of the line in the job's log that tells of a failed try
_LINE: Final = re.compile(r"try \d+ of \d+ ", re.ASCII)


@attrs.frozen
class Try:
    """A try that failed; all instants are seconds since the epoch."""

    # from 1
    number: int
    start_at: float
    end_at: float
    # such as `ended with exit code 75`
    why: str
    # exit code of the command; None: it was ended by a signal, or has not begun
    exit_code: int | None
    # the next try does not begin before this instant
    next_at: float
    # bytes of the job's output, and of its standard error if that is kept apart: where the next try's output begins
    output_end: int
    error_end: int = 0
    # whether nobody knows how far it came; such tries are not counted
    is_lost: bool = False


@attrs.frozen
class OutputRange:
    """The output of one try, as part of the job's."""

    # first byte
    begin: int
    # byte after the last one; None: it is the last of the job, as far as is known
    end: int | None


def try_entry(each: Try) -> ReasonEntry:
    """The entry of a try, which the job's process writes."""
    text = {
        "n": each.number,
        "start": each.start_at,
        "end": each.end_at,
        "why": each.why,
        "exit": each.exit_code,
        "next": each.next_at,
        "output": each.output_end,
        "errors": each.error_end,
        **({"lost": True} if each.is_lost else {}),
    }
    return ReasonEntry(TRY_SOURCE, orjson.dumps(text).decode(), int(each.end_at * 1e9))


def tries_of(op: JobOp) -> tuple[Try, ...]:
    """The tries of an opcode but the last one, in order; an entry that cannot be read is left out."""
    return tries_of_trail(trail_with(op.input, TRY_SOURCE))


def tries_of_trail(trail: object) -> tuple[Try, ...]:
    """As `tries_of`, of the trail alone."""
    return tuple(each for text in texts_of(trail, TRY_SOURCE) if (each := _read_try(text)) is not None)


def next_try(job: Job) -> Try | None:
    """The try before the next one of the job's next opcode; None: that opcode has not failed yet."""
    index = job.next_index
    tries = () if index is None else tries_of(job.ops[index])
    return tries[-1] if tries else None


def tries_so_far(job: Job) -> int:
    """Number of failed tries of the job's next opcode."""
    index = job.next_index
    return 0 if index is None else len(tries_of(job.ops[index]))


def is_of_try(message: object) -> bool:
    """Whether a line of a job's log tells of a failed try."""
    return isinstance(message, str) and _LINE.match(message) is not None


def with_failed_try(op: JobOp, failed: Try, now: Timestamp) -> JobOp:
    """The opcode, which was under way, in the queue again. Raises: Conflict: it was not."""
    event = OpEvent.HELD_BACK if op.state is JobState.WAITING else OpEvent.RETRIED
    trail = op.input.get("reason")
    known: Sequence[object] = trail if isinstance(trail, list | tuple) else ()
    reason = [*known, try_entry(failed).to_wire()]
    return attrs.evolve(apply_event(op, event, now), input={**op.input, "reason": reason})


def counted(tries: Sequence[Try]) -> int:
    """Number of the tries that count."""
    return sum(not each.is_lost for each in tries)


def lost_in_a_row(tries: Sequence[Try]) -> int:
    """Number of the tries at the end that were lost."""
    return next((place for place, each in enumerate(reversed(tries)) if not each.is_lost), len(tries))


def tried_index(job: Job) -> int | None:
    """Index of the last begun opcode that has failed tries, whose tries are meant by their bare numbers; or None."""
    return next((index for index in reversed(range(len(job.ops))) if tries_of(job.ops[index])), None)


def output_of_try(job: Job, number: int, *, is_error: bool = False) -> OutputRange | None:
    """Where the output of a try of the job lies; None: the job has had no such try.

    Args:
        number: from 1; the tries are those of `tried_index`, or of a job without failed tries its opcodes together.
        is_error: whether standard error is asked for, which the command keeps apart.
    """
    index = tried_index(job)
    if index is None:
        return OutputRange(0, None) if number == 1 else None
    ends = [each.error_end if is_error else each.output_end for each in tries_of(job.ops[index])]
    if not 1 <= number <= len(ends) + 1:
        return None
    begin = ends[number - 2] if number > 1 else _begin(job, index, is_error=is_error)
    if number <= len(ends):
        return OutputRange(begin, max(ends[number - 1], begin))
    op = job.ops[index]
    is_last = index + 1 == len(job.ops) or op.state is not JobState.SUCCESS
    return OutputRange(begin, None if is_last else begin + _printed(op, is_error=is_error))


def _begin(job: Job, index: int, *, is_error: bool) -> int:
    """Bytes that the opcodes before have printed."""
    begin = 0
    for op in job.ops[:index]:
        if tries := tries_of(op):
            begin = tries[-1].error_end if is_error else tries[-1].output_end
        begin += _printed(op, is_error=is_error)
    return begin


def _printed(op: JobOp, *, is_error: bool) -> int:
    return printed_bytes(op.result, is_error=is_error) if op.state in FINAL else 0


def printed_bytes(result: object, *, is_error: bool) -> int:
    """Bytes that the last try of a command has printed, by the result of its opcode; 0: it does not say."""
    count = result.get("error_bytes" if is_error else "output_bytes") if isinstance(result, Mapping) else 0
    return count if isinstance(count, int) else 0


def has_lost_output(result: object) -> bool:
    """Whether the disk took not all that a command has printed, by the result of its opcode."""
    match result:
        # of a failure: its class, then its arguments
        case {"output_lost": True} | [str(), [str(), {"output_lost": True}]]:
            return True
        case _:
            return False


def _read_try(text: str) -> Try | None:
    try:
        given = orjson.loads(text)
        return Try(
            int(given["n"]),
            float(given["start"]),
            float(given["end"]),
            str(given["why"]),
            None if given["exit"] is None else int(given["exit"]),
            float(given["next"]),
            int(given["output"]),
            int(given.get("errors", 0)),
            bool(given.get("lost")),
        )
    except (ValueError, TypeError, KeyError):
        return None


# The submitter of a job, from its reason trail.
#
# Two entries can tell. `gantry:owner` is luxid's: luxid takes the user from the socket, drops such entries from
# clients, and writes one into the first opcode of each job that is not submitted by the daemons' user or root.
# The entry is durable in the same write as the job, and access rights rest on it. `gantry:login` is the claim of
# our command line: good enough to find one's own jobs, but not to grant rights.
#
# A job that was submitted over HTTP has a third entry, `gantry:http` with the name of the HTTP user, also luxid's. Its
# `gantry:owner` is that user's Unix user, or nobody, and has the role of the submission: the HTTP users' roles are not
# luxid's to look up, and the job may submit jobs itself.


LOGIN_SOURCE: Final = "gantry:login"
OWNER_SOURCE: Final = "gantry:owner"
HTTP_SOURCE: Final = "gantry:http"
_OWNER: Final = re.compile(r"(?:role=([a-z]+);)?uid=(-1|\d{1,10});login=(.*)", re.ASCII | re.DOTALL)
# uid of an owner without a Unix user, and for an entry that cannot be read: no user has it
NO_UID: Final = -1
# sources of entries that only luxid and the processes of jobs write
_LUXIDS: Final = frozenset({OWNER_SOURCE, HTTP_SOURCE, TRY_SOURCE})
_ROLES: Final = {role.word: role for role in Role if role < Role.FULL}


@attrs.frozen
class JobOwner:
    """The user who owns the job."""

    uid: int
    # login name; "": the user has none on this machine
    login: str
    # role of the submission over HTTP; None: it came from this machine, where the role can be looked up
    role: Role | None = None
    # name of the HTTP user
    http_user: str = ""

    @property
    def shown(self) -> str:
        if self.login or self.uid != NO_UID:
            return self.login or str(self.uid)
        return f"http:{self.http_user}"


def submitter_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry with which a client names its user."""
    return ReasonEntry(LOGIN_SOURCE, name, at_ns)


def owner_entries(owner: JobOwner, at_ns: int) -> ReasonTrail:
    """The entries with which luxid names the owner."""
    text = f"uid={owner.uid};login={owner.login}"
    if owner.role is None:
        return (ReasonEntry(OWNER_SOURCE, text, at_ns),)
    entry = ReasonEntry(OWNER_SOURCE, f"role={owner.role.word};{text}", at_ns)
    return (http_entry(owner.http_user, at_ns), entry)


def http_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry with which luxid names an HTTP user."""
    return ReasonEntry(HTTP_SOURCE, name, at_ns)


def without_owner(trail: ReasonTrail) -> ReasonTrail:
    """The trail without entries that clients may not send."""
    if any(entry.source in _LUXIDS for entry in trail):
        return tuple(entry for entry in trail if entry.source not in _LUXIDS)
    return trail


def owner_of(job: Job) -> JobOwner | None:
    """The owner of the job; None: the daemons' user or root."""
    text = next(texts_of(first_trail(job, OWNER_SOURCE), OWNER_SOURCE), None)
    if text is None:
        return None
    match = _OWNER.fullmatch(text)
    if match is None or (match[1] is None and match[2] == str(NO_UID)):
        return JobOwner(NO_UID, "")
    if match[1] is None:
        return JobOwner(int(match[2]), match[3])
    http_user = next(texts_of(first_trail(job, HTTP_SOURCE), HTTP_SOURCE), "")
    return JobOwner(int(match[2]), match[3], _ROLES.get(match[1], Role.NONE), http_user)


def submitter(job: Job) -> str:
    """The name of the user who submitted a job: its owner, else the name from the client; "" if neither is known."""
    owner = owner_of(job)
    return owner.shown if owner is not None else next(texts_of(first_trail(job, LOGIN_SOURCE), LOGIN_SOURCE), "")


# A batch: jobs submitted together, one a node or one for each value, of which only some run at once, and which stop
# after failures.
#
# It travels with its jobs: the trail of the first opcode of each has an entry with the source `gantry:batch`, such as
#
#     id=b5f2c8a10b4d;place=3;jobs=20;at-most=2;failures=0;each=host,day
#
# So it needs no file of its own, and is known again after a restart and on another master.
#
# Source: DESIGN sections 13, "Fleet", and 16.


BATCH_SOURCE: Final = "gantry:batch"
# what tells jobs of a batch apart that name no labels
NODE: Final = "node"
# jobs of a batch; who looks at each of them must come to an end
MOST_JOBS: Final = 100_000
_BATCH_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)
# at most 9 digits: more jobs than any queue has
_TEXT: Final = re.compile(
    r"id=([0-9a-zA-Z_-]{1,64});place=(\d{1,9});jobs=(\d{1,9})(?:;at-most=(\d{1,9}))?(?:;failures=(\d{1,9}))?"
    r"(?:;each=([a-z0-9_,]{1,400}))?",
    re.ASCII,
)


@attrs.frozen
class Batch:
    """The batch of a job, and the job's place in it."""

    batch_id: str
    # number of the job in its submission, from 1
    place: int
    # number of jobs
    size: int
    # number of its jobs that may run at once, at least 1; None: no limit
    at_most: int | None = None
    # number of failures after which its other jobs still begin; None: any
    failures: int | None = None
    # labels of its jobs whose values tell them apart, in the order given; empty: their nodes do
    each: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of its entry."""
        limits = (("at-most", self.at_most), ("failures", self.failures))
        # a limit of at least the number of jobs is no limit; the reader takes few digits
        told = [f";{name}={min(count, MOST_JOBS)}" for name, count in limits if count is not None]
        each = f";each={','.join(self.each)}" if self.each else ""
        return f"id={self.batch_id};place={self.place};jobs={self.size}{''.join(told)}{each}"


def new_batch_id(random: bytes) -> str:
    """A name that no batch has; a letter first: no id of a job looks like this. Args: random: 6 bytes."""
    return "b" + random.hex()[1:]


def batch_entry(batch: Batch, at_ns: int) -> ReasonEntry:
    """The entry with which a client names the batch of a job."""
    return ReasonEntry(BATCH_SOURCE, batch.text, at_ns)


def check_batch(text: str) -> None:
    """Raises: InvalidRequest: the text of an entry names no batch."""
    if _read(text) is None:
        raise InvalidRequest(
            f"the job's batch '{text:.100}' cannot be read; write it as id=NAME;place=3;jobs=20, with at most "
            f"{MOST_JOBS} jobs, then if wanted ;at-most=N ;failures=N ;each=KEY,KEY"
        )


def checked_batch(batch: Batch) -> Batch:
    """The batch, if a job may name it. Raises: InvalidRequest: a part of it breaks a rule; says which, and the rule."""
    if _BATCH_ID.fullmatch(batch.batch_id) is None:
        raise InvalidRequest(
            f"no batch can be named {batch.batch_id!r:.80}; a name has 1 to 64 letters, digits, '_' and '-'"
        )
    if batch.size > MOST_JOBS:
        raise InvalidRequest(f"a batch has at most {MOST_JOBS} jobs, got {batch.size}")
    if batch.at_most is not None and batch.at_most < 1:
        raise InvalidRequest(f"at_most of a batch must be at least 1, got {batch.at_most}; leave it out for any number")
    if batch.failures is not None and batch.failures < 0:
        raise InvalidRequest(
            f"failures of a batch must be at least 0, got {batch.failures}; leave it out for any number"
        )
    if _read(batch.text) is None:
        raise InvalidRequest(
            f"each of a batch must be keys of labels of a-z, 0-9 and '_', together at most 400 characters, got "
            f"{','.join(batch.each)!r:.80}"
        )
    return batch


def batch_of_trail(trail: object) -> Batch | None:
    """The batch that a trail of a job file names; None: it has no such entry, or one that cannot be read."""
    return _read(next(texts_of(trail, BATCH_SOURCE), ""))


def batch_of(job: Job) -> Batch | None:
    """The batch of a job; None: it belongs to none."""
    return batch_of_trail(first_trail(job, BATCH_SOURCE))


def with_at_most(job: Job, at_most: int | None) -> Job:
    """The job with another limit of its batch; the very same one if it had this one. Args: at_most: None: no limit.

    Raises: InvalidRequest: it belongs to no batch.
    """
    batch = batch_of(job)
    if batch is None:
        raise InvalidRequest(f"job {job.job_id} belongs to no batch, of which some might run at once")
    if batch.at_most == at_most:
        return job
    first = job.ops[0]
    text = attrs.evolve(batch, at_most=at_most).text
    trail = [
        [BATCH_SOURCE, text, *entry[2:]]
        if isinstance(entry, Sequence) and entry and entry[0] == BATCH_SOURCE
        else entry
        for entry in first.input["reason"]
    ]
    return replace_op(job, 0, attrs.evolve(first, input={**first.input, "reason": trail}))


def _read(text: str) -> Batch | None:
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    place, size, at_most, failures = (None if number is None else int(number) for number in match.groups()[1:5])
    if not 1 <= (place or 0) <= (size or 0) <= MOST_JOBS:
        return None
    each = () if match[6] is None else tuple(match[6].split(","))
    # a limit of none would keep all its jobs for ever
    return Batch(match[1], place or 0, size or 0, at_most or None, failures, each)
