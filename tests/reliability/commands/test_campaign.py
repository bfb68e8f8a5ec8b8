"""The short form of the campaign of commands on nodes; by hand it runs 200 jobs.

Another seed: GANTRY_SEED.
"""

import os
import re

from tests.reliability.program import run_program

SEED = os.environ.get("GANTRY_SEED", "1")


def test_nothing_runs_twice_or_without_its_lock_and_each_job_ends_right() -> None:
    said = run_program("tests.reliability.commands.campaign", "--seed", SEED, "--jobs", "24")

    found = re.search(r"24 jobs on three nodes .* (\d+) harms", said)
    assert found, said
    assert int(found[1]) >= 3
