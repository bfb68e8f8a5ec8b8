"""The proof that the tests guard what they should: `make mutations`.

One safeguard at a time is taken out of a scratch copy of the checkout, and the tests that are named with it are run
there: one of them has to fail. A mutation that no test notices is a hole in the tests.

    --only WORD     those whose name has this word
    --sample N      so many of them, chosen by the seed
    --seed S

Exit code 1: a mutation survived, or the text that it replaces is not there any more.
"""

import argparse
import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.reliability.mutations.mutants import MUTANTS, Mutant

CHECKOUT: Final = Path(__file__).resolve().parents[3]
MODULE: Final = "tests.reliability.mutations.mutations"
# a mutation may make a test wait for ever
_PATIENCE_S: Final = 300
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
_AT_ONCE: Final = 2


def main(arguments: list[str]) -> int:
    given = _read(arguments)
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.name]
    if given.sample is not None and given.sample < len(chosen):
        chosen = random.Random(given.seed).sample(chosen, given.sample)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        survivors = sum(not is_caught for is_caught in pool.map(_try, chosen))
    caught = len(chosen) - survivors
    print(f"mutations: {len(chosen)} tried, {caught} caught, {survivors} survived, {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


def mutate(root: Path, mutant: Mutant) -> None:
    """Take the safeguard out of the checkout at `root`. Raises: ValueError: its text is not there exactly once."""
    path = root / mutant.path
    text = path.read_text()
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.path} has the text to replace {count} times")
    path.write_text(text.replace(mutant.old, mutant.new))


def _try(mutant: Mutant) -> bool:
    """Whether a test notices it."""
    with tempfile.TemporaryDirectory(prefix="gantry-mutation-") as folder:
        root = Path(folder)
        _copy(root)
        mutate(root, mutant)
        began = time.monotonic()
        outcome = _run_tests(root, mutant.tests)
        is_caught = outcome != "passed"
        verdict = "caught" if is_caught else "SURVIVED"
        print(f"{verdict:8} {time.monotonic() - began:5.0f} s  {mutant.name} ({outcome})", flush=True)
        return is_caught


def _copy(root: Path) -> None:
    for name in _PACKAGES:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)


def _run_tests(root: Path, tests: Iterable[str]) -> str:
    """`passed`, or how it ended otherwise."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not over after {_PATIENCE_S} s"
    if done.returncode == 0:
        return "passed"
    if done.returncode != 1:
        # no test ran: nothing is proved
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "failed")[:120]


def _read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(MODULE, description="Take out one safeguard at a time: a test has to notice.")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
