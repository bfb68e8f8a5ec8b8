"""Jobs, their opcodes, and every transition between states.

Theory. A job is an ordered list of opcodes; each opcode has a state, and the job's own state
follows from them (`job_state`). An opcode goes one way:

    queued -> waiting (for locks) -> running -> success | error | canceled

with three exceptions. An opcode is `canceling` from the request to kill it until none of its processes lives. A waiting
opcode that a rule pauses is queued again, and so is a running one whose command is to be tried again.

`EVENTS` below is the whole machine; no other code assigns a state. A job between two opcodes
is `queued` again: luxid continues it if it has no process.

A `Job` is a value: each change makes a new one. DESIGN section 3, invariant 2 says which process
may write it to disk.

Source: job-queue design; luxid.md sections 3.1 and 4.
"""

import enum
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs
import orjson

from common.errors import Conflict, ExecutionError, InvalidRequest
from common.ids import JobId
from common.shapes import OwnForm, Row

# [seconds, microseconds] since the epoch, as on disk
Timestamp = tuple[int, int]

PRIORITY_HIGHEST: Final = -20
PRIORITY_LOWEST: Final = 19
# priorities that a submission may request
SUBMIT_PRIORITIES: Final = {"low": 10, "normal": 0, "high": -10}


class JobState(enum.Enum):
    """State of a job and of each of its opcodes; the value is its name on the wire."""

    QUEUED = "queued"
    WAITING = "waiting"
    CANCELING = "canceling"
    RUNNING = "running"
    CANCELED = "canceled"
    SUCCESS = "success"
    ERROR = "error"

    # members are singletons; the hash of Enum is slow, and states are looked up for each opcode
    __hash__ = object.__hash__

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL: Final = frozenset({JobState.CANCELED, JobState.SUCCESS, JobState.ERROR})
# names of the final states on the wire
FINAL_NAMES: Final = tuple(state.value for state in JobState if state in FINAL)


class OpEvent(enum.Enum):
    """Something that happens to an opcode."""

    PICKED = "picked"  # its process is about to request its locks
    LOCKED = "locked"  # all locks are held, execution begins
    HELD_BACK = "held back"  # a rule paused it before it began
    RETRIED = "to be tried again"  # its command failed, and nothing of it runs
    CANCEL_ASKED = "asked to cancel"  # it is being killed
    CANCELED = "canceled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # it failed itself, or an earlier opcode or the process did


_S, _E = JobState, OpEvent
EVENTS: Final[Mapping[JobState, Mapping[OpEvent, JobState]]] = {
    _S.QUEUED: {
        _E.PICKED: _S.WAITING,
        _E.LOCKED: _S.RUNNING,  # the locks were free
        _E.CANCELED: _S.CANCELED,
        _E.FAILED: _S.ERROR,
    },
    _S.WAITING: {
        _E.LOCKED: _S.RUNNING,
        _E.HELD_BACK: _S.QUEUED,
        _E.CANCEL_ASKED: _S.CANCELING,
        _E.CANCELED: _S.CANCELED,
        _E.FAILED: _S.ERROR,
    },
    _S.CANCELING: {_E.CANCELED: _S.CANCELED, _E.FAILED: _S.ERROR},
    _S.RUNNING: {
        _E.RETRIED: _S.QUEUED,
        _E.CANCEL_ASKED: _S.CANCELING,  # until none of its processes lives
        _E.CANCELED: _S.CANCELED,
        _E.SUCCEEDED: _S.SUCCESS,
        _E.FAILED: _S.ERROR,
    },
    _S.CANCELED: {},  # final
    _S.SUCCESS: {},
    _S.ERROR: {},
}


@attrs.frozen
class LogEntry(Row):
    """One message of a job; `serial` counts from 1 over all opcodes of the job."""

    serial: int
    at: Timestamp
    # "message" for text; other kinds carry JSON
    kind: str
    message: object


@attrs.frozen
class JobOp:
    """One opcode of a job, and its outcome."""

    # opcode as in the file: OP_ID and parameters; an unknown one is kept verbatim
    input: Mapping[str, Any]
    state: JobState = JobState.QUEUED
    result: Any = None
    log: tuple[LogEntry, ...] = ()
    priority: int = 0
    # start of the wait for locks, start of the execution, end
    start_at: Timestamp | None = None
    exec_at: Timestamp | None = None
    end_at: Timestamp | None = None
    # unknown keys of the file, written back unchanged
    extra: Mapping[str, object] = attrs.field(factory=dict, eq=False)

    @property
    def op_id(self) -> str:
        """`OP_...`, or `OP_INVALID` if the file's input has none."""
        op_id = self.input.get("OP_ID")
        return op_id if isinstance(op_id, str) else "OP_INVALID"


