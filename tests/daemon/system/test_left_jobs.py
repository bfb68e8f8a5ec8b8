"""All jobs that an old master has left are killed, at a cost that does not grow with their number."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from common.paths import Paths
from common.settings import Settings
from common.system import processes
from common.system.livelock import is_alive
from common.system.masterdaemons import MasterDaemons
from common.system.processes import Process, kill_left_jobs
from tests.support.wait import PATIENCE_S, wait_until


def job(livelocks: Path, number: int) -> "subprocess.Popen[bytes]":
    """A process that holds a livelock, and has started another one, which holds it too."""
    return subprocess.Popen(["flock", str(livelocks / f"job_{number}_1"), "sleep", "1000"])


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An item for each time that all processes of the machine are looked at."""
    found: list[int] = []
    real = processes._numbers

    def counted() -> Iterator[int]:
        found.append(1)
        return real()

    monkeypatch.setattr(processes, "_numbers", counted)
    return found


def test_many_jobs_are_killed_by_as_many_looks_at_all_processes_as_one(tmp_path: Path, scans: list[int]) -> None:
    def scans_for(numbers: range) -> int:
        jobs = [job(tmp_path, number) for number in numbers]
        paths = [str(tmp_path / f"job_{number}_1") for number in numbers]
        wait_until(lambda: all(Path(path).exists() and is_alive(path) for path in paths), what="the jobs live")
        scans.clear()
        killed = kill_left_jobs(tmp_path)
        count = len(scans)
        assert len(killed) >= len(jobs)
        wait_until(lambda: not kill_left_jobs(tmp_path), what="nothing is left of them")
        for each in jobs:
            each.wait(PATIENCE_S)
        return count

    assert scans_for(range(10, 16)) == scans_for(range(1))


def test_the_end_of_all_jobs_waits_for_a_launcher_that_does_not_answer_yet(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.livelocks.mkdir(parents=True)
    one = job(paths.livelocks, 1)
    path = paths.livelocks / "job_1_1"
    wait_until(lambda: path.exists() and is_alive(str(path)), what="the job lives")
    asked: list[str] = []

    def end_launched(livelock: str) -> frozenset[Process]:
        asked.append(livelock)
        if len(asked) == 1:
            raise OSError("the launcher is away")
        return frozenset()

    trio.run(MasterDaemons(Settings(paths), lambda _: end_launched).end_jobs)

    assert set(asked) == {str(path)}
    assert not is_alive(str(path))
    one.wait(PATIENCE_S)
