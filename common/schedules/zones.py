"""Time zones by their IANA names.

Theory. Zones are read from files. A shortage of descriptors or memory, or a faulty disk, says nothing about the name,
and is told apart from a name that no file has.
"""

import datetime
from typing import Final

from common.errors import InvalidRequest, Unavailable
from common.system.passing import is_passing

UTC: Final = "UTC"


def zone_named(name: str) -> datetime.tzinfo:
    """The zone with this name; "" is UTC.

    Raises:
        InvalidRequest: the system does not know it; says what to do.
        Unavailable: its file cannot be read now.
    """
    if name in ("", UTC):
        # the zone of this name from the database is slower
        return datetime.UTC
    # imported late: most programs need no zones
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        if isinstance(error, OSError) and is_passing(error):
            raise Unavailable(f"the time zone {name!r:.80} cannot be read now: {error.strerror}; try again") from error
        raise InvalidRequest(
            f"unknown time zone {name!r:.80}; use a name such as Europe/Athens or UTC: 'timedatectl list-timezones' "
            "lists them",
            zone=name,
        ) from None
