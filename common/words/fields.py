"""The columns of a list of jobs.

luxid's fields are shown by the rules of cli.md 1.3; the columns in `OWN` and `USED` are computed here. Beside those in
`FIELDS` each label is a field: `label.team`.

Source: luxid.md 7.3; cli.md 1.3 and 2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import attrs

from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.words.times import clock, duration, to_seconds

# The resources that a job's commands used, from the results of its opcodes.
#
# Source: `common.commands.supervision`; DESIGN section 16.


_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


@attrs.frozen
class Usage:
    """The usage of all ended commands of a job together."""

    memory_peak_bytes: int
    # whether the peak covers all processes; False: it is that of the largest one
    memory_of_all: bool
    # whether the peak is only a bound; the true one is not known
    memory_is_at_most: bool
    cpu_user_s: float
    cpu_system_s: float
    read_bytes: int
    written_bytes: int

    @property
    def cpu_s(self) -> float:
        return self.cpu_user_s + self.cpu_system_s


def usage_of(results: Sequence[object] | None) -> Usage | None:
    """The sum of the commands' usage, and their highest memory peak; None: no result has any.

    Args: results: results of the opcodes, as on the wire.
    """
    found = list(_usages(results or ()))
    if not found:
        return None
    highest = max(found, key=lambda usage: usage["memory_peak_bytes"])
    return Usage(
        int(highest["memory_peak_bytes"]),
        bool(highest["memory_of_all"]),
        bool(highest.get("memory_is_at_most", False)),
        sum(usage["cpu_user_s"] for usage in found),
        sum(usage["cpu_system_s"] for usage in found),
        read_bytes=sum(int(usage["read_bytes"]) for usage in found),
        written_bytes=sum(int(usage["written_bytes"]) for usage in found),
    )


def _usages(results: Sequence[object]) -> Iterator[Mapping[str, float]]:
    for result in results:
        match result:
            case {"usage": {"memory_peak_bytes": int()} as usage}:
                yield usage
            case [_, [_, {"usage": {"memory_peak_bytes": int()} as usage}]]:
                yield usage
            case _:
                pass


def memory_words(usage: Usage) -> str:
    """The memory peak for a column."""
    return f"{'<=' if usage.memory_is_at_most else ''}{size(usage.memory_peak_bytes)}"


def usage_words(usage: Usage) -> str:
    """The usage in one line."""
    whose = "" if usage.memory_of_all else " (largest process)"
    bound = "at most " if usage.memory_is_at_most else ""
    return (
        f"peak memory {bound}{size(usage.memory_peak_bytes)}{whose}, CPU {usage.cpu_user_s:.2f}s user and "
        f"{usage.cpu_system_s:.2f}s system, {size(usage.read_bytes)} read and {size(usage.written_bytes)} written"
    )


def size(count: float) -> str:
    """`12.3 MiB`."""
    place = 0
    while count >= _STEP and place < len(_UNITS) - 1:
        count, place = count / _STEP, place + 1
    return f"{count:.1f} {_UNITS[place]}" if place else f"{count:.0f} B"


class JobRow(TypedDict, total=False):
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
    # "": its submitter gave it none
    name: str
    labels: Mapping[str, str]
    # {"place", "jobs", "at_most", "failures", "each"}; None: it is in no batch
    batch_terms: Mapping[str, object] | None
    # {"by", "at", "why"}; None: nobody holds it
    hold: Mapping[str, object] | None
    # resource -> number of units
    uses: Mapping[str, int]
    # jobs on which its opcodes depend
    dependencies: Sequence[int]
    # of each opcode those before the last one
    tries: Sequence[Sequence[Mapping[str, object]]]
    # 32 digits of base 16; "": none
    trace: str
    # as W3C writes it; "": none
    traceparent: str
    # None: no command has ended, or the last one has none
    exit_code: int | None
    # [seconds, microseconds]
    begin_ts: object
    received_ts: object
    start_ts: object
    end_ts: object


# beginning of the names of fields for single labels
LABEL: Final = "label."
_PRIORITY_NAMES: Final = {number: name for name, number in SUBMIT_PRIORITIES.items()}


@attrs.frozen
class FieldColumn:
    """A column: the fields that it needs, and the text of its cell."""

    name: str
    title: str
    # luxid's fields from which the cell is made
    needs: tuple[str, ...]
    # (values, now in seconds since the epoch) -> cell; "" for an empty one
    show: Callable[[JobRow, float], str]
    is_number: bool = False
    # what a list is sorted by; None: the wire's value
    rank: Callable[[JobRow, float], float | None] | None = None


# titles that do not follow from the names
_TITLES: Final = {"ops": "OPCODES", "oppriority": "OPCODE_PRIO", "batch_terms": "IN_BATCH", "exit_code": "EXIT"}


def _title(name: str) -> str:
    """`END` of `end_ts`, `OPCODE_LOG` of `oplog`, `TEAM` of `label.team`: what queries call it, luxid's fields tell."""
    if name.startswith(LABEL):
        return name.removeprefix(LABEL).upper()
    bare = name.removesuffix("_ts").upper()
    return _TITLES.get(name) or (f"OPCODE_{bare[2:]}" if bare.startswith("OP") else bare)


