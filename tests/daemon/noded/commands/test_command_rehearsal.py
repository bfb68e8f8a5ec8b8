"""The fork server of noded rehearses: nothing remains of it but memory."""

import subprocess
import sys
from pathlib import Path

from common.paths import Paths
from tests.cli.command import CHECKOUT, environment

# in a process of its own: it forks, and installs handlers
SCRIPT = """
import sys
from pathlib import Path
from common.settingsfile import load_settings
from daemons.noded.commands.forking import ROUNDS, rehearse
print(rehearse(load_settings(Path(sys.argv[1]))) == ROUNDS)
"""


def rehearsed(root: Path) -> str:
    words = [sys.executable, "-P", "-c", SCRIPT, str(root)]
    done = subprocess.run(words, env=environment(), cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_each_round_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    (paths.run / "command-rehearsal-cut-off").mkdir()

    said = rehearsed(tmp_path)

    assert said == "True\n"
    assert list(paths.run.glob("*rehearsal*")) == []
    assert not paths.node_commands.exists()


def test_a_rehearsal_that_fails_stops_nothing(tmp_path: Path) -> None:
    assert "False" in rehearsed(tmp_path)
