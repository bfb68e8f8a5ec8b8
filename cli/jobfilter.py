"""Filters for jobs: the names people use for what luxid's fields say.

Source: luxid.md 7.3; the fields `opid`, `summary_text` and `user` are ours.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from cli.filtertext import Expression, parse_filter
from common.errors import InvalidRequest

_STATUSES: Final = {"failed": "error", "succeeded": "success", "cancelled": "canceled"}
_NESTING: Final = ("&", "|", "!")


def job_filter(text: str) -> Expression:
    """Read a filter of jobs.

    Raises: InvalidRequest: as `parse_filter`; or `op` is compared with `<`.
    """
    return _rewritten(parse_filter(text))


def _rewritten(expression: Expression) -> Expression:
    operator, *operands = expression
    if operator in _NESTING:
        return [operator, *map(_rewritten, operands)]
    rewrite = _REWRITES.get(operands[0])
    return rewrite(operator, *operands) if rewrite is not None else expression


def _op(operator: str, field: str, *values: Any) -> Expression:
    """`op=OP_X`, `op=run_command`: one of the job's opcodes is it."""
    match operator:
        case "==" | "=[]":
            return ["=[]", "opid", op_id(values[0])]
        case "!=":
            return ["!", ["=[]", "opid", op_id(values[0])]]
    raise InvalidRequest(f"filter: '{field}' can be compared by = and != only; 'summary' also by =~ and =*")


def op_id(value: Any) -> str:
    """`run_command` as OP_RUN_COMMAND."""
    name = str(value).upper().replace("-", "_")
    return name if name.startswith("OP_") else f"OP_{name}"


def _summary(operator: str, field: str, *values: Any) -> Expression:
    # as a list it can only be searched for a whole element
    return [operator, field if operator == "=[]" else "summary_text", *values]


def _status(operator: str, field: str, *values: Any) -> Expression:
    return [operator, field, *(_STATUSES.get(value, value) for value in values)]


_REWRITES: Final[dict[str, Callable[..., Expression]]] = {
    "op": _op,
    "summary": _summary,
    "status": _status,
}


def statuses_filter(statuses: Sequence[str]) -> Expression:
    return ["|", *(["==", "status", status] for status in statuses)]


def ids_filter(job_ids: Sequence[int]) -> Expression:
    return ["|", *(["==", "id", job_id] for job_id in job_ids)]


def all_of(parts: list[Expression]) -> Expression | None:
    """All of these hold; None without any."""
    return None if not parts else parts[0] if len(parts) == 1 else ["&", *parts]


# characters that no name has, and every filter
_FILTER_CHARACTERS: Final = re.compile(r"""[!\s"'()/<>=\\~]""")


def is_filter(text: str) -> bool:
    """Whether an argument is a filter rather than the name of something. Source: cli.md 1.4."""
    return _FILTER_CHARACTERS.search(text) is not None
