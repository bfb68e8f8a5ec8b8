"""The name of this machine's time zone, by which days are told."""

import os
from pathlib import Path
from typing import Final

_LINK: Final = Path("/etc/localtime")
_ZONES: Final = "zoneinfo/"


def local_zone() -> str:
    """`Europe/Athens`, by $TZ or by the link that says it for the machine; `UTC` if neither names one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = os.readlink(_LINK)
    except OSError:
        return "UTC"
    return target.partition(_ZONES)[2] or "UTC"
