"""Filters as callers write them: the text of people, or an expression of the query language.

Source: `common.words.filters.filtertext`; luxid.md 6.3.
"""

import time
from typing import Final

import orjson

from common.errors import InvalidRequest
from common.jsonreading import read_json
from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES
from common.words.filters.filtertext import Expression as Wire
from common.words.filters.filtertext import parse_filter
from common.words.filters.jobfilter import job_filter, statuses_filter

ENDED: Final[Wire] = statuses_filter(FINAL_NAMES)
UNENDED: Final[Wire] = ["!", ENDED]


def read_job_filter(value: object) -> Expression | None:
    """A filter of jobs; None: all. Raises: InvalidRequest: it cannot be read."""
    expression = _expression(value)
    if isinstance(expression, str):
        return Expression.from_wire(job_filter(expression, time.time(), None)) if expression.strip() else None
    return None if expression is None else Expression.from_wire(expression)


def read_object_filter(value: object) -> Expression | None:
    """A filter of other things; None: all. Raises: InvalidRequest: it cannot be read."""
    expression = _expression(value)
    if isinstance(expression, str):
        return Expression.from_wire(parse_filter(expression)) if expression.strip() else None
    return None if expression is None else Expression.from_wire(expression)


def both(first: Expression | None, second: Wire) -> Expression:
    """The filter for what both find."""
    return Expression.from_wire(second if first is None else ["&", first.to_wire(), second])


def _expression(value: object) -> object:
    """A text that is JSON of a list is an expression, too: a URL has only text."""
    if not isinstance(value, str | list | None):
        raise InvalidRequest(f"filter: expected text, or a list of the query language, got {value!r:.60}")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return read_json(value)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"filter: it begins with '[', but is not JSON: {error}") from None
    return value
