"""Filters for jobs: the users' names for luxid's fields.

Source: luxid.md 7.3; the fields `opid`, `summary_text`, `reason`, `reason_text`, `user`, `node` and `batch` are ours.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from common.errors import InvalidRequest
from common.queue.jobs import SUBMIT_PRIORITIES, JobState
from common.words.fields import FIELDS, OWN, USED
from common.words.filtertext import Expression, condition, inner_expressions, parse_filter

_STATUSES: Final = {"failed": "error", "succeeded": "success", "cancelled": "canceled"}
_NESTING: Final = ("&", "|", "!")
_STATES: Final = tuple(state.value for state in JobState)
_KNOWN: Final = ("op", *(name for name in FIELDS if name not in (*OWN, *USED)), "summary_text", "reason_text")
_NUMBERS: Final = ("id", "priority", "received_ts", "start_ts", "end_ts")
_EQUALITIES: Final = ("==", "!=")
_COMPARISONS: Final = (*_EQUALITIES, "<", "<=", ">", ">=")


def job_filter(text: str) -> Expression:
    """Read a filter of jobs.

    Raises: InvalidRequest: as `parse_filter`; a field or state is unknown, or a value has the wrong type for its field.
    """
    return _rewritten(parse_filter(text))


def _rewritten(expression: Expression) -> Expression:
    if expression[0] in _NESTING:
        return [expression[0], *map(_rewritten, inner_expressions(expression))]
    operator, field, values = condition(expression)
    _check_field(field)
    rewrite = _REWRITES.get(field)
    rewritten = rewrite(operator, field, values) if rewrite is not None else expression
    _check_number(rewritten)
    return rewritten


def _check_field(name: str) -> None:
    if name in USED:
        raise InvalidRequest(f"filter: '{name}' can be shown only; show it with -o +{name}, and compare there")
    if name in OWN:
        raise InvalidRequest(
            f"filter: '{name}' can be shown only; '{OWN[name]}' can be compared, in seconds since 1970"
        )
    if name not in _KNOWN:
        # imported late: only an error needs it
        import difflib

        nearest = difflib.get_close_matches(name, _KNOWN, n=1)
        advice = f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(_KNOWN)}"
        raise InvalidRequest(f"filter: no field '{name}'; {advice}")


def _check_number(expression: Expression) -> None:
    operator, name, *values = expression
    if name in _NUMBERS and operator in _COMPARISONS and not isinstance(values[0], int):
        raise InvalidRequest(f"filter: '{name}' is a number, and cannot be compared with '{values[0]}'")


def _op(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    """`op=OP_X`, `op=run_command`: one of the job's opcodes has this id."""
    match operator:
        case "==" | "=[]":
            return ["=[]", "opid", op_id(values[0])]
        case "!=":
            return ["!", ["=[]", "opid", op_id(values[0])]]
        case _:
            raise InvalidRequest(f"filter: '{field}' can be compared by = and != only; 'summary' also by =~ and =*")


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
        raise InvalidRequest(f"filter: no job is '{values[0]}'; states are {', '.join(_STATES)}")
    return [operator, field, *values]


def _priority(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    # a more urgent priority is a smaller number, so names have no order
    if operator not in _EQUALITIES or isinstance(values[0], int):
        return [operator, field, *values]
    if values[0] not in SUBMIT_PRIORITIES:
        known = ", ".join(f"{name} ({number})" for name, number in SUBMIT_PRIORITIES.items())
        raise InvalidRequest(f"filter: no priority is '{values[0]}'; write a number, or {known}")
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
