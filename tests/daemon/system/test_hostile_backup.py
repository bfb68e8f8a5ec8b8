"""A folder from a backup that somebody has tampered with: what is no file stops a daemon with a word, and no link is
followed out of it (issue 24, section 2)."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.luxi.history import ReadHistory
from tests.daemon.luxid.ops import command, dummy
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with an ended job, as a backup has it."""
    with Cluster(tmp_path / "first") as first:
        first.start()
        first.wait(first.submit(dummy()))
        first.stop()
    shutil.copytree(tmp_path / "first" / "lib", tmp_path / "r" / "lib", symlinks=True)
    with Cluster(tmp_path / "r") as cluster:
        yield cluster


def _zero(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


def _replace(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink(missing_ok=True)
    make(path)


@pytest.mark.parametrize(
    "name", ["config.data", "locks.data", "schedules.data", "queue/job-1", "submissions/x", "waits/0"]
)
def test_a_pipe_in_the_place_of_a_file_stops_the_daemon_with_a_word(restored: Cluster, name: str) -> None:
    path = restored.paths.data / name
    _replace(path, os.mkfifo)

    with pytest.raises(AssertionError) as ended:
        restored.start()
    # whoever looks at the files at the end of a test would wait for it
    path.unlink()

    assert f"error: '{path}' is neither a file nor a folder; a backup may have brought it" in str(ended.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make devices")
def test_a_device_without_an_end_is_not_read(restored: Cluster) -> None:
    _replace(restored.paths.config_data, _zero)

    with pytest.raises(AssertionError, match="is neither a file nor a folder"):
        restored.start("wconfd")


@pytest.mark.parametrize("name", ["history.sqlite", "history.sqlite-wal"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_the_history_follows_no_link_and_waits_for_no_pipe(
    restored: Cluster, tmp_path: Path, name: str, kind: str
) -> None:
    precious = tmp_path / "precious"
    precious.touch(0o644)
    _replace(restored.paths.data / name, os.mkfifo if kind == "pipe" else lambda path: path.symlink_to(precious))

    if kind == "pipe":
        with pytest.raises(AssertionError, match="is neither a file nor a folder"):
            restored.start()
        return
    restored.start()

    # it was made anew
    wait_until(lambda: [job.id for job in restored.luxi(ReadHistory()).jobs] == [1], what="the history has its job")
    assert (precious.read_bytes(), stat.S_IMODE(precious.stat().st_mode)) == (b"", 0o644)


def test_nothing_is_written_through_links_in_the_places_of_files(restored: Cluster, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious\n")
    data = restored.paths.data
    for name in (
        "output/job-2",
        "output/job-2.err",
        "joblogs/job-2",
        "queue/job-2",
        "waits/9",
        "removals.tmp",
        "notify.since",
    ):
        (data / name).unlink(missing_ok=True)
        (data / name).symlink_to(precious)

    restored.start()
    restored.wait(restored.submit(command("sh", "-c", "echo evil; echo evil >&2", stderr_apart=True)))

    assert precious.read_text() == "precious\n"
