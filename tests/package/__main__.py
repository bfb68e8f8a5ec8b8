"""Build two versions of the package, and drive them through a life in a container of Debian.

python -m tests.package [--if-possible] [pytest arguments]

What a machine must be able to do, and the option and the variable about that, are those of tests.systemd.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.systemd.containers.ability import IF_POSSIBLE, exit_code, why_not_here
from tests.systemd.containers.tree import TREE
from tests.systemd.scenarios import ScenarioTable


def main(arguments: list[str]) -> int:
    options = [word for word in arguments if word != IF_POSSIBLE]
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="gantry-package-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault(TREE, folder)
        if why := why_not_here(Path(folder)):
            return exit_code(why, "the tests of the package", is_optional=IF_POSSIBLE in arguments)
        # in order: each test goes on where the one before has left the machine
        return pytest.main(["-q", "-x", f"--rootdir={root}", *options, "tests/package"], plugins=[ScenarioTable()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
