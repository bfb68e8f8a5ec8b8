"""Root acts as the user of the daemons; in a process of its own, since the whole process acts so."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.cluster import CHECKOUT

USER = 54321
PROGRAM = """
import os, sys
from pathlib import Path
from common.system.accounts import as_owner_of, as_root_again
folder = Path(sys.argv[1])
with as_owner_of(folder):
    (folder / "file").touch()
    before = os.geteuid(), os.getegid(), os.getgroups()
    with as_root_again() as is_root:
        inside = os.geteuid(), is_root
    print(before, inside, os.geteuid())
print(os.geteuid(), (folder / "file").stat().st_uid)
"""


def run(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as others")
def test_what_root_makes_in_a_folder_of_another_user_is_that_users() -> None:
    # other users may not enter the folders of pytest
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, USER, USER)
        shown = run(Path(folder))

    assert shown == [f"({USER}, {USER}, []) (0, True) {USER}", f"0 {USER}"]


def test_in_ones_own_folder_nothing_changes(tmp_path: Path) -> None:
    own = os.geteuid()

    shown = run(tmp_path)

    assert shown[0].endswith(f"({own}, {own == 0}) {own}")
    assert shown[1] == f"{own} {own}"
