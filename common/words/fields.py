"""The columns of a list of jobs.

luxid's fields are shown by the rules of cli.md 1.3; the columns in `OWN` and `USED` are computed here.

Source: luxid.md 7.3; cli.md 1.3 and 2.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypedDict

import attrs

from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.words.times import clock, duration, to_seconds
from common.words.usage import Usage, size, usage_of


class Row(TypedDict, total=False):
    """The values of luxid's fields that were asked for, by name, as on the wire.

    All but `id` are null if the job does not exist: look at `status` before any other field.
    """

    id: int
    status: str | None
    priority: int
    archived: bool
    ops: Sequence[Mapping[str, object]]
    opid: Sequence[str]
    opresult: Sequence[object] | None
    opstatus: Sequence[str]
    # an opcode's lines, each [serial, time, kind, message]
    oplog: Sequence[Sequence[tuple[int, object, str, object]]]
    opstart: Sequence[object]
    opexec: Sequence[object]
    opend: Sequence[object]
    oppriority: Sequence[int]
    summary: Sequence[str]
    summary_text: str
    # of the entries of all reason trails
    reason: Sequence[str]
    user: str
    # "": the command runs on the master, or the job has none
    node: str
    # "": the job belongs to none
    batch: str
    # [seconds, microseconds]
    received_ts: object
    start_ts: object
    end_ts: object


_PRIORITY_NAMES: Final = {number: name for name, number in SUBMIT_PRIORITIES.items()}


@attrs.frozen
class Field:
    """A column: the fields that it needs, and the text of its cell."""

    title: str
    # luxid's fields from which the cell is made
    needs: tuple[str, ...]
    # (values, now in seconds since the epoch) -> cell; "" for an empty one
    show: Callable[[Row, float], str]
    is_number: bool = False


def _plain(name: str, title: str, *, is_number: bool = False) -> Field:
    return Field(title, (name,), lambda row, _: _text(value_of(row, name)), is_number)


def value_of(row: Mapping[str, object], name: str) -> object:
    """The value of a field that is chosen by its name."""
    return row[name]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)


def _instant(name: str, title: str) -> Field:
    return Field(title, (name,), lambda row, _: _clock(value_of(row, name)))


def _instants(name: str, title: str) -> Field:
    def cell(row: Row, _: float) -> str:
        stamps = value_of(row, name)
        return ",".join(_clock(stamp) or "-" for stamp in stamps) if isinstance(stamps, Iterable) else ""

    return Field(title, (name,), cell)


def _clock(stamp: object) -> str:
    seconds = to_seconds(stamp)
    return "" if seconds is None else clock(seconds)


def _age(row: Row, now: float) -> str:
    received = to_seconds(row["received_ts"])
    return "" if received is None else duration(now - received)


def _runtime(row: Row, now: float) -> str:
    start, end = to_seconds(row["start_ts"]), to_seconds(row["end_ts"])
    if start is None:
        return ""
    if end is None:
        return duration(now - start) if row["status"] not in FINAL_NAMES else ""
    return duration(end - start)


def _time(row: Row, now: float) -> str:
    """How long the job ran or has been running; before its start, how long it has been waiting."""
    is_ended = row["status"] in FINAL_NAMES
    return _runtime(row, now) or ("" if is_ended else _age(row, now))


def _priority(row: Row, _: float) -> str:
    number = row["priority"]
    return _PRIORITY_NAMES.get(number, _text(number))


def shown_status(status: str | None) -> str:
    """The name of a state for users: a job that is being killed is *ending*."""
    return "ending" if status == "canceling" else _text(status)


def _used(show: Callable[[Usage], str]) -> Callable[[Row, float], str]:
    def cell(row: Row, _: float) -> str:
        usage = usage_of(row["opresult"])
        return "" if usage is None else show(usage)

    return cell


_RESULTS: Final = ("opresult",)
_TIMES: Final = ("status", "received_ts", "start_ts", "end_ts")
FIELDS: Final[Mapping[str, Field]] = {
    "id": _plain("id", "ID", is_number=True),
    "status": Field("STATUS", ("status",), lambda row, _: shown_status(row["status"])),
    "priority": Field("PRIORITY", ("priority",), _priority),
    "archived": _plain("archived", "ARCHIVED"),
    "age": Field("AGE", ("received_ts",), _age, is_number=True),
    "runtime": Field("RUNTIME", _TIMES, _runtime, is_number=True),
    "time": Field("TIME", _TIMES, _time, is_number=True),
    "memory": Field("MEMORY", _RESULTS, _used(lambda used: size(used.memory_peak_bytes)), is_number=True),
    "cpu": Field("CPU", _RESULTS, _used(lambda used: f"{used.cpu_s:.2f}s"), is_number=True),
    "read": Field("READ", _RESULTS, _used(lambda used: size(used.read_bytes)), is_number=True),
    "written": Field("WRITTEN", _RESULTS, _used(lambda used: size(used.written_bytes)), is_number=True),
    "summary": _plain("summary", "SUMMARY"),
    "opid": _plain("opid", "OPCODE_ID"),
    "reason": _plain("reason", "REASON"),
    "user": _plain("user", "USER"),
    "node": _plain("node", "NODE"),
    "batch": _plain("batch", "BATCH"),
    "ops": _plain("ops", "OPCODES"),
    "opresult": _plain("opresult", "OPCODE_RESULT"),
    "opstatus": _plain("opstatus", "OPCODE_STATUS"),
    "oplog": _plain("oplog", "OPCODE_LOG"),
    "opstart": _instants("opstart", "OPCODE_START"),
    "opexec": _instants("opexec", "OPCODE_EXEC"),
    "opend": _instants("opend", "OPCODE_END"),
    "oppriority": _plain("oppriority", "OPCODE_PRIO"),
    "received_ts": _instant("received_ts", "RECEIVED"),
    "start_ts": _instant("start_ts", "START"),
    "end_ts": _instant("end_ts", "END"),
}
# columns computed here -> luxid's field that is closest to each
OWN: Final = {"age": "received_ts", "runtime": "start_ts", "time": "start_ts"}
# columns of resource usage, also computed here; filters cannot compare them
USED: Final = ("memory", "cpu", "read", "written")
DEFAULT: Final = ("id", "status", "priority", "time", "summary")


def choose(text: str | None) -> tuple[str, ...]:
    """The fields of `-o`: a list with commas; after a leading `+` they are added to the default ones."""
    if text is None:
        return DEFAULT
    names = tuple(name for name in text.removeprefix("+").split(",") if name)
    return (*DEFAULT, *names) if text.startswith("+") else names


def unknown(names: Sequence[str]) -> tuple[str, ...]:
    """The names that are not fields."""
    return tuple(name for name in names if name not in FIELDS)


def field_of(name: str, unknown: str = "??") -> Field:
    """The field of that name; an unknown one shows `unknown` in each cell."""
    return FIELDS.get(name) or Field(name, (), lambda _, __: unknown)


def wire_fields(names: Sequence[str], *more: str) -> tuple[str, ...]:
    """luxid's fields for these columns, each once; `more` are added."""
    return tuple(dict.fromkeys([*more, *(need for name in names for need in field_of(name).needs)]))
