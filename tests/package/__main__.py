"""Build two versions of the package, and drive them through a life in a container of Debian.

python -m tests.package [pytest arguments]

With GANTRY_SYSTEMD_TREE=FOLDER the tree of Debian is kept there for the next time, as for tests.systemd.
"""

import sys
from pathlib import Path

import pytest

from tests.systemd.scenarios import ScenarioTable, why_not_here


def main(arguments: list[str]) -> int:
    if why := why_not_here():
        print(f"left out, all tests of the package: {why}", file=sys.stderr)
        return 0
    root = Path(__file__).resolve().parents[2]
    # in order: each test goes on where the one before has left the machine
    return pytest.main(["-q", "-x", f"--rootdir={root}", *arguments, "tests/package"], plugins=[ScenarioTable()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
