"""Time zones by their IANA names."""

import datetime
from typing import Final

from common.errors import InvalidRequest

UTC: Final = "UTC"


def zone_named(name: str) -> datetime.tzinfo:
    """The zone with this name; "" is UTC.

    Raises: InvalidRequest: the system does not know it; says what to do.
    """
    if name in ("", UTC):
        # the zone of this name from the database is slower
        return datetime.UTC
    # imported late: most programs need no zones
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            f"unknown time zone {name!r:.80}; use a name such as Europe/Athens or UTC: 'timedatectl list-timezones' "
            "lists them",
            zone=name,
        ) from None
