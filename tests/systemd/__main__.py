"""Run the scenarios under a real systemd, two at once, and print a table of them with results.

python -m tests.systemd [--if-possible] [pytest arguments]

Before the first scenario a Debian without Gantry is booted. If this machine cannot do that, the exit code is 1, or 0
with --if-possible. With GANTRY_SYSTEMD_TREE=FOLDER the tree of Debian is kept there for the next time.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.systemd.containers.ability import IF_POSSIBLE, exit_code, why_not_here
from tests.systemd.containers.prepared import Prepared
from tests.systemd.scenarios import ScenarioTable

# scenarios wait most of their time; those of one file share a machine
_AT_ONCE: Final = ("--numprocesses=2", "--dist=loadfile")


def main(arguments: list[str]) -> int:
    chosen = [word for word in arguments if word.startswith("tests/systemd")] or ["tests/systemd"]
    options = [word for word in arguments if word not in (*chosen, IF_POSSIBLE)]
    root = Path(__file__).resolve().parents[2]
    # not in memory, where overlays may be refused
    with tempfile.TemporaryDirectory(prefix="gantry-systemd-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        if why := why_not_here(Path(folder)):
            return exit_code(why, "the scenarios under systemd", is_optional=IF_POSSIBLE in arguments)
        Prepared.make(Path(folder))
        # the table has all that the short lines would say
        return pytest.main(["-q", *_AT_ONCE, f"--rootdir={root}", *options, *chosen], plugins=[ScenarioTable()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
