"""The proof that the tests guard what they should: `make mutations`.

One safeguard at a time is taken out of a scratch copy of the checkout, and the tests that are named with it are run
there. First all of them are run with nothing taken out: they have to pass. A mutant is caught when a test that is named
with it fails in its call phase, and fails again when it is run once more. It is not caught by anything else: by a test
that is not named, by one that cannot be set up, by a failure that does not come again, by a run that does not end.

    --only WORD     those whose name has this word
    --sample N      so many of them, chosen by the seed
    --seed S
    --workers N     so many at once
    --output json   the result of each as JSON

Exit code 1: a mutant was not caught, a named test fails although nothing is missing, or the text that a mutant replaces
is not there any more.
"""

import argparse
import concurrent.futures
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.reliability.mutations.mutants import MUTANTS, Mutant
from tests.reliability.mutations.noticing import Ending, Noticed, run_tests

CHECKOUT: Final = Path(__file__).resolve().parents[3]
MODULE: Final = "tests.reliability.mutations.mutations"
CAUGHT: Final = "caught"
_PACKAGES: Final = (
    "common",
    "protocol",
    "daemons",
    "cli",
    "tests",
    "deploy",
    "pyproject.toml",
    "README.md",
    "Makefile",
)

Run = Callable[[Path, Sequence[str]], Noticed]


@attrs.frozen
class Result:
    """What became of one mutant."""

    name: str
    # CAUGHT, or why it is not
    verdict: str
    # the test that noticed, or that should have
    test: str
    # what that test said
    reason: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        return self.verdict == CAUGHT


def main(arguments: list[str]) -> int:
    given = _read(arguments)
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.name]
    if given.sample is not None and given.sample < len(chosen):
        chosen = random.Random(given.seed).sample(chosen, given.sample)
    began = time.monotonic()
    with Copies() as copies, concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        unchanged = [
            test for tests in pool.map(copies.failing_unchanged, _shares(chosen, given.workers)) for test in tests
        ]
        for test in unchanged:
            print(f"fails although nothing is missing: {test}", file=sys.stderr)
        results = list(pool.map(lambda mutant: _told(copies.judge(mutant, unchanged)), chosen))
    seconds = time.monotonic() - began
    if given.output == "json":
        print(json.dumps({"seconds": round(seconds, 1), "mutants": [attrs.asdict(each) for each in results]}, indent=2))
    else:
        _print_table(results, seconds)
    return 0 if results and all(result.is_caught for result in results) else 1


def mutate(root: Path, mutant: Mutant) -> str:
    """Take the safeguard out of the checkout at `root`; returns the file's text as it was.

    Raises: ValueError: its text is not there exactly once.
    """
    path = root / mutant.path
    text = path.read_text()
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.path} has the text to replace {count} times")
    path.write_text(text.replace(mutant.old, mutant.new))
    return text


def judge(mutant: Mutant, run: Run, root: Path, failing_unchanged: Sequence[str] = ()) -> tuple[str, str, str]:
    """What the tests that are named with a mutant, which is in the checkout at `root`, say of it.

    Args:
        failing_unchanged: tests that prove nothing, as they fail without it, too.
    Returns:
        The verdict, the test that it is by, and what that said.
    """
    tests = [test for test in mutant.tests if test not in failing_unchanged]
    if not tests:
        return "no test: those named fail without it, too", mutant.tests[0], ""
    first = run(root, tests)
    if failed := first.which(Ending.FAILED):
        again = run(root, failed)
        if certain := again.which(Ending.FAILED):
            return CAUGHT, certain[0], again.reasons[certain[0]]
        return "by chance: failed once, not twice", failed[0], first.reasons[failed[0]]
    for ending in (Ending.BROKE, Ending.NOT_RUN):
        if tests := list(first.which(ending)):
            return ending.value, tests[0], first.reasons[tests[0]]
    return "SURVIVED", tests[0] if tests else mutant.tests[0], ""


class Copies:
    """Scratch copies of the checkout: one for each thread."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._folders: list[tempfile.TemporaryDirectory[str]] = []

    def __enter__(self) -> "Copies":
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders:
            folder.cleanup()

    def failing_unchanged(self, tests: Sequence[str]) -> tuple[str, ...]:
        """Those that do not pass with nothing taken out."""
        return run_tests(self._root(), tests).which(Ending.FAILED, Ending.BROKE, Ending.NOT_RUN) if tests else ()

    def judge(self, mutant: Mutant, failing_unchanged: Sequence[str]) -> Result:
        """Take one safeguard out, ask the tests, put it back. Raises: ValueError: as `mutate`."""
        root = self._root()
        began = time.monotonic()
        before = mutate(root, mutant)
        try:
            verdict, test, reason = judge(mutant, run_tests, root, failing_unchanged)
        finally:
            (root / mutant.path).write_text(before)
        return Result(mutant.name, verdict, test, reason, round(time.monotonic() - began, 1))

    def _root(self) -> Path:
        if not hasattr(self._of_thread, "root"):
            folder = tempfile.TemporaryDirectory(prefix="gantry-mutation-")
            self._folders.append(folder)
            self._of_thread.root = Path(folder.name)
            _copy(self._of_thread.root)
        root: Path = self._of_thread.root
        return root


def _copy(root: Path) -> None:
    for name in _PACKAGES:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)


def _shares(mutants: Sequence[Mutant], workers: int) -> list[list[str]]:
    """The tests of these mutants, each once, for so many workers."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    return [tests[start::workers] for start in range(workers)]


def _told(result: Result) -> Result:
    print(f"{result.seconds:5.0f} s  {result.name}: {result.verdict}", file=sys.stderr, flush=True)
    return result


def _print_table(results: Sequence[Result], seconds: float) -> None:
    width = max((len(result.name) for result in results), default=0)
    print(f"{'SAFEGUARD':{width}}  {'VERDICT':8}  TEST")
    for result in results:
        print(f"{result.name:{width}}  {result.verdict:8}  {result.test}")
        if not result.is_caught and result.reason:
            print(f"{'':{width}}  {'':8}  {result.reason}")
    caught = sum(result.is_caught for result in results)
    print(f"mutations: {len(results)} tried, {caught} caught, {len(results) - caught} not caught, {seconds:.0f} s")


def _read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(MODULE, description="Take out one safeguard at a time: a test has to notice.")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", choices=("table", "json"), default="table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
