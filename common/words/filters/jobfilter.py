"""Filters for jobs: the users' names for luxid's fields.

    status=running & op=run_command         label.team=web & name=~^backup       hold | tries > 1
    received < 2h ago & end > yesterday     age > 30m and not reason=~upgrade    exit != 0 & user=ada

What people look for may also be plain words; see `search_filter`. An instant is written as `common.words.instants`
reads it, or in seconds since 1970, and the past is meant. The field of a text, alone, says that the text is not empty:
`label.team` is for jobs with this label.

Source: luxid.md 7.3; the fields from `opid` to `exit_code` in `daemons.luxid.core.query.jobs` are ours.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from functools import partial
from typing import Final

from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES, JobState
from common.words.fields import FIELDS, LABEL, OWN, USED
from common.words.filters.filtertext import Expression, Reading, parse_filter
from common.words.instants import Toward, parse_instant
from common.words.times import seconds_of

_STATUSES: Final = {"failed": "error", "succeeded": "success", "cancelled": "canceled"}
_STATES: Final = tuple(state.value for state in JobState)
# fields that have no order and no text: they can only be shown
_SHAPED: Final = ("labels", "uses", "ops", "opresult", "oplog", "opstart", "opexec", "opend")
_INSTANTS: Final = {f"{name}_ts": name for name in ("begin", "received", "start", "end")}
_TEXTS: Final = (
    "status",
    "user",
    "node",
    "batch",
    "trace",
    "traceparent",
    "name",
    "summary",
    "summary_text",
    "reason",
    "reason_text",
    "op",
    "words",
)
_NUMBERS: Final = ("id", "priority", "tries", "dependencies", "exit_code")
# other names of fields, as the history has them
_NAMES: Final = {"exit": "exit_code"}
_EQUALITIES: Final = ("==", "!=")
_COMPARISONS: Final = (*_EQUALITIES, "<", "<=", ">", ">=")
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# digits of an id that fits into 64 bits
_LONGEST_ID: Final = 18
# what filters can compare, for those who ask; `label.KEY` is one, too
COMPARED: Final = (
    "op",
    *_INSTANTS.values(),
    "age",
    *(name for name in FIELDS if name not in (*OWN, *USED, *_SHAPED, *_INSTANTS)),
)
_KNOWN: Final = (*COMPARED, *_INSTANTS, *_SHAPED, "summary_text", "reason_text", "words")


def job_filter(text: str, now: float, zone: tzinfo | None) -> Expression:
    """Read a filter of jobs.

    Args:
        now: seconds since the epoch.
        zone: the zone of local times; None: this machine's.
    Raises: InvalidRequest: as `parse_filter`; a field or state is unknown, or a value has the wrong type for its field.
    """
    return parse_filter(text, Reading(partial(_rewritten, now, zone), frozenset((*_INSTANTS, *_INSTANTS.values()))))


# characters by which a filter is told from words, and words that join conditions
_FILTER_SIGNS: Final = re.compile(r"""[&|!=<>~"'()]""")
_JOINING: Final = ("and", "or", "not", "in")


def search_filter(text: str, now: float, zone: tzinfo | None) -> Expression:
    """Read what somebody looks for: a filter, as `job_filter`, or words, each of which a job has somewhere.

    A word is a state, or stands in the job's name, labels, user, node, summary, comments or reasons, in small letters
    or large ones; a number may also be its id. The name of a field that is a condition alone, as `hold`, is a filter.

    Args: text: not only spaces.
    Raises: InvalidRequest: as `job_filter`.
    """
    words = text.split()
    if _FILTER_SIGNS.search(text) or any(word in _JOINING or _is_field(word) for word in words):
        return job_filter(text, now, zone)
    found = all_of([_sought(word) for word in words])
    assert found is not None
    return found


def _is_field(word: str) -> bool:
    return word in _KNOWN or word in _NAMES or word.startswith(LABEL)


