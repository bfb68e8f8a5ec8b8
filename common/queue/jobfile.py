"""A job as the bytes of its file, and back.

The file has exactly the keys of luxid.md 3.1, because Ganeti refuses others. Reading is more
tolerant than writing: unknown keys are kept and written back, null means missing,
and an `input` of an unknown opcode is kept verbatim.
"""

import contextlib
import gc
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from common.errors import DamagedFile
from common.queue.jobs import Job, JobOp, JobState, LogEntry, PackedInput, Timestamp, pack
from common.wire import read_job_id

_OP_KEYS: Final = frozenset(
    {"input", "status", "result", "log", "priority", "start_timestamp", "exec_timestamp", "end_timestamp"}
)
_JOB_KEYS: Final = frozenset(
    {"id", "ops", "received_timestamp", "start_timestamp", "end_timestamp", "livelock", "process_id"}
)
_STATES: Final = {state.value: state for state in JobState}


def encode_job(job: Job) -> bytes:
    """The whole file, compact, without a final newline."""
    rest: dict[str, object] = {
        "received_timestamp": job.received_at,
        "start_timestamp": job.start_at,
        "end_timestamp": job.end_at,
    }
    if job.livelock is not None:
        rest["livelock"] = job.livelock
    if job.process_id is not None:
        rest["process_id"] = job.process_id
    rest |= job.extra
    if job.process_id is None or len(job.ops) < _MANY:
        return orjson.dumps({"id": job.job_id, "ops": [_op_to_json(op) for op in job.ops], **rest})
    first, *texts, last = _remembered.texts(job.ops)
    # joined once: each copy of some megabytes costs as much as all else
    return b",".join([b'{"id":%d,"ops":[%b' % (job.job_id, first), *texts, b"%b],%b" % (last, orjson.dumps(rest)[1:])])


# a job with so many opcodes, or a file of so many bytes, is a large one
_MANY: Final = 100
_LARGE: Final = 64 * 2**10
# opcodes with a common text: so many are encoded for a change of one, and as many fewer texts are joined
_STRETCH: Final = 50


