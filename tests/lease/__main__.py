"""Run the tests that wait for leases to run out, and short forms of the campaign and of the measurement.

python -m tests.lease [pytest arguments]
"""

import subprocess
import sys
from pathlib import Path

from tests.support.etcds.etcd import is_etcd_required, usable_etcd, without_etcd

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    # most of their time they wait for a lease to run out
    ("pytest", "-q", "-n", "3", "--dist", "loadfile", "tests/lease"),
    ("tests.reliability.lease.takeovers", "--kinds", "all", "--count", "5"),
    ("tests.reliability.lease.run", "--minutes", "0.5"),
)


def main(arguments: list[str]) -> int:
    if usable_etcd() is None:
        print(f"left out: {without_etcd()}", file=sys.stderr)
        return 1 if is_etcd_required() else 0
    code = 0
    for program in PROGRAMS:
        more = arguments if program[0] == "pytest" else ()
        print(f"== {' '.join(program)}", flush=True)
        code |= subprocess.run([sys.executable, "-m", *program, *more], cwd=CHECKOUT, check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
