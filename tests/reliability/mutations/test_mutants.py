"""Each safeguard that `mutations` takes out is where it says, and is guarded by tests that are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.mutations.mutants import MUTANTS, Mutant
from tests.reliability.mutations.mutations import CHECKOUT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_safeguard_stands_where_its_mutant_says(mutant: Mutant) -> None:
    assert (CHECKOUT / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name.partition('[')[0]}\(", (CHECKOUT / path).read_text(), re.MULTILINE), (
            test
        )


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_no_mutant_breaks_the_code_itself(tmp_path: Path) -> None:
    """What cannot run, or names what is not there, would be noticed by any test."""
    for number, mutant in enumerate(MUTANTS):
        text = (CHECKOUT / mutant.path).read_text().replace(mutant.old, mutant.new)
        (tmp_path / f"mutant_{number}.py").write_text(text)

    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "E9,F82", str(tmp_path)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
