"""The days of a time zone: which day an instant belongs to."""

import datetime

from common.errors import InvalidRequest


class DayNames:
    """Names days as `2026-11-21`. Raises: InvalidRequest: there is no such zone."""

    def __init__(self, zone: str) -> None:
        # imported late: few ask for days, and it loads the whole configuration of Python's build
        import zoneinfo

        try:
            self._zone = zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise InvalidRequest(
                f"there is no time zone {zone!r:.60}; write one such as Europe/Athens, or UTC"
            ) from None
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
