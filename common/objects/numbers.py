"""Numbers of the configuration, which may have a fraction.

Theory. Ganeti's daemons write a number without a fraction as a whole one (`1`, never `1.0`), whatever its field may
hold, and its programs and people compare texts. A value comes from files, from options and from sums, so each field
makes it so itself.
"""


def plain(value: float) -> float:
    """The same number; an `int` if it has no fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
