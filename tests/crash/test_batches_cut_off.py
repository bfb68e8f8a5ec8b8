"""A submission of several jobs that is killed at any step is complete or absent (DESIGN section 11)."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from common.durable.atomicfile import write_files
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import JobState
from daemons.luxid.files.loading import FoundQueue, load_queue
from daemons.luxid.files.submissionkeys import note_of
from tests.support.cluster import CHECKOUT

JOBS = 3


def left_over(paths: Paths) -> list[str]:
    """Files that a submission leaves only if it was cut off."""
    names = [path.name for folder in (paths.queue, paths.submissions) for path in folder.iterdir()]
    return [name for name in names if name.endswith(".tmp") or name.startswith("batch-")]


def keys(paths: Paths) -> int:
    return len(list(paths.submissions.iterdir()))


@pytest.fixture(scope="module", params=[True, False], ids=["with a key", "without a key"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, list[Paths]]:
    """Whether there was a key, and a queue for each step at which a submission of three jobs was killed."""
    root = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-P", "-m", "tests.support.killedsubmission", str(root), str(JOBS), str(request.param)]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True)
    return request.param, [Paths.under_root(folder) for folder in sorted(root.iterdir())]


def test_killed_at_any_step_leaves_all_of_the_jobs_or_none(killed: tuple[bool, list[Paths]]) -> None:
    has_key, queues = killed
    counts = []
    for paths in queues:
        found = load_queue(paths)
        counts.append(len(found.jobs))
        assert len(found.keys) == keys(paths) == (1 if has_key and found.jobs else 0)
        assert left_over(paths) == []
        # what was removed does not come back
        assert load_queue(paths).jobs == found.jobs
    # it was killed before each fsync, rename and removal: at the least four jobs' and the note's, and the folders'
    assert len(counts) >= 13
    # the last one was not killed any more
    assert counts == sorted(counts)
    assert set(counts) == {0, JOBS}


def whole_batch(tmp_path: Path) -> Paths:
    """A batch whose jobs are all in their places, with its note, as the third step leaves it."""
    command = [sys.executable, "-P", "-m", "tests.support.killedsubmission", str(tmp_path), str(JOBS), "True", "whole"]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True)
    paths = Paths.under_root(tmp_path / "whole")
    [key] = paths.submissions.iterdir()
    write_files([note_of(paths, JobId(1), JOBS, [key])])
    return paths


def found_after(paths: Paths, lost: tuple[int, ...]) -> FoundQueue:
    files = [*paths.queue.glob("job-*"), *paths.submissions.iterdir()]
    contents = {path: path.read_bytes() for path in files}
    for job_id in lost:
        paths.job_file(JobId(job_id)).unlink()
    found = load_queue(paths)
    assert left_over(paths) == []
    for path, content in contents.items():
        path.write_bytes(content)
    return found


def test_whichever_renames_a_loss_of_power_takes_back_none_of_the_jobs_is_left(tmp_path: Path) -> None:
    paths = whole_batch(tmp_path)

    for count in range(1, JOBS + 1):
        for lost in itertools.combinations(range(1, JOBS + 1), count):
            found = found_after(paths, lost)
            assert (found.jobs, found.keys, found.highest_id >= JOBS - count) == ((), (), True), lost

    found = found_after(paths, ())
    assert ([each.job.job_id for each in found.jobs], len(found.keys)) == ([1, 2, 3], 1)


def test_a_note_that_comes_back_after_jobs_were_started_takes_nothing_away(tmp_path: Path) -> None:
    paths = whole_batch(tmp_path)
    first = paths.job_file(JobId(1))
    first.write_bytes(first.read_bytes().replace(b'"queued"', b'"success"'))
    paths.job_file(JobId(2)).unlink()

    found = load_queue(paths)

    assert [(each.job.job_id, each.job.state) for each in found.jobs] == [(1, JobState.SUCCESS), (3, JobState.QUEUED)]
    assert left_over(paths) == []
