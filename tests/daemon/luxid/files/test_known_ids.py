"""No id is used twice, whatever is lost of the queue (DESIGN 11, "ids after a loss of `serial`")."""

import contextlib
import errno
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.knownids import GAP, KnownIds, look_for_ids
from daemons.luxid.files.loading import load_queue
from tests.daemon.luxid.ops import dummy, gated, process_of
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return paths


def put(path: Path, content: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def note_history(paths: Paths) -> None:
    with contextlib.closing(sqlite3.connect(paths.history)) as history, history:
        history.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
        history.execute("INSERT INTO jobs VALUES (22)")


# what has job 22, and nothing else has
TRACES: dict[str, Callable[[Paths], None]] = {
    "a job": lambda at: put(at.job_file(22)),
    "an archived job": lambda at: put(at.archived_job_file(22)),
    "a damaged job": lambda at: put(at.damaged / "job-22"),
    "a job set aside": lambda at: put(at.set_aside / "jobs-1" / "job-22"),
    "an archived job set aside": lambda at: put(at.set_aside / "jobs-1" / "queue" / "archive" / "0" / "job-22"),
    "a removed job": lambda at: put(at.removals, '{"begun_at": 3, "jobs": [[7, 9], [20, 22]], "waits": []}'),
    "an output": lambda at: put(at.error_output_file(22)),
    "log lines": lambda at: put(at.job_log(22)),
    "the livelock of a process": lambda at: put(at.livelocks / "job_000022_17"),
    "the history": note_history,
}
# these count only where ids are lost: a crash leaves some of them for ids that were never used
LATE_TRACES: dict[str, Callable[[Paths], None]] = {
    "a message": lambda at: put(at.kill_message(22)),
    "a command of this node": lambda at: put(at.node_commands / "22.0.1" / "spec"),
    "a key": lambda at: put(at.submissions / ("0" * 40), '{"first_id": 21, "count": 2}'),
    "a note": lambda at: put(at.submissions / "batch-20-3", "[]"),
    "a run of a schedule": lambda at: put(at.schedules_data, '{"runs": [{"job_id":22}]}'),
    "the watermark of a rule": lambda at: put(at.config_data, '{"filters": {"u": {"watermark": 22}}}'),
    "an owner of locks": lambda at: put(at.locks_data, '[[22, "/run/livelocks/job_000022_17"]]'),
    "an orphaned lock": lambda at: put(at.may_run_data, '{"22.0.1": {}}'),
}


@pytest.mark.parametrize("trace", [*TRACES, *LATE_TRACES])
def test_each_trace_of_a_job_counts_when_the_serial_is_lost(paths: Paths, trace: str) -> None:
    {**TRACES, **LATE_TRACES}[trace](paths)

    assert look_for_ids(paths) == KnownIds(JobId(22), are_lost=True)


@pytest.mark.parametrize("trace", TRACES)
def test_a_serial_that_is_older_than_a_trace_of_a_job_counts_as_lost(paths: Paths, trace: str) -> None:
    put(paths.serial_file, "4\n")
    TRACES[trace](paths)

    assert look_for_ids(paths) == KnownIds(JobId(22), are_lost=True)


@pytest.mark.parametrize("trace", LATE_TRACES)
def test_what_a_crash_leaves_of_ids_that_were_never_used_is_no_loss(paths: Paths, trace: str) -> None:
    put(paths.serial_file, "4\n")
    LATE_TRACES[trace](paths)

    assert look_for_ids(paths) == KnownIds(JobId(4), are_lost=False)


def test_waits_stand_for_a_hundred_jobs_which_the_gap_covers(paths: Paths) -> None:
    put(paths.waits_file(722))

    found = look_for_ids(paths)

    assert found == KnownIds(JobId(700), are_lost=True)
    assert found.highest + GAP > 799


def test_a_new_folder_begins_at_one_and_one_with_a_configuration_beyond_the_gap(paths: Paths) -> None:
    assert look_for_ids(paths) == KnownIds(JobId(0), are_lost=False)
    put(paths.config_data, "{}")
    assert look_for_ids(paths) == KnownIds(JobId(0), are_lost=True)


def test_a_history_whose_change_was_cut_off_is_read_as_before_the_change(paths: Paths) -> None:
    put(paths.serial_file, "4\n")
    note_history(paths)
    cut_off = paths.history.with_name("cut-off")
    with contextlib.closing(sqlite3.connect(paths.history)) as history:
        # a change that is larger than the cache reaches the file before its end
        history.execute("PRAGMA cache_size = 1")
        history.executemany("INSERT INTO jobs VALUES (?)", [(job_id,) for job_id in range(100, 5000)])
        shutil.copy(paths.history, cut_off)
        shutil.copy(f"{paths.history}-journal", f"{cut_off}-journal")
    cut_off.replace(paths.history)
    Path(f"{cut_off}-journal").replace(f"{paths.history}-journal")

    assert look_for_ids(paths) == KnownIds(JobId(22), are_lost=True)


def test_a_history_that_is_no_index_says_nothing(paths: Paths) -> None:
    put(paths.serial_file, "4\n")
    put(paths.history, "this is no file of SQLite, but it is long enough to be looked at" * 20)

    assert look_for_ids(paths) == KnownIds(JobId(4), are_lost=False)


def test_the_folder_of_a_check_of_the_file_system_is_not_looked_into(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder of data is a file system of its own, only root may."""
    foreign, scan = paths.data / "lost+found", os.scandir
    foreign.mkdir()
    put(paths.job_file(22))

    def scandir(folder: "os.PathLike[str]") -> Any:
        if Path(folder) == foreign:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scandir)

    assert look_for_ids(paths) == KnownIds(JobId(22), are_lost=True)


def note_start(paths: Paths) -> None:
    put(paths.waits_file(22), '{"job":21,"x":1}\n{"job":22,"x":1}\n')


TRACES_OF_ONE: dict[str, Callable[[Paths], None]] = {
    **{name: TRACES[name] for name in ("an output", "log lines", "the livelock of a process", "the history")},
    "waits": note_start,
}


@pytest.mark.parametrize("trace", TRACES_OF_ONE)
def test_a_key_is_kept_while_a_trace_of_its_job_is_left(paths: Paths, trace: str) -> None:
    key = KeyedSubmission("0" * 40, "digest", JobId(22), 2, (int(time.time()), 0), {})
    put(paths.submissions / key.name, orjson.dumps(attrs.asdict(key)).decode())
    put(paths.serial_file, "23\n")
    TRACES_OF_ONE[trace](paths)

    assert load_queue(paths).keys == (key,)

    # it was removed on purpose
    put(paths.removals, '{"begun_at": 3, "jobs": [[20, 23]], "waits": []}')
    assert load_queue(paths).keys == ()


def test_a_key_is_forgotten_whose_job_never_was(paths: Paths) -> None:
    key = KeyedSubmission("0" * 40, "digest", JobId(24), 1, (int(time.time()), 0), {})
    put(paths.submissions / key.name, orjson.dumps(attrs.asdict(key)).decode())
    put(paths.serial_file, "24\n")
    for note in TRACES_OF_ONE.values():
        note(paths)

    assert load_queue(paths).keys == ()


@pytest.mark.parametrize("place", ["output", "archive", "livelocks", "waits"])
def test_a_folder_that_cannot_be_read_is_waited_for(paths: Paths, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    put(paths.output_file(22))
    put(paths.archived_job_file(23))
    list_folder, failures, pauses = os.listdir, [1, 2], list[float]()

    def listdir(folder: "os.PathLike[str]") -> list[str]:
        if Path(folder) == getattr(paths, place) and failures:
            failures.pop()
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(folder))
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", listdir)

    found = load_queue(paths, pauses.append)

    assert (found.highest_id, found.has_lost_ids) == (23, True)
    assert pauses == [0.1, 0.2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def lose_queue(paths: Paths) -> None:
    for path in (*paths.queue.glob("job-*"), paths.serial_file):
        path.unlink()
    shutil.rmtree(paths.archive)
    paths.archive.mkdir()


def test_a_new_installation_begins_at_one(cluster: Cluster) -> None:
    assert cluster.submit(dummy()) == 1


def test_the_id_of_a_job_whose_process_lives_is_not_used_again(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = cluster.submit(gated(gate))
    cluster.wait(job_id, status="running")
    pid = process_of(cluster, job_id)
    cluster.kill("luxid", signal.SIGKILL)
    lose_queue(cluster.paths)
    for path in (*cluster.paths.output.iterdir(), *cluster.paths.submissions.iterdir()):
        path.unlink()

    cluster.start("luxid")
    new = [cluster.submit(dummy(comment=f"new {number}")) for number in range(3)]
    cluster.wait(*new)
    before = {new_id: cluster.paths.job_file(new_id).read_bytes() for new_id in new}
    gate.touch()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the old job's process has ended")

    assert new == [job_id + GAP + 1, job_id + GAP + 2, job_id + GAP + 3]
    assert {new_id: cluster.paths.job_file(new_id).read_bytes() for new_id in new} == before
    # the gap is left once
    cluster.kill("luxid", signal.SIGKILL)
    cluster.start("luxid")
    assert cluster.submit(dummy()) == new[-1] + 1


def test_a_master_that_has_lost_everything_asks_the_nodes_which_ids_were_used(tmp_path: Path) -> None:
    with Fleet(tmp_path, 2) as fleet:
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        job_ids = [fleet.master.submit(dummy()) for _ in range(3)]
        fleet.master.wait(*job_ids)
        fleet.until_same_queue(*fleet.nodes)
        # of the two, one can be reached, and it has lost its serial, too
        fleet.nodes[0].kill()
        fleet.nodes[1].paths.serial_file.unlink()
        put(fleet.nodes[1].paths.archived_job_file(40), fleet.master.paths.job_file(3).read_text())
        fleet.master.kill("luxid", signal.SIGKILL)
        paths = fleet.master.paths
        lose_queue(paths)
        for folder in (paths.output, paths.waits, paths.submissions):
            shutil.rmtree(folder)
            folder.mkdir()
        paths.history.unlink(missing_ok=True)

        fleet.master.start("luxid")

        assert fleet.master.submit(dummy()) == 40 + GAP + 1
        assert "ids.not_told" in fleet.master.log("luxid")
