"""Run every check of the project: format, lint, types, import contracts, tests.

    python tests/check.py [--no-tests] [pytest arguments]

Tests of daemons mostly wait for other processes, so several run at a time.

Ends with the command that failed, so that it can be repeated by hand.
"""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("lint-imports", "--no-cache"),
)
AT_ONCE = ("-n", "4", "--dist", "worksteal")


def main(arguments: list[str]) -> int:
    checks = [list(check) for check in CHECKS]
    if "--no-tests" not in arguments:
        checks.append(["pytest", "-q", *AT_ONCE, *arguments])
    for check in checks:
        print(f"== {' '.join(check)}", flush=True)
        command = [str(BIN / check[0]), *check[1:]]
        done = subprocess.run(command, cwd=CHECKOUT, check=False)
        if done.returncode != 0:
            print(f"\nfailed ({done.returncode}): cd {CHECKOUT} && {' '.join(command)}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
