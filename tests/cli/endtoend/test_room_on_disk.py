"""`gnt-cluster verify` says when there is no room for the daemons' writes."""

import os
from pathlib import Path

import pytest

from cli.cluster.verify import FILES, JOB_BYTES, check_files, room_problems
from common.paths import Paths
from tests.support.fakes.disks import no_room, small_disk

FOLDER = Path("/data")


def room(*, bytes_free: int = 2**30, files: int = 1000, files_free: int = 1000, flags: int = 0) -> os.statvfs_result:
    return os.statvfs_result((4096, 1, 2**40, bytes_free, bytes_free, files, files_free, files_free, flags, 255))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (room(), None),
        (room(bytes_free=4096), "'/data' has 4096 bytes free, and a write may need 5000"),
        (room(files_free=FILES - 1), f"'/data' has room for {FILES - 1} more files, and {FILES} may be needed"),
        # one that counts no files, as btrfs
        (room(files=0, files_free=0), None),
        (room(flags=os.ST_RDONLY), "'/data' is on a disk that is read-only"),
    ],
)
def test_what_is_short_is_told_with_what_is_needed(found: os.statvfs_result, words: str | None) -> None:
    problems = list(room_problems(FOLDER, found, 5000))

    assert len(problems) == (words is not None)
    assert words is None or problems[0].startswith(words)


def test_a_full_disk_is_a_problem_until_there_is_room(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    with small_disk(paths.data, kilobytes=2 * JOB_BYTES // 1024):
        paths.queue.mkdir()
        assert check_files(paths)["disk"] == []

        with no_room(paths.data):
            [problem] = check_files(paths)["disk"]

        assert problem.startswith(f"'{paths.data}' has 0 bytes free, and a write may need {JOB_BYTES}; make room")
        assert check_files(paths)["disk"] == []


def test_a_queue_on_a_disk_of_its_own_is_looked_at_too(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.data.mkdir(parents=True)
    with small_disk(paths.queue, kilobytes=64):
        [problem] = check_files(paths)["disk"]

    assert problem.startswith(f"'{paths.queue}' has ")
