"""The short form of the chaos of three nodes; by hand it makes 300 changes of the queue and 100 of the configuration.

Another seed: GANTRY_SEED.
"""

import os
import re

from tests.reliability.program import run_program

SEED = os.environ.get("GANTRY_SEED", "1")


def test_candidates_equal_the_master_after_kills_and_cuts() -> None:
    said = run_program("tests.reliability.chaos.chaos", "--seed", SEED, "--jobs", "16", "--changes", "6")

    found = re.search(r"(\d+) changes of the queue .*, (\d+) of the configuration in .*; (\d+) kills, (\d+) cuts", said)
    assert found, said
    jobs, changes, kills, cuts = map(int, found.groups())
    assert (jobs, changes) == (16, 6)
    assert kills + cuts >= 2
