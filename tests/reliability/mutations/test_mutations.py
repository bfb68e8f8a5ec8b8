"""The judge of mutants: only a named test that fails itself, twice, is a catch. Real runs of a small checkout."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.reliability.mutations import noticing
from tests.reliability.mutations.mutants import Mutant
from tests.reliability.mutations.mutations import CAUGHT, judge, mutate
from tests.reliability.mutations.noticing import Ending, Noticed, run_tests

TESTS = """
import pytest
from pathlib import Path
import guarded

def test_it_notices():
    assert guarded.is_safe

def test_it_looks_elsewhere():
    assert guarded

@pytest.fixture
def broken():
    assert guarded.is_safe

def test_it_cannot_be_set_up(broken):
    pass

def test_it_trips_over_broken_code():
    if not guarded.is_safe:
        undefined_name

def test_it_fails_by_chance():
    seen = Path(__file__).with_name("seen")
    if not guarded.is_safe and not seen.exists():
        seen.touch()
        assert False

@pytest.mark.parametrize("wanted", [None, True])
def test_it_notices_with_a_parameter(wanted):
    assert wanted is None or guarded.is_safe == wanted

def test_it_hangs():
    while not guarded.is_safe:
        pass
"""
NOTICES = "test_small.py::test_it_notices"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "guarded.py").write_text("is_safe = True\n")
    (tmp_path / "test_small.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import guarded\nassert guarded.is_safe\ndef test_it(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugin = tmp_path / "tests" / "reliability" / "mutations"
    plugin.mkdir(parents=True)
    for folder in (plugin.parent.parent, plugin.parent, plugin):
        (folder / "__init__.py").touch()
    shutil.copy(noticing.__file__, plugin)
    return tmp_path


def mutant(*tests: str) -> Mutant:
    return Mutant("stay safe", "guarded.py", "is_safe = True", "is_safe = False", tests)


def judged(root: Path, *tests: str) -> str:
    taken_out = mutant(*(f"test_small.py::{test}" for test in tests))
    mutate(root, taken_out)
    return judge(taken_out, run_tests, root)[0]


def test_a_named_test_that_fails_catches_it_and_is_told_with_what_it_said(checkout: Path) -> None:
    taken_out = mutant("test_small.py::test_it_looks_elsewhere", NOTICES)
    mutate(checkout, taken_out)

    verdict, test, reason = judge(taken_out, run_tests, checkout)

    assert (verdict, test) == (CAUGHT, NOTICES)
    assert reason.startswith("AssertionError")


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("test_it_looks_elsewhere", "SURVIVED"),
        ("test_it_cannot_be_set_up", "broke"),
        ("test_it_trips_over_broken_code", "broke"),
        ("test_it_fails_by_chance", "by chance: failed once, not twice"),
        ("test_that_is_not_there", "not run"),
    ],
)
def test_nothing_else_catches_it(checkout: Path, test: str, verdict: str) -> None:
    assert judged(checkout, test) == verdict


def test_a_test_with_parameters_notices_if_one_of_them_does(checkout: Path) -> None:
    assert judged(checkout, "test_it_notices_with_a_parameter") == CAUGHT


def test_a_file_that_cannot_be_imported_catches_nothing(checkout: Path) -> None:
    taken_out = mutant("test_broken.py::test_it")
    mutate(checkout, taken_out)

    assert judge(taken_out, run_tests, checkout)[0] == "not run"


def test_a_run_that_does_not_end_catches_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a test that is not reached within it is judged the same
    monkeypatch.setattr(noticing, "PATIENCE_S", 2)

    assert judged(checkout, "test_it_hangs") == "not run"


def test_a_test_that_fails_without_the_mutant_proves_nothing(checkout: Path) -> None:
    asked: list[Sequence[str]] = []

    def run(root: Path, tests: Sequence[str]) -> Noticed:
        asked.append(tests)
        return Noticed(dict.fromkeys(tests, Ending.FAILED), dict.fromkeys(tests, ""))

    verdict, _, _ = judge(mutant(NOTICES), run, checkout, failing_unchanged=[NOTICES])

    assert (verdict.startswith("no test"), asked) == (True, [])


def test_unchanged_all_of_it_passes(checkout: Path) -> None:
    others = ("test_small.py::test_it_notices_with_a_parameter", "test_small.py::test_it_cannot_be_set_up")
    noticed = run_tests(checkout, [NOTICES, *others, "test_broken.py::test_it"])

    assert set(noticed.endings.values()) == {Ending.PASSED}