@attrs.frozen(weakref_slot=False)
class Job:
    """An ordered list of opcodes with one id, one file, one process."""

    job_id: JobId
    ops: tuple[JobOp, ...]
    received_at: Timestamp | None = None
    start_at: Timestamp | None = None
    end_at: Timestamp | None = None
    # livelock and pid of the process; None before the first one is started
    livelock: str | None = None
    process_id: int | None = None
    extra: Mapping[str, object] = attrs.field(factory=dict, eq=False)

    @property
    def state(self) -> JobState:
        ops = self.ops
        # shortcut for jobs with one opcode, which is most of them
        return ops[0].state if len(ops) == 1 else job_state([op.state for op in ops])

    @property
    def is_final(self) -> bool:
        return self.state.is_final

    @property
    def priority(self) -> int:
        """The most urgent (smallest) priority of the unfinished opcodes; 0 without any."""
        left = [op.priority for op in self.ops if op.state not in FINAL]
        return min(left) if left else 0

    @property
    def next_index(self) -> int | None:
        """Index of the first unfinished opcode; None if all have ended."""
        for index, op in enumerate(self.ops):
            if op.state not in FINAL:
                return index
        return None

    @property
    def next_log_serial(self) -> int:
        # within an opcode serials only grow
        return 1 + max((op.log[-1].serial for op in self.ops if op.log), default=0)


def job_state(states: Sequence[JobState]) -> JobState:
    """Return the state of a job whose opcodes have these states, in order.

    The first failed or canceled opcode decides; else the last one under way; else the job is
    success if all opcodes are, and queued if an opcode is left.
    Source: luxid.md 4.2.
    """
    # a job may have tens of thousands of opcodes, and this runs at each step of it
    there = set(states)
    if not _DECISIVE.isdisjoint(there):
        return next(state for state in states if state in _DECISIVE)
    if there == _SUCCEEDED or not there:
        return JobState.SUCCESS
    if not _UNDER_WAY.isdisjoint(there):
        return next(state for state in reversed(states) if state in _UNDER_WAY)
    return JobState.QUEUED


_DECISIVE: Final = frozenset({JobState.ERROR, JobState.CANCELING, JobState.CANCELED})
_UNDER_WAY: Final = frozenset({JobState.WAITING, JobState.RUNNING})
_SUCCEEDED: Final = {JobState.SUCCESS}


def apply_event(op: JobOp, event: OpEvent, now: Timestamp, result: object = None) -> JobOp:
    """Return the opcode after `event`, with the event's time stamps.

    Raises: Conflict: the opcode's state does not allow the event.
    """
    target = EVENTS[op.state].get(event)
    if target is None:
        raise Conflict(f"an opcode that is {op.state.value} cannot be {event.value}")
    start_at, exec_at = op.start_at, op.exec_at
    if event in (OpEvent.PICKED, OpEvent.LOCKED):
        start_at = start_at or now
    if event is OpEvent.LOCKED:
        exec_at = now
    if target is JobState.QUEUED:
        start_at = exec_at = None
    end_at, result = (now, result) if target in FINAL else (op.end_at, op.result)
    return attrs.evolve(op, state=target, start_at=start_at, exec_at=exec_at, end_at=end_at, result=result)


def replace_op(job: Job, index: int, op: JobOp) -> Job:
    """Return the job with another opcode at `index`; the job's start time follows."""
    ops = (*job.ops[:index], op, *job.ops[index + 1 :])
    return attrs.evolve(job, ops=ops, start_at=job.start_at or op.start_at)


def end_job(job: Job, event: OpEvent, now: Timestamp, results: Sequence[object]) -> Job:
    """End every unfinished opcode by `event` (CANCELED or FAILED).

    Args:
        results: result of the first opcode ended here, and of each one after it; the last one repeats.
    """
    ops = list(job.ops)
    left = [index for index, op in enumerate(ops) if op.state not in FINAL]
    for place, index in enumerate(left):
        ops[index] = apply_event(ops[index], event, now, results[min(place, len(results) - 1)])
    return attrs.evolve(job, ops=tuple(ops), end_at=now)


def set_priority(job: Job, priority: int) -> Job:
    """Give every unfinished opcode this priority; `input` keeps the submitted one."""
    ops = tuple(op if op.state in FINAL else attrs.evolve(op, priority=priority) for op in job.ops)
    return attrs.evolve(job, ops=ops)


