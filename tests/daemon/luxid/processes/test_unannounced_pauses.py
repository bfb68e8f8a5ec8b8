"""A request to pause that the disk refuses is tried again (DESIGN 11, "an error of the disk")."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from common.settings import LuxidSettings
from common.system import shortages
from daemons.luxid.files.store import open_store
from daemons.luxid.parts import JobParts
from tests.support.fakes.launcher import FakeLauncher
from tests.support.filterrules import filter_rule
from tests.support.starting import starter_of
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
JOB = JobId(1)


@attrs.define
class RefusingDisk:
    """Requests to pause can neither be written nor removed so often."""

    failures: int = 0
    calls: int = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "RefusingDisk":
        for name in ("touch", "unlink"):
            monkeypatch.setattr(Path, name, self._failing(getattr(Path, name)))
        return self

    def _failing(self, real: Any) -> Any:
        def call(path: Path, *args: Any, **named: Any) -> None:
            if path.suffix == ".pause":
                self.calls += 1
                if self.calls <= self.failures:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(path, *args, **named)

        return call


@pytest.fixture
async def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobParts]:
    monkeypatch.setattr(shortages, "FIRST_PAUSE_S", 0.001)
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        parts = JobParts.make(store, LuxidSettings())
        job = Job(JOB, (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.RUNNING),), livelock="/nowhere/job_1")
        parts.jobs.table.put(job)
        parts.jobs.queue.adopt(job)
        parts.begin(nursery, starter_of(parts, FakeLauncher()).start)
        yield parts
        nursery.cancel_scope.cancel()
    store.close()


PAUSE_ALL = filter_rule(
    watermark=JobId(0),
    priority=0,
    predicates=(),
    action="PAUSE",
    reason_trail=(),
    uuid="f0f0f0f0-0000-4000-8000-000000000001",
)


def message(parts: JobParts) -> Path:
    return parts.store.paths.pause_message(JOB)


async def test_a_request_that_cannot_be_written_is_tried_again(
    parts: JobParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RefusingDisk(3).install(monkeypatch)

    parts.scheduler.install_rules([PAUSE_ALL])

    assert not message(parts).exists()
    await wait_until_async(message(parts).exists, what="the request")
    assert disk.calls == 4


async def test_a_withdrawal_that_the_disk_refuses_is_tried_again(
    parts: JobParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.scheduler.install_rules([PAUSE_ALL])
    RefusingDisk(3).install(monkeypatch)

    parts.scheduler.install_rules([])

    assert message(parts).exists()
    await wait_until_async(lambda: not message(parts).exists(), what="the withdrawal")


async def test_what_is_tried_again_is_what_the_rules_say_by_then(
    parts: JobParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RefusingDisk(2).install(monkeypatch)

    parts.scheduler.install_rules([PAUSE_ALL])
    parts.scheduler.install_rules([])

    await wait_until_async(lambda: disk.calls >= 3, what="the third attempt")
    await trio.testing.wait_all_tasks_blocked()
    assert not message(parts).exists()
