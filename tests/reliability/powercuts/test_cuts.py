"""The short form of `make cuts`: the power is cut at some points of each scenario, chosen by a seed.

Another seed: GANTRY_SEED.
"""

import os
import re

import pytest

from tests.reliability.program import HALVES, OURS, run_program

SEED = os.environ.get("GANTRY_SEED", "1")
CUTS_EACH = 20


@pytest.mark.parametrize("scenarios", [*HALVES, OURS], ids=("jobs", "others", "ours"))
def test_a_power_cut_breaks_no_promise(scenarios: tuple[str, ...]) -> None:
    names = [word for name in scenarios for word in ("--scenario", name)]

    said = run_program(
        "tests.reliability.powercuts.cuts", *names, "--sample", str(CUTS_EACH), "--daemons", "1", "--seed", SEED
    )

    found = re.search(r"cuts: (\d+) judged, (\d+) of them with daemons, 0 with violations", said)
    assert found, said
    assert int(found[1]) >= CUTS_EACH * 3 // 4 * len(scenarios)
    assert int(found[2]) == len(scenarios)
