"""The days of a time zone: which day an instant belongs to."""

import datetime

from common.schedules.zones import zone_named


class DayNames:
    """Names days as `2026-11-21`. Raises: InvalidRequest: there is no such zone. Unavailable: it cannot be read now."""

    def __init__(self, zone: str) -> None:
        self._zone = zone_named(zone)
        # the quarter of an hour that was asked for last: ended jobs come in the order of their ends, mostly
        self._quarter: float | None = None
        self._name = ""

    def name(self, at: float | None) -> str | None:
        """The day of an instant in seconds since the epoch; None: there is no instant."""
        if at is None:
            return None
        # every zone changes its day, and its clock, at a whole quarter
        quarter = at // 900
        if quarter != self._quarter:
            self._quarter, self._name = quarter, self._day(at)
        return self._name

    def _day(self, at: float) -> str:
        try:
            return datetime.datetime.fromtimestamp(at, self._zone).date().isoformat()
        except (ValueError, OverflowError, OSError):
            # a clock or a file was far off
            return ""
