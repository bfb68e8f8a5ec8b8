"""The simulated cluster finds each way to break the machine. Source: lease.md 9."""

import pytest

from tests.property.keeperd.lastone import last_one_crashes
from tests.property.keeperd.machinemutants import MUTANTS
from tests.property.keeperd.torment import Plan, Torment
from tests.property.keeperd.world import Broken

# what finds it soon: the seed, what breaks, and by which faults; none: by all
SEEDS = {
    "deadline_from_the_answer": (0, "act at the same time", ("25 ",)),
    "release_before_the_daemons_are_dead": (4, "act at the same time", ()),
    "late_keepalive_counts": (0, "after its deadline|due at", ()),
    "stale_nodes_campaign": (4, "acknowledged writes", ()),
    "older_etcd_is_believed": (6, "acknowledged writes|after a calm|epochs do not rise", ()),
    "no_margin": (5, "act at the same time", ("7 ", "13 ")),
}


def storm_until_broken(seed: int, only: tuple[str, ...]) -> None:
    for tried in range(seed, seed + 6):
        Torment(tried, Plan(only=only)).run(5400.0)


def crash_until_broken() -> None:
    for seed in range(40):
        last_one_crashes(seed)


@pytest.mark.parametrize("mutant", SEEDS)
def test_broken_machine_is_found_out(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, text, only = SEEDS[mutant]
    MUTANTS[mutant](monkeypatch.setattr)

    with pytest.raises(Broken, match=text):
        storm_until_broken(seed, only)


def test_key_of_the_same_name_that_is_taken_for_ours_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["name_instead_of_nonce"](monkeypatch.setattr)

    with pytest.raises(Broken, match="key of another process"):
        crash_until_broken()


def test_every_mutant_is_tried() -> None:
    assert {*SEEDS, "name_instead_of_nonce"} == set(MUTANTS)
