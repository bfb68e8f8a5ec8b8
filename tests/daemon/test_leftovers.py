"""What a killed daemon was just writing is removed by the next one, and nothing else is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.durable.atomicfile import FileWrite, remove_leftovers, stage_files
from tests.support.cluster import Cluster

RANDOM = "0123456789ab"


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.paths.make_folders()
        yield cluster


def left_by(path: Path) -> Path:
    """What a kill between the two steps of writing this file leaves."""
    left = path.with_name(f"{path.name}-{RANDOM}.tmp")
    left.write_text("{")
    return left


def test_each_removes_its_own(idle: Cluster) -> None:
    paths = idle.paths
    of_wconfd = [
        left_by(path)
        for path in (
            paths.config_data,
            paths.locks_data,
            paths.locks_data.with_name("locks.data.journal"),
            paths.may_run_data,
            paths.tempres_data,
            paths.ssconf_file("master_node"),
        )
    ]
    of_luxid = [left_by(path) for path in (paths.watcher_pause, paths.submissions / "abc", paths.serial_file)]
    of_luxid.append(paths.messages / "7.tmp")
    of_luxid[-1].touch()
    of_others = [left_by(paths.data / "notes"), paths.data / "config.data.tmp"]
    of_others[-1].touch()

    idle.start("wconfd")
    assert [path for path in of_wconfd if path.exists()] == []
    assert all(path.exists() for path in (*of_luxid, *of_others))
    idle.start("luxid")

    assert [path for path in of_luxid if path.exists()] == []
    assert all(path.exists() for path in of_others)
    assert "writes.cut_off" in idle.log("wconfd")


def test_they_are_known_by_the_names_that_writes_give_them(tmp_path: Path) -> None:
    stage_files([FileWrite(tmp_path / "a", b"x"), FileWrite(tmp_path / "b", b"y")])

    assert remove_leftovers(tmp_path, lambda name: name == "a") == ["a"]

    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["b"]
