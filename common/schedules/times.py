"""The nominal instants of a schedule: by its cron words in its zone, or by its interval.

Source: DESIGN section 16; everyday.md sections c and j.
"""

import datetime
import hashlib
import math
from typing import Final, Protocol

import attrs

from common.errors import InvalidRequest
from common.schedules.cronwords import CronWords, read_words
from common.schedules.schedule import Schedule
from common.schedules.zones import zone_named

# seconds
SHORTEST_S: Final = 1.0
LONGEST_S: Final = 10 * 366 * 86400.0
# of a deadline and a spread
LONGEST_SPAN_S: Final = 366 * 86400.0
# seconds since 1970 beyond which no calendar is kept
_LATEST_S: Final = 250_000_000_000.0


class Times(Protocol):
    """Nominal instants, in whole seconds since the epoch, strictly rising."""

    def next_after(self, at: float) -> float | None:
        """The first one after this instant; None: there is none."""
        ...

    def last_until(self, at: float) -> float | None:
        """The last one at or before this instant; None: there is none."""
        ...


@attrs.frozen
class Intervals:
    """Instants at the same distance, by real time."""

    # seconds
    begin: float
    every_s: float

    def next_after(self, at: float) -> float | None:
        return self.begin + max(math.floor((at - self.begin) / self.every_s) + 1, 1) * self.every_s

    def last_until(self, at: float) -> float | None:
        count = math.floor((at - self.begin) / self.every_s)
        return self.begin + count * self.every_s if count >= 1 else None


@attrs.frozen
class CronTimes:
    """Instants by cron words, in a zone."""

    words: CronWords
    zone: datetime.tzinfo

    def next_after(self, at: float) -> float | None:
        return _stamp(self.words.next_after(self._local(at)))

    def last_until(self, at: float) -> float | None:
        return _stamp(self.words.last_until(self._local(at)))

    def _local(self, at: float) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(math.floor(min(max(at, 0.0), _LATEST_S)), self.zone)


def _stamp(found: datetime.datetime | None) -> float | None:
    return None if found is None else found.timestamp()


def times_of(schedule: Schedule) -> Times:
    """The instants of a schedule. Raises: InvalidRequest: its zone is unknown here, or its words name none; says what.
        Unavailable: its zone cannot be read now.

    The zone's rules may have changed since the schedule was made: nothing is taken from earlier.
    """
    if not schedule.cron:
        if schedule.every_s < SHORTEST_S:
            raise InvalidRequest(f"schedule '{schedule.name}' has neither cron words nor an interval")
        return Intervals(schedule.created_at, schedule.every_s)
    return CronTimes(read_words(schedule.cron, schedule.uuid), zone_named(schedule.zone))


def check_times(schedule: Schedule) -> Times:
    """The instants of a schedule that a user wants.

    Raises: InvalidRequest: words or zone as of `times_of`, or an interval or a span beyond its bounds.
    """
    if bool(schedule.cron) == bool(schedule.every_s):
        raise InvalidRequest(f"schedule '{schedule.name}' needs either cron words or an interval, one of both")
    if schedule.every_s and not (SHORTEST_S <= schedule.every_s <= LONGEST_S and float(schedule.every_s).is_integer()):
        raise InvalidRequest(
            f"an interval has whole seconds, {SHORTEST_S:.0f} to {LONGEST_S:.0f}, got {schedule.every_s:g}"
        )
    for what, span in (("deadline", schedule.deadline_s), ("spread", schedule.spread_s)):
        if not 0 <= span <= LONGEST_SPAN_S:
            raise InvalidRequest(f"the {what} of a schedule is 0 to {LONGEST_SPAN_S:.0f} seconds, got {span:g}")
    return times_of(schedule)


def offset_of(schedule: Schedule) -> float:
    """Seconds after its nominal instants at which the schedule is due; always the same for one schedule."""
    if schedule.spread_s < 1:
        return 0.0
    number = int.from_bytes(hashlib.sha256(f"spread:{schedule.uuid}".encode()).digest()[:8])
    return float(number % int(schedule.spread_s))


def instant_name(nominal_at: float) -> str:
    """`20261121T020000Z`: the nominal instant in submission keys."""
    return datetime.datetime.fromtimestamp(nominal_at, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
