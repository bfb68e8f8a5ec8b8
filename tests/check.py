"""Run every check of the project: format, lint, types, import contracts, tests.

    python tests/check.py [--no-tests] [pytest arguments]

Tests of daemons mostly wait for other processes, so several run at a time. Each of these processes would compile all
tests at its start, with their assertions rewritten; one does it beforehand, beside the other checks.

Ends with the command that failed, so that it can be repeated by hand.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("lint-imports", "--no-cache"),
)
COMPILE = ("pytest", "-q", "--collect-only", "-p", "no:cacheprovider")
AT_ONCE = ("-n", "4", "--dist", "worksteal")
# the slowest tests are named: who adds one sees it
TOLD = ("--durations=10", "--durations-min=5")
# compiled code is kept, whatever an image of a container prefers
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def main(arguments: list[str]) -> int:
    checks = [list(check) for check in CHECKS]
    if "--no-tests" in arguments:
        return run_all(checks)
    with compiling():
        code = run_all(checks)
    return code or run_all([["pytest", "-q", *AT_ONCE, *TOLD, *arguments]])


def run_all(checks: list[list[str]]) -> int:
    for check in checks:
        print(f"== {' '.join(check)}", flush=True)
        command = [str(BIN / check[0]), *check[1:]]
        done = subprocess.run(command, cwd=CHECKOUT, check=False, env=ENVIRONMENT)
        if done.returncode != 0:
            print(f"\nfailed ({done.returncode}): cd {CHECKOUT} && {' '.join(command)}", flush=True)
            return 1
    return 0


@contextmanager
def compiling() -> Iterator[None]:
    """Compile all tests meanwhile; what is wrong with one is told when they are run."""
    command = [str(BIN / COMPILE[0]), *COMPILE[1:]]
    with subprocess.Popen(command, cwd=CHECKOUT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
