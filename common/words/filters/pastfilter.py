"""Filters of ended jobs, as people type them: `end > yesterday & wait > 10m & label.team=web`.

Source: DESIGN section 16; `protocol.luxi.history.Past`.
"""

from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from typing import Final

from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES
from common.words.filters.filtertext import Expression, Reading, parse_filter
from common.words.instants import Toward, parse_instant
from common.words.times import seconds_of

# fields of the history that are instants, and durations
INSTANTS: Final = ("received", "eligible", "start", "end")
DURATIONS: Final = ("wait", "run")
_NAMES: Final = {**{f"{name}_ts": name for name in INSTANTS}, "exit": "exit_code", "runtime": "run"}
_STATUSES: Final = {"failed": "error", "succeeded": "success", "cancelled": "canceled"}
_PHRASED: Final = frozenset((*INSTANTS, *_NAMES))


def past_filter(text: str, now: float, zone: tzinfo | None) -> Expression:
    """Read a filter; luxid checks the names of its fields. The field of a text, alone, says that it is not empty.

    Args:
        now: seconds since the epoch.
        zone: the zone of local times; None: this machine's.
    Raises: InvalidRequest: it is malformed, or a value is no time, duration or state.
    """
    return parse_filter(text, Reading(partial(_rewritten, now, zone), _PHRASED))


def _rewritten(now: float, zone: tzinfo | None, operator: str, field: str, values: Sequence[str | int]) -> Expression:
    field = _NAMES.get(field, field)
    return [operator, field, *(_value(operator, field, value, now, zone) for value in values)]


def _value(operator: str, field: str, value: str | int, now: float, zone: tzinfo | None) -> str | int:
    if field == "status":
        value = _STATUSES.get(str(value), value)
        if operator in ("==", "!=") and value not in FINAL_NAMES:
            raise InvalidRequest(f"no job has ended as '{value}'; states are {', '.join(FINAL_NAMES)}")
        return value
    if isinstance(value, int):
        # a name or a label of digits is a text
        return value if field in _NUMBERS else str(value)
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


_NUMBERS: Final = (*INSTANTS, *DURATIONS, "id", "tries", "exit_code")