def _sought(word: str) -> Expression:
    state = _STATUSES.get(word.lower(), word.lower())
    if state in _STATES:
        return ["==", "status", state]
    within: Expression = ["=~", "words", re.escape(word.lower())]
    is_number = word.isascii() and word.isdigit() and len(word) <= _LONGEST_ID
    return ["|", ["==", "id", int(word)], within] if is_number else within


def _rewritten(now: float, zone: tzinfo | None, operator: str, field: str, values: Sequence[str | int]) -> Expression:
    field = f"{field}_ts" if field in _INSTANTS.values() else _NAMES.get(field, field)
    if field == "age":
        return _age(now, operator, values)
    _check_field(field)
    if field in _INSTANTS:
        values = [_instant(value, now, zone) for value in values]
    elif field.startswith(LABEL) or field in _TEXTS:
        # a name or a label of digits is a text
        values = list(map(str, values))
        if operator == "?":
            operator, values = "=~", ["."]
    rewrite = _REWRITES.get(field)
    rewritten: Expression = [operator, field, *values] if rewrite is None else rewrite(operator, field, values)
    _check_number(rewritten)
    return rewritten


def _age(now: float, operator: str, values: Sequence[str | int]) -> Expression:
    """`age > 2h`: submitted more than two hours ago."""
    seconds = seconds_of(str(values[0])) if values else None
    if operator not in _TURNED or seconds is None:
        raise InvalidRequest("'age' is compared by <, <=, > and >= with a duration, as in 'age > 30m'")
    return [_TURNED[operator], "received_ts", round(now - seconds)]


def _instant(value: str | int, now: float, zone: tzinfo | None) -> str | int:
    return value if isinstance(value, int) else round(parse_instant(value, now, zone, Toward.PAST))


def _check_field(name: str) -> None:
    if name in USED:
        raise InvalidRequest(f"'{name}' can be shown only; show it with -o +{name}, and compare there")
    if name in OWN:
        raise InvalidRequest(f"'{name}' can be shown only; 'age' and '{_INSTANTS[OWN[name]]}' can be compared")
    if name in _SHAPED:
        part = "; one label can be compared, as in label.team=web" if name == "labels" else ""
        raise InvalidRequest(f"'{name}' can be shown only{part}")
    if name not in _KNOWN and not (name.startswith(LABEL) and name != LABEL):
        raise InvalidRequest(f"no field '{name}'; {_advice(name)}")


def _advice(name: str) -> str:
    """What else may have been meant by a name that is no field."""
    # imported late: only an error needs it
    import difflib

    if name in (*_STATES, *_STATUSES):
        # as in `status=queued|waiting`
        return f"did you mean 'status={name}'?"
    nearest = difflib.get_close_matches(name, _KNOWN, n=1)
    return f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(COMPARED)}, label.KEY"


def _check_number(expression: Expression) -> None:
    operator, name, *values = expression
    if name in _NUMBERS and operator in _COMPARISONS and not isinstance(values[0], int):
        raise InvalidRequest(f"'{name}' is a number, and cannot be compared with '{values[0]}'")


