"""A job as the bytes of its file, and back.

The file has exactly the keys of luxid.md 3.1, because Ganeti refuses others. Reading is more
tolerant than writing: unknown keys are kept and written back, null means missing,
and an `input` of an unknown opcode is kept verbatim.
"""

import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs
import orjson

from common.errors import DamagedFile
from common.queue.jobs import Job, JobOp, JobState, LogEntry, Timestamp
from common.wire import read_job_id

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


@lru_cache(maxsize=_AT_HAND)
def _read(text: bytes) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(text)
    return found


_OP_KEYS: Final = frozenset(
    {"input", "status", "result", "log", "priority", "start_timestamp", "exec_timestamp", "end_timestamp"}
)
_JOB_KEYS: Final = frozenset(
    {"id", "ops", "received_timestamp", "start_timestamp", "end_timestamp", "livelock", "process_id"}
)
_STATES: Final = {state.value: state for state in JobState}


def encode_job(job: Job) -> bytes:
    """The whole file, compact, without a final newline."""
    fields: dict[str, object] = {
        "id": job.job_id,
        "ops": [_op_to_json(op) for op in job.ops],
        "received_timestamp": job.received_at,
        "start_timestamp": job.start_at,
        "end_timestamp": job.end_at,
    }
    if job.livelock is not None:
        fields["livelock"] = job.livelock
    if job.process_id is not None:
        fields["process_id"] = job.process_id
    return orjson.dumps({**fields, **job.extra} if job.extra else fields)


def decode_job(content: bytes, name: str, *, packed: bool = False) -> Job:
    """Read a job file.

    Args:
        name: name of the file for errors.
        packed: keep the opcodes' inputs as text: for jobs that are many, and that stay.
    Raises: DamagedFile: the content is not JSON, cut off, or not a job; the message says which file, where and why.
    """
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
    match value:
        case [int() as seconds, int() as micros]:
            return (seconds, micros)
        case _:
            raise ValueError(f"expected [seconds, microseconds], got {value!r:.60}")


def _log_entry(value: object) -> LogEntry:
    match value:
        case [int() as serial, at, str() as kind, message] if (stamp := _timestamp(at)) is not None:
            return LogEntry(serial, stamp, kind, message)
        case _:
            raise ValueError(f"expected [serial, time, type, message], got {value!r:.60}")
