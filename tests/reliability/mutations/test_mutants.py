"""Each safeguard that `mutations` takes out is where it says, and has a name of its own."""

import pytest

from tests.reliability.mutations.mutants import MUTANTS, Mutant
from tests.reliability.mutations.mutations import CHECKOUT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_safeguard_stands_where_its_mutant_says(mutant: Mutant) -> None:
    assert (CHECKOUT / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.tests
    assert all((CHECKOUT / test).exists() for test in mutant.tests)


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