def to_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch as `[seconds, microseconds]`."""
    whole = int(seconds)
    return (whole, int((seconds - whole) * 1_000_000))


def to_seconds(at: Timestamp) -> float:
    """`[seconds, microseconds]` as seconds since the epoch."""
    return at[0] + at[1] / 1e6


# An opcode's input, kept as JSON text and read like an object.
#
# Theory. Jobs of a long queue are kept in memory, and the input of most of them is not read before their turn comes.
# As objects, a tree of dicts, lists and numbers, it takes four times the memory of its text. So it is kept as text and
# parsed at each access; the last few objects are cached, as several parts read one job in turn.
#
# Source: DESIGN section 6.


_AT_HAND: Final = 16


@attrs.frozen(eq=False, weakref_slot=False)
class PackedInput(Mapping[str, object]):
    """The input of an opcode; equal to an object with the same content. An access parses the JSON unless cached."""

    # compact JSON; one object
    text: bytes

    def __getitem__(self, key: str) -> object:
        return _read(self.text)[key]

    def get(self, key: str, default: object = None) -> object:
        return _read(self.text).get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(_read(self.text))

    def __len__(self) -> int:
        return len(_read(self.text))

    def items(self) -> ItemsView[str, object]:
        return _read(self.text).items()

    def keys(self) -> KeysView[str]:
        return _read(self.text).keys()


def pack(op_input: Mapping[str, object]) -> Mapping[str, object]:
    """Return the same input, packed; unchanged if it is nested too deeply to be encoded."""
    try:
        # copied: the bytes from orjson keep four unused kilobytes, and these texts stay in memory
        return PackedInput(bytes(memoryview(orjson.dumps(op_input))))
    except orjson.JSONEncodeError:
        return op_input


def may_mention(op_input: Mapping[str, object], word: str) -> bool:
    """Whether an opcode's input may have a text with this word; false: it has none, and need not be parsed.

    Args: word: of characters that JSON does not escape.
    """
    return not isinstance(op_input, PackedInput) or word.encode() in op_input.text


@lru_cache(maxsize=_AT_HAND)
def _read(text: bytes) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(text)
    return found


# The `depends` attribute of an opcode: parsing, relative ids, and the verdict for a state.
#
# A dependency names a job and the final states it may have ended in. A negative id is relative:
# -1 is the job before this one in the same submission; it must point backwards and stay within
# the submission. An empty list of states means success or error.
#
# Source: chained-jobs design; luxid.md 5.4; DESIGN section 11.


# maximum length of an id in digits, with the sign
_LONGEST_ID = 20


@attrs.frozen
class Dependency(OwnForm):
    # absolute if >= 0; relative to the job's own place in the submission if negative
    job_id: int
    # final states; empty: success or error
    wanted: tuple[JobState, ...] = ()

    def to_wire(self) -> list[object]:
        return [self.job_id, [state.value for state in self.wanted]]

    @classmethod
    def from_wire(cls, value: object) -> "Dependency":
        """Raises: InvalidRequest: the value is not `[job id, [final states]]`."""
        match value:
            case [int() as job_id, list() as names] if not isinstance(job_id, bool):
                return cls(job_id, tuple(_final_state(name) for name in names))
            case [str() as text, list() as names] if _is_number(text):
                return cls(int(text), tuple(_final_state(name) for name in names))
            case _:
                raise InvalidRequest(f'a dependency is [job id, [states]], e.g. [-1, ["success"]]; got {value!r}')


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _LONGEST_ID


def _final_state(name: object) -> JobState:
    for state in FINAL:
        if state.value == name:
            return state
    raise InvalidRequest(f"a dependency may wait for canceled, success or error; got {name!r}")


def resolve(dependency: Dependency, place: int, ids: Sequence[JobId]) -> Dependency:
    """Make a relative dependency of the job at `place` of a submission absolute.

    Args:
        ids: ids of the submission's jobs, at least of those before `place`, as a relative id counts back.
    Raises: InvalidRequest: the dependency points outside the submission.
    """
    if dependency.job_id >= 0:
        return dependency
    target = place + dependency.job_id
    if target < 0:
        raise InvalidRequest(
            f"dependency {dependency.job_id} of job {place + 1} points before the submission; "
            f"a relative id counts back among the jobs submitted together"
        )
    return attrs.evolve(dependency, job_id=ids[target])


class DependencyVerdict(enum.Enum):
    """What the state of the named job means for the opcode that depends on it."""

    WAIT = "wait"
    MET = "met"
    CANCEL = "cancel"  # the named job was canceled, which was not a wanted state
    FAIL = "fail"  # it ended in a state that was not wanted


def judge(dependency: Dependency, state: JobState) -> DependencyVerdict:
    """Judge a dependency by the state of the named job."""
    if not state.is_final:
        return DependencyVerdict.WAIT
    if state in dependency.wanted:
        return DependencyVerdict.MET
    if state is JobState.CANCELED:
        return DependencyVerdict.CANCEL
    return DependencyVerdict.FAIL if dependency.wanted else DependencyVerdict.MET


# Results of opcodes that were ended from outside, as luxid and the job process write them.
#
# Source: luxid.md 4.4, 5.8.


CANCELED_TEXT: Final = "job was canceled on request"
KILLED_TEXT: Final = "job was killed on request"
# result of the opcodes after a failed one
PRECEDING_FAILED: Final = [ExecutionError.wire_name, ["preceding opcode failed"]]


# What everybody may see of an opcode in a job, whoever submitted it.
#
# Source: DESIGN section 4, "Who is calling"; `daemons.luxid.core.rights`.


# keys of an opcode's input that everybody sees whole; besides, the program's name in `argv`
PUBLIC_KEYS: Final = (
    *("OP_ID", "dry_run", "debug_level", "priority", "depends", "comment", "reason"),
    *("locks", "user", "shell", "timeout", "node"),
)
ARGV: Final = "argv"
