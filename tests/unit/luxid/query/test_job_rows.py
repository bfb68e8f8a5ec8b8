"""The rows of jobs, where the disk gives trouble (DESIGN section 11: an error of descriptors is no verdict)."""

import errno
import os
import types
from pathlib import Path
from typing import Any, cast

import pytest

from common.errors import Unavailable
from common.paths import Paths
from common.query.qlang import NumericRange
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.handlers.queries import JobRows
from daemons.luxid.jobs import JobTable
from protocol.luxi.queries import Page

pytestmark = pytest.mark.trio


def rows(root: Path) -> JobRows:
    store = types.SimpleNamespace(paths=Paths.under_root(root))
    return JobRows(JobTable(lambda _: None), cast(Any, store), cast(Any, None), JobQueue(1, 1, lambda _: None))


async def test_a_list_lacks_no_archived_jobs_because_their_folder_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(Unavailable, match="the archive cannot be listed: too many open files; try again"):
        [batch async for batch in rows(tmp_path).every(archived=True)]


async def test_a_queue_without_an_archive_has_no_archived_jobs(tmp_path: Path) -> None:
    assert [batch async for batch in rows(tmp_path).every(archived=True)] == []


@pytest.mark.parametrize("page", [None, Page(1000)])
async def test_of_the_archive_only_files_within_the_bounds_of_the_filter_are_read(
    tmp_path: Path, page: Page | None
) -> None:
    paths = Paths.under_root(tmp_path)
    for job_id in range(1, 31):
        paths.archived_job_file(job_id).parent.mkdir(parents=True, exist_ok=True)
        paths.archived_job_file(job_id).touch()
    read: list[int] = []
    store = types.SimpleNamespace(paths=paths, find_archived=read.append)
    listed = JobRows(JobTable(lambda _: None), cast(Any, store), cast(Any, None), JobQueue(1, 1, lambda _: None))

    found = [batch async for batch in listed.every(archived=True, page=page, bounds=NumericRange(10, 12))]

    assert found == [[]]
    assert sorted(read) == [10, 11, 12]
