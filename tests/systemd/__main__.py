"""Run the scenarios under a real systemd, and print a table of them with results.

python -m tests.systemd [pytest arguments]

With GANTRY_SYSTEMD_TREE=FOLDER the tree of Debian is kept there for the next time.
"""

import sys
from pathlib import Path

import pytest

from tests.systemd.scenarios import ScenarioTable, why_not_here


def main(arguments: list[str]) -> int:
    if why := why_not_here():
        print(f"left out, all scenarios under systemd: {why}", file=sys.stderr)
        return 0
    chosen = [word for word in arguments if word.startswith("tests/systemd")] or ["tests/systemd"]
    options = [word for word in arguments if word not in chosen]
    root = Path(__file__).resolve().parents[2]
    # the table has all that the short lines would say
    return pytest.main(["-q", f"--rootdir={root}", *options, *chosen], plugins=[ScenarioTable()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