def _column(
    name: str,
    show: Callable[[JobRow, float], str],
    needs: tuple[str, ...] = (),
    *,
    is_number: bool = False,
    rank: Callable[[JobRow, float], float | None] | None = None,
) -> FieldColumn:
    """Args: needs: luxid's fields; empty: the one of this name."""
    return FieldColumn(name, _title(name), needs or (name,), show, is_number, rank)


def _plain(name: str, *, is_number: bool = False) -> FieldColumn:
    return _column(name, lambda row, _: _text(value_of(row, name)), is_number=is_number)


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


def _instant(name: str) -> FieldColumn:
    return _column(name, lambda row, _: _clock(value_of(row, name)))


def _pairs(name: str) -> FieldColumn:
    """A field that maps names to values."""

    def cell(row: JobRow, _: float) -> str:
        pairs = value_of(row, name)
        return ",".join(f"{key}={value}" for key, value in pairs.items()) if isinstance(pairs, Mapping) else ""

    return _column(name, cell)


def _instants(name: str) -> FieldColumn:
    def cell(row: JobRow, _: float) -> str:
        stamps = value_of(row, name)
        return ",".join(_clock(stamp) or "-" for stamp in stamps) if isinstance(stamps, Iterable) else ""

    return _column(name, cell)


def _clock(stamp: object) -> str:
    seconds = to_seconds(stamp)
    return "" if seconds is None else clock(seconds)


def _age_s(row: JobRow, now: float) -> float | None:
    received = to_seconds(row["received_ts"])
    return None if received is None else now - received


def _runtime_s(row: JobRow, now: float) -> float | None:
    start, end = to_seconds(row["start_ts"]), to_seconds(row["end_ts"])
    if start is None or (end is None and row["status"] in FINAL_NAMES):
        return None
    return (now if end is None else end) - start


def _time_s(row: JobRow, now: float) -> float | None:
    """How long the job ran or has been running; before its start, how long it has been waiting."""
    runtime = _runtime_s(row, now)
    return runtime if runtime is not None or row["status"] in FINAL_NAMES else _age_s(row, now)


def _lasting(name: str, needs: tuple[str, ...], seconds: Callable[[JobRow, float], float | None]) -> FieldColumn:
    def cell(row: JobRow, now: float) -> str:
        lasting = seconds(row, now)
        return "" if lasting is None else duration(lasting)

    return _column(name, cell, needs, is_number=True, rank=seconds)


def _priority(row: JobRow, _: float) -> str:
    number = row["priority"]
    return _PRIORITY_NAMES.get(number, _text(number))


def shown_status(status: str | None) -> str:
    """The name of a state for users: a job that is being killed is *ending*."""
    return "ending" if status == "canceling" else _text(status)


def job_title(row: JobRow, between: str = ",") -> str:
    """What people call the job: its name, or the summaries of its opcodes, with `between` between them."""
    return row.get("name") or between.join(row["summary"] or ())


def _hold(row: JobRow, _: float) -> str:
    hold = row["hold"]
    return "" if hold is None else ": ".join(part for part in (f"by {hold['by'] or '?'}", str(hold["why"])) if part)


def _batch_terms(row: JobRow, _: float) -> str:
    terms = row["batch_terms"]
    if terms is None:
        return ""
    limits = (("at most", terms["at_most"]), ("failures", terms["failures"]))
    return ", ".join([f"{terms['place']}/{terms['jobs']}", *(f"{name} {n}" for name, n in limits if n is not None)])


