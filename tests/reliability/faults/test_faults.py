"""The short form of `make faults`: some system calls, chosen by a seed, fail, and no promise is broken.

By hand it makes a thousand runs. Another seed: GANTRY_SEED.
"""

import os
import re

import pytest

from tests.reliability.program import HALVES, run_program

SEED = os.environ.get("GANTRY_SEED", "1")
RUNS = 12


@pytest.mark.parametrize("scenarios", HALVES, ids=("jobs", "others"))
def test_a_system_call_that_fails_once_breaks_no_promise(scenarios: tuple[str, ...]) -> None:
    names = [word for name in scenarios for word in ("--scenario", name)]

    said = run_program("tests.reliability.faults.faults", *names, "--sample", str(RUNS), "--seed", SEED)

    found = re.search(r"faults: (\d+) points, \d+ faults at them, (\d+) runs, (\d+) struck", said)
    assert found, said
    points, runs, struck = map(int, found.groups())
    assert points > 300
    assert runs == RUNS
    # how often a call is made differs a little from run to run
    assert struck >= RUNS // 2


def test_a_fault_strikes_where_the_plan_says() -> None:
    said = run_program("tests.reliability.faults.faults", "--replay", "config", "wconfd:rename:2:kill")

    assert re.search(r"config wconfd:rename:2:kill: struck=True rename \S+ pid=\d+ ends=\{'wconfd': 1\}", said)


@pytest.mark.parametrize(
    ("scenario", "fault"),
    [
        # a child that could not make its livelock logged a crash, as if that were a bug
        ("submit", "job:open:1:EMFILE"),
        # a supervisor that was killed before it had started the command was taken for a bug of the unit
        ("submit", "command:fork:1:kill"),
        # and one that could not fork crashed itself
        ("submit", "command:fork:1:EAGAIN"),
    ],
)
def test_a_fault_that_once_broke_a_promise_breaks_none_now(scenario: str, fault: str) -> None:
    assert "struck=True" in run_program("tests.reliability.faults.faults", "--replay", scenario, fault)
