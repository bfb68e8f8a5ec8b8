"""What `test_kill_job` shows of root also holds for daemons of an ordinary user, without control groups."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]
NOBODY = 65534
CHOSEN = "all_that or whose_job_process or what_an_ended_job"
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all"),
)
# runs itself once more: `setpriv` may have started it with rights that are gone then
CAN_RUN = "import platform, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True); "
IS_SAME = f"sys.exit(platform.python_version_tuple()[:2] != {platform.python_version_tuple()[:2]})"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of his own; those above `tmp_path` are root's alone."""
    folder = Path(f"/tmp/kills-{os.getpid()}")
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def interpreter(folder: Path) -> str:
    """An interpreter that he can run, and that finds what we have installed."""
    for base in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        if not subprocess.run([*AS_NOBODY, base, "-c", CAN_RUN + IS_SAME], capture_output=True).returncode:
            break
    else:
        pytest.skip("an ordinary user can run no interpreter of this version")
    subprocess.run([*AS_NOBODY, base, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = next((folder / "venv").glob("lib/python*/site-packages"))
    (packages / "ours.pth").write_text(sysconfig.get_paths()["purelib"])
    return str(folder / "venv" / "bin" / "python")


def test_kills_end_all_of_a_job(folder: Path) -> None:
    python = interpreter(folder)
    tests = str(CHECKOUT / "tests/daemon/luxid/processes/test_kill_job.py")
    if subprocess.run([*AS_NOBODY, python, "-c", "import pytest, tests.support.cluster"], cwd=CHECKOUT).returncode:
        pytest.skip("an ordinary user cannot read this checkout")

    options = ("-q", "-p", "no:cacheprovider", "-k", CHOSEN, f"--basetemp={folder}/t")

    ended = subprocess.run(
        [*AS_NOBODY, python, "-B", "-m", "pytest", *options, tests],
        cwd=CHECKOUT,
        env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert "6 passed" in ended.stdout
