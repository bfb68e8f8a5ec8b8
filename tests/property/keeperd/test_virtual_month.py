"""Three keepers, an etcd and random faults in virtual time: some hours here, a month by hand.

    python -m tests.property.keeperd --seed 7 --days 30

Checked all the time: at most one node may act by true time, no lease is given back while daemons live, a keeper past
its deadline is lost, a new master has all that was acknowledged. After each storm: epochs have only risen, one node
has written in each, and somebody is the master. Source: lease.md 9.
"""

from collections import Counter

import pytest

from daemons.keeperd.core.states import STEPS, State
from tests.property.keeperd.lastone import last_one_crashes
from tests.property.keeperd.torment import Plan, Torment

HOURS = 1.5


def test_hours_of_faults_break_nothing_and_reach_every_state() -> None:
    seen: Counter[str] = Counter()

    for seed in range(1, 4):
        torment = Torment(seed, Plan())
        torment.run(HOURS * 3600)
        seen.update(torment.world.counts)

    entered = {step.split(" -> ")[1] for step in seen if " -> " in step}
    assert {state.value for state in State} - entered <= {"off"}
    assert seen["calm"] >= 9
    assert seen["ended by the guard"]
    assert seen["write refused"]


def test_all_steps_that_were_made_are_in_the_table() -> None:
    torment = Torment(4, Plan(ttl_s=5.0, gap_s=15.0))
    torment.run(HOURS * 1800)

    steps = [step.split(" -> ") for step in torment.world.counts if " -> " in step]
    # several steps may be made at one event; each of them is checked by the machine itself
    assert len(steps) > 15
    assert {before for before, _ in steps} <= {state.value for state in STEPS}


@pytest.mark.parametrize("seed", range(3))
def test_last_node_whose_keeperd_dies_again_and_again_takes_no_foreign_key(seed: int) -> None:
    last_one_crashes(seed)


def test_same_seed_makes_the_same_world() -> None:
    one, other = Torment(9, Plan()), Torment(9, Plan())

    one.run(600.0)
    other.run(600.0)

    assert one.world.counts == other.world.counts
    assert one.world.story == other.world.story
