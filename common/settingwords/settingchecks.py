"""Checks of the values of settings, for fields of attrs classes.

Raises, all: ValueError: the value is refused; the text says what is allowed.

Source: common/settings.py.
"""

from typing import Final

from common.validation import Checked

# values of `cgroups`: the best version that works, one version only, or none
WAYS_TO_HOLD: Final = ("auto", "v2", "v1", "off")
# values of `enabled` where it depends on the rest of the settings
SWITCHES: Final = ("auto", "yes", "no")
# highest number of a TCP port
_LAST_PORT: Final = 65535


def positive(_: object, field: Checked, value: float) -> None:
    # this form refuses nan as well
    if not value > 0:
        raise ValueError(f"{field.name} must be greater than 0")


def not_negative(_: object, field: Checked, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{field.name} must be at least 0")


def file_mode(_: object, field: Checked, value: int) -> None:
    if not 0 <= value <= 0o777:
        raise ValueError(f"{field.name} must be a file mode such as 0o660")


def way_to_hold(_: object, field: Checked, value: str) -> None:
    if value not in WAYS_TO_HOLD:
        raise ValueError(f"{field.name} must be one of {', '.join(WAYS_TO_HOLD)}")


def port(_: object, field: Checked, value: int) -> None:
    if not 1 <= value <= _LAST_PORT:
        raise ValueError(f"{field.name} must be a port from 1 to {_LAST_PORT}")


def switch(_: object, field: Checked, value: str) -> None:
    if value not in SWITCHES:
        raise ValueError(f"{field.name} must be one of {', '.join(SWITCHES)}")
