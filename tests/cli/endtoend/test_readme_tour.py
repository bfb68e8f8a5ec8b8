"""The tour of README: each line does what its remark says, in an empty folder, by a shell as a reader's."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.leftovers import processes_under
from tests.support.wait import wait_until

CHECKOUT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
HEAD = "Anywhere, as an ordinary user:\n\n"
INSTALLS = "python3 -m venv ~/gantry && ~/gantry/bin/pip install . && "


def tour() -> list[str]:
    """The commands, without their remarks."""
    block = (CHECKOUT / "README.md").read_text().partition(HEAD)[2].partition("\n\n")[0]
    return [line.split("  #")[0].split(" # ")[0].strip() for line in block.splitlines()]


class Reader:
    """A reader at a shell whose home is empty, after the installation of the first line."""

    def __init__(self, home: Path, first: str) -> None:
        assert first.startswith(INSTALLS)
        self._exports = first.removeprefix(INSTALLS)
        self._environment = {"HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "LANG": "C.UTF-8"}

    def type(self, line: str) -> str:
        ended = subprocess.run(
            ["bash", "-c", f"{self._exports} && {line}"],
            env=self._environment,
            cwd=self._environment["HOME"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, (line, ended)
        return ended.stdout


@pytest.fixture
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    # short, as the paths of sockets are
    home = tmp_path_factory.mktemp("h")
    reader = Reader(home, tour()[0])
    yield reader
    reader.type("gnt-job cancel --kill 2 || true; gnt-job wait 2 || true; gantry down")
    assert processes_under(home / "gantry-tour") == []


def test_the_tour_leads_to_a_job_that_waits_and_tells_for_whom(reader: Reader) -> None:
    up, first, holding, waiting, why = tour()[1:]

    reader.type(up)
    assert reader.type(first) == reader.type("uname -a")
    assert reader.type(holding).split() == ["2"]
    wait_until(lambda: reader.type("gnt-job why 2").startswith("job 2: running"), what="job 2 to have its lock")
    assert reader.type(waiting).split() == ["3"]

    assert why == "gnt-job why 3"
    chain = re.compile(r"job 3: waiting .*for node/web1 \(exclusive\), held by job/2.*job 2: running", re.S)
    wait_until(lambda: chain.search(reader.type(why)) is not None, what="job 3 to wait", state=lambda: reader.type(why))
