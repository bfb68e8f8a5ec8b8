"""Ranges of the sizes of instances on a command line (Ganeti's `gnt-group modify`)."""

import re

import pytest

from cli.parameters import parse_bounds

LEAST = "memory-size=128,disk-size=1g,disk-count=0,cpu-count=1,nic-count=0,spindle-use=1"
MOST = "memory-size=2G,disk-size=1t,disk-count=16,cpu-count=8,nic-count=8,spindle-use=12"
SIZES = {"memory-size": 128, "disk-size": 1024, "disk-count": 0, "cpu-count": 1, "nic-count": 0, "spindle-use": 1}


def test_ranges_have_sizes_with_units() -> None:
    one, other = parse_bounds(f"min:{LEAST}/max:{MOST}//max:{LEAST}/min:{LEAST}")

    assert one["min"] == SIZES
    assert one["max"] == {
        **{"memory-size": 2048, "disk-size": 1024 * 1024, "disk-count": 16},
        **{"cpu-count": 8, "nic-count": 8, "spindle-use": 12},
    }
    assert other == {"max": SIZES, "min": SIZES}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is not one of min:... and max:..., with a / between them"),
        (f"min:{LEAST}", "' has no part max:..."),
        (f"min:{LEAST}/min:{LEAST}", "is not one of min:... and max:..., with a / between them"),
        ("min:cpu-count=1/max:cpu-count=2", "min lacks memory-size, disk-size, disk-count, nic-count, spindle-use"),
        (f"min:{LEAST},shape=1/max:{MOST}", "'shape' of min cannot be limited; known are memory-size, "),
        (f"min:{LEAST}/max:{MOST},cpu-count=many", "'cpu-count=many' is not a number"),
        (f"min:{LEAST}/max:{MOST},disk-size=5q", "'disk-size=5q' is not a number"),
        (f"min:{LEAST}/max:{MOST},cpu-count", "'cpu-count=' is not a number"),
    ],
)
def test_what_is_wrong_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_bounds(text)