class _RememberedTexts:
    """The opcodes of the large job that was last encoded, and their texts, one for each stretch of opcodes.

    Theory. A job's process writes its file whole at each step, and a step changes one opcode. To encode the others
    again would be most of the work of a job of thousands of opcodes. Opcodes are values that never change, so an opcode
    that is the same object has the same text.
    """

    def __init__(self) -> None:
        # set together, as several threads may encode
        self._last: tuple[Sequence[JobOp], Sequence[bytes]] = ((), ())

    def texts(self, ops: Sequence[JobOp]) -> Sequence[bytes]:
        """The opcodes as JSON. Cost: that of encoding the stretches that have others than the job last encoded."""
        known, known_texts = self._last
        if len(known) == len(ops):
            texts, same = list(known_texts), map(operator.is_, ops, known)
            fresh = {index - index % _STRETCH for index, is_same in enumerate(same) if not is_same}
        else:
            texts, fresh = [b""] * -(-len(ops) // _STRETCH), set(range(0, len(ops), _STRETCH))
        for start in fresh:
            encoded = orjson.dumps([_op_to_json(op) for op in ops[start : start + _STRETCH]])
            texts[start // _STRETCH] = encoded[1:-1]
        self._last = ops, texts
        return texts


_remembered: Final = _RememberedTexts()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking again and again at the objects of a large file while they are made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def decode_job(content: bytes, name: str, *, packed: bool = False) -> Job:
    """Read a job file.

    Args:
        name: name of the file for errors.
        packed: keep the opcodes' inputs as text: for jobs that are many, and that stay.
    Raises: DamagedFile: the content is not JSON, cut off, or not a job; the message says which file, where and why.
    """
    if len(content) < _LARGE:
        return _decode(content, name, packed=packed)
    with _uncollected():
        return _decode(content, name, packed=packed)


def _decode(content: bytes, name: str, *, packed: bool) -> Job:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DamagedFile(f"{name} is not JSON: {error.msg} at byte {error.pos} of {len(content)}", file=name) from None
    try:
        return _job_from_json(value, packed=packed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"key {error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedFile(f"{name} is not a job: {reason}", file=name) from error


def log_to_json(entry: LogEntry) -> list[object]:
    return [entry.serial, entry.at, entry.kind, entry.message]


def _op_to_json(op: JobOp) -> dict[str, object]:
    fields = {
        "input": orjson.Fragment(op.input.text) if isinstance(op.input, PackedInput) else op.input,
        "status": op.state.value,
        "result": op.result,
        "log": [log_to_json(entry) for entry in op.log],
        "priority": op.priority,
        "start_timestamp": op.start_at,
        "exec_timestamp": op.exec_at,
        "end_timestamp": op.end_at,
    }
    return {**fields, **op.extra} if op.extra else fields


def _job_from_json(value: Mapping[str, object], *, packed: bool) -> Job:
    livelock, process_id = value.get("livelock"), value.get("process_id")
    if not (livelock is None or isinstance(livelock, str)) or not (process_id is None or isinstance(process_id, int)):
        raise TypeError("livelock must be a path and process_id a number")
    # positional, in the order of the fields: keywords would take a tenth more time
    return Job(
        read_job_id(value["id"]),
        tuple([_op_from_json(op, packed=packed) for op in _list(value["ops"])]),
        _timestamp(value.get("received_timestamp")),
        _timestamp(value.get("start_timestamp")),
        _timestamp(value.get("end_timestamp")),
        livelock,
        process_id,
        _unknown(value, _JOB_KEYS),
    )


def _op_from_json(value: Mapping[str, object], *, packed: bool) -> JobOp:
    op_input = value["input"]
    priority = value.get("priority", 0)
    if not isinstance(op_input, dict) or not isinstance(priority, int):
        raise TypeError("an opcode's input must be an object and its priority a number")
    return JobOp(
        pack(op_input) if packed else _with_shared_names(op_input),
        _state(value["status"]),
        value.get("result"),
        tuple([_log_entry(entry) for entry in _list(log)]) if (log := value.get("log")) else (),
        priority,
        _timestamp(value.get("start_timestamp")),
        _timestamp(value.get("exec_timestamp")),
        _timestamp(value.get("end_timestamp")),
        _unknown(value, _OP_KEYS),
    )


def _with_shared_names(op_input: dict[str, object]) -> dict[str, object]:
    """Share the strings that most opcodes have in common between all opcodes: a long queue is kept in memory."""
    op_id, trail = op_input.get("OP_ID"), op_input.get("reason")
    if isinstance(op_id, str):
        op_input["OP_ID"] = sys.intern(op_id)
    for entry in trail if isinstance(trail, list) else ():
        # source, reason, time
        if isinstance(entry, list) and entry and isinstance(entry[0], str):
            entry[0] = sys.intern(entry[0])
    return op_input


_NOTHING: Final[Mapping[str, object]] = {}


def _unknown(value: Mapping[str, object], known: frozenset[str]) -> Mapping[str, object]:
    if value.keys() <= known:
        return _NOTHING
    return {key: value[key] for key in value.keys() - known}


def _state(value: object) -> JobState:
    state = _STATES.get(value) if isinstance(value, str) else None
    if state is None:
        raise ValueError(f"unknown status {value!r}")
    return state


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r:.60}")
    return value


def _timestamp(value: object) -> Timestamp | None:
    if value is None:
        return None
    # by hand: a pattern takes twice as long, and a large job has tens of thousands
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], int):
        return (value[0], value[1])
    raise ValueError(f"expected [seconds, microseconds], got {value!r:.60}")


def _log_entry(value: object) -> LogEntry:
    match value:
        case [int() as serial, at, str() as kind, message] if (stamp := _timestamp(at)) is not None:
            return LogEntry(serial, stamp, kind, message)
        case _:
            raise ValueError(f"expected [serial, time, type, message], got {value!r:.60}")