def tries_made(row: JobRow) -> int:
    """How many tries the opcode with the most has had, or may have next."""
    return 1 + max((len(tries) for tries in row["tries"] or ()), default=0)


def _used(name: str, count: Callable[[Usage], float], show: Callable[[Usage], str]) -> FieldColumn:
    def rank(row: JobRow, _: float) -> float | None:
        usage = usage_of(row["opresult"])
        return None if usage is None else count(usage)

    def cell(row: JobRow, _: float) -> str:
        return "" if (usage := usage_of(row["opresult"])) is None else show(usage)

    return _column(name, cell, ("opresult",), is_number=True, rank=rank)


_TIMES: Final = ("status", "received_ts", "start_ts", "end_ts")
_COLUMNS: Final = (
    _plain("id", is_number=True),
    _column("status", lambda row, _: shown_status(row["status"])),
    _column("priority", _priority),
    _plain("archived"),
    _lasting("age", ("received_ts",), _age_s),
    _lasting("runtime", _TIMES, _runtime_s),
    _lasting("time", _TIMES, _time_s),
    _used("memory", lambda used: used.memory_peak_bytes, memory_words),
    _used("cpu", lambda used: used.cpu_s, lambda used: f"{used.cpu_s:.2f}s"),
    _used("read", lambda used: used.read_bytes, lambda used: size(used.read_bytes)),
    _used("written", lambda used: used.written_bytes, lambda used: size(used.written_bytes)),
    *map(_plain, ("summary", "opid", "reason", "user", "node", "batch")),
    _column("batch_terms", _batch_terms),
    _plain("name"),
    _pairs("labels"),
    _column("hold", _hold),
    _pairs("uses"),
    _column("tries", lambda row, _: str(tries_made(row)), is_number=True, rank=lambda row, _: tries_made(row)),
    *map(_plain, ("dependencies", "trace", "traceparent")),
    _plain("exit_code", is_number=True),
    *map(_plain, ("ops", "opresult", "opstatus", "oplog")),
    *map(_instants, ("opstart", "opexec", "opend")),
    _plain("oppriority"),
    *map(_instant, ("begin_ts", "received_ts", "start_ts", "end_ts")),
)
FIELDS: Final[Mapping[str, FieldColumn]] = {column.name: column for column in _COLUMNS}
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
    return tuple(name for name in names if name not in FIELDS and not is_label(name))


def is_label(name: str) -> bool:
    """Whether the field is about one label."""
    return name.startswith(LABEL) and name != LABEL


def field_of(name: str, unknown: str = "??") -> FieldColumn:
    """The field of that name; an unknown one shows `unknown` in each cell."""
    if is_label(name):
        return _plain(name)
    return FIELDS.get(name) or FieldColumn(name, name, (), lambda _, __: unknown)


def sort_rows(rows: Iterable[JobRow], name: str, now: float, *, is_reversed: bool = False) -> list[JobRow]:
    """The rows by a field: numbers and times the largest first, texts from a to z; those without a value are the last.

    Args:
        name: of a field; the rows have what it needs.
        is_reversed: the smallest first, and z to a.
    """
    field = field_of(name)
    keyed = [(_rank(field, row, now), row) for row in rows]
    ranked = [(key, row) for key, row in keyed if key is not None]
    has_texts = any(isinstance(key, str) for key, _ in ranked)
    # a column has texts only, or numbers only
    ranked.sort(key=lambda each: each[0], reverse=has_texts == is_reversed)
    return [row for _, row in ranked] + [row for key, row in keyed if key is None]


def _rank(field: FieldColumn, row: JobRow, now: float) -> Any:
    if field.rank is not None:
        return field.rank(row, now)
    value = value_of(row, field.needs[0])
    if (instant := to_seconds(value)) is not None:
        return instant
    if isinstance(value, int | float):
        return value
    return field.show(row, now) or None


def wire_fields(names: Sequence[str], *more: str) -> tuple[str, ...]:
    """luxid's fields for these columns, each once; `more` are added."""
    return tuple(dict.fromkeys([*more, *(need for name in names for need in field_of(name).needs)]))