def _op(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    """`op=OP_X`, `op=run_command`: one of the job's opcodes has this id."""
    match operator:
        case "==" | "=[]":
            return ["=[]", "opid", op_id(values[0])]
        case "!=":
            return ["!", ["=[]", "opid", op_id(values[0])]]
        case _:
            raise InvalidRequest(f"'{field}' can be compared by = and != only; 'summary' also by =~ and =*")


def op_id(value: object) -> str:
    """`run_command` as OP_RUN_COMMAND."""
    name = str(value).upper().replace("-", "_")
    return name if name.startswith("OP_") else f"OP_{name}"


def _summary(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    # a list can only be searched for a whole element
    return [operator, field if operator == "=[]" else "summary_text", *values]


def _reason(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    """`reason=upgrade`: an entry of its trails is this text; `reason=~upgrade`: the text is in one of them."""
    match operator:
        case "==" | "=[]":
            return ["=[]", field, *values]
        case "!=":
            return ["!", ["=[]", field, *values]]
        case _:
            return [operator, "reason_text", *values]


def _status(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    values = [_STATUSES.get(str(value), value) for value in values]
    if operator in _EQUALITIES and values[0] not in _STATES:
        raise InvalidRequest(f"no job is '{values[0]}'; states are {', '.join(_STATES)}")
    return [operator, field, *values]


def _priority(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    # a more urgent priority is a smaller number, so names have no order
    if operator not in _EQUALITIES or isinstance(values[0], int):
        return [operator, field, *values]
    if values[0] not in SUBMIT_PRIORITIES:
        known = ", ".join(f"{name} ({number})" for name, number in SUBMIT_PRIORITIES.items())
        raise InvalidRequest(f"no priority is '{values[0]}'; write a number, or {known}")
    return [operator, field, SUBMIT_PRIORITIES[values[0]]]


_REWRITES: Final[dict[str, Callable[[str, str, Sequence[str | int]], Expression]]] = {
    "op": _op,
    "summary": _summary,
    "reason": _reason,
    "status": _status,
    "priority": _priority,
}


def statuses_filter(statuses: Sequence[str]) -> Expression:
    return _any_of("status", statuses)


def ids_filter(job_ids: Sequence[int]) -> Expression:
    return _any_of("id", job_ids)


def _any_of(field: str, values: Iterable[str | int]) -> Expression:
    equalities: list[Expression] = [["==", field, value] for value in values]
    return ["|", *equalities]


def all_of(parts: list[Expression]) -> Expression | None:
    """The conjunction of these; None if there are none."""
    return None if not parts else parts[0] if len(parts) == 1 else ["&", *parts]


# characters of filters that no name contains
_FILTER_CHARACTERS: Final = re.compile(r"""[!\s"'()/<>=\\~]""")


def is_filter(text: str) -> bool:
    """Whether an argument is a filter rather than a name. Source: cli.md 1.4."""
    return _FILTER_CHARACTERS.search(text) is not None


# Filters of ended jobs, as people type them: `end > yesterday & wait > 10m & label.team=web`.
#
# Source: DESIGN section 16; `protocol.luxi.history.Past`.


# fields of the history that are instants, and durations
INSTANTS: Final = ("received", "eligible", "start", "end")
DURATIONS: Final = ("wait", "run")
_PAST_NAMES: Final = {**{f"{name}_ts": name for name in INSTANTS}, "exit": "exit_code", "runtime": "run"}

_PHRASED: Final = frozenset((*INSTANTS, *_PAST_NAMES))


def past_filter(text: str, now: float, zone: tzinfo | None) -> Expression:
    """Read a filter; luxid checks the names of its fields. The field of a text, alone, says that it is not empty.

    Args:
        now: seconds since the epoch.
        zone: the zone of local times; None: this machine's.
    Raises: InvalidRequest: it is malformed, or a value is no time, duration or state.
    """
    return parse_filter(text, Reading(partial(_past_rewritten, now, zone), _PHRASED))


def _past_rewritten(
    now: float, zone: tzinfo | None, operator: str, field: str, values: Sequence[str | int]
) -> Expression:
    field = _PAST_NAMES.get(field, field)
    return [operator, field, *(_value(operator, field, value, now, zone) for value in values)]


def _value(operator: str, field: str, value: str | int, now: float, zone: tzinfo | None) -> str | int:
    if field == "status":
        value = _STATUSES.get(str(value), value)
        if operator in ("==", "!=") and value not in FINAL_NAMES:
            raise InvalidRequest(f"no job has ended as '{value}'; states are {', '.join(FINAL_NAMES)}")
        return value
    if isinstance(value, int):
        # a name or a label of digits is a text
        return value if field in _PAST_NUMBERS else str(value)
    if field in INSTANTS:
        return round(parse_instant(value, now, zone, Toward.PAST))
    if field in DURATIONS:
        return _duration(field, value)
    return value


def _duration(field: str, value: str) -> int:
    seconds = seconds_of(value)
    if seconds is None:
        raise InvalidRequest(f"'{field}' is a duration such as 90s, 10m or 2h, got '{value:.60}'")
    return round(seconds)


_PAST_NUMBERS: Final = (*INSTANTS, *DURATIONS, "id", "tries", "exit_code")
