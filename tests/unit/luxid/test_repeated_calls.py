"""Calls that are delivered twice, some days or a moment apart: the key gives the same job (DESIGN section 4)."""

from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from common.access import Role
from common.errors import Conflict
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.rights import Submitter
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.submissionkeys import KEPT_AT_LEAST, SubmissionKeys, WantedKey
from daemons.luxid.handlers.schedules import OwnJobs
from protocol.peer import Peer

pytestmark = pytest.mark.trio
NOW = 1_790_000_000
DAY = 86400
ROOT = Submitter(0, "root", Role.FULL)


def submission(job_id: int, at: int, name: str = "") -> KeyedSubmission:
    return KeyedSubmission(name or f"n{job_id}", "digest", JobId(job_id), 1, (at, 0))


async def named(keys: SubmissionKeys, key: str) -> str:
    """The name of a key's file."""
    async with keys.claim(ROOT.key_owner, WantedKey(key), []) as claim:
        return claim.file([cast(Any, attrs.make_class("J", ["job_id", "received_at"])(1, (NOW, 0)))], {}).path.name


async def test_a_key_is_found_as_long_as_its_job_has_not_ended(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    name = await named(SubmissionKeys(paths, cast(Any, None), ()), "by hand")
    old = [submission(1, NOW, name), *(submission(2 + number, NOW) for number in range(KEPT_AT_LEAST))]
    keys = SubmissionKeys(paths, cast(Any, Files()), old, lambda job_id: job_id == 1)

    await keys.remember(submission(500, NOW + 3 * DAY))

    found = keys.find(ROOT.key_owner, "by hand")
    assert found is not None
    assert found.first_id == 1


class Files:
    """Removes nothing."""

    async def discard(self, _: object) -> None:
        pass


@attrs.define
class OneAtATime:
    """A queue in which two submissions under one key meet: the later one finds the key used for other jobs."""

    keys: "Known"
    goes_on: trio.Event = attrs.Factory(trio.Event)
    is_taken: trio.Event = attrs.Factory(trio.Event)
    is_first: bool = True

    async def submit_as(self, job: object, key: str, submitter: Submitter, peer: Peer) -> JobId:
        is_first, self.is_first = self.is_first, False
        if not is_first:
            await self.is_taken.wait()
            raise Conflict("used for other jobs")
        await self.goes_on.wait()
        self.keys.found = submission(7, NOW)
        self.is_taken.set()
        return JobId(7)


@attrs.define
class Known:
    found: KeyedSubmission | None = None

    def find(self, owner: str, key: str) -> KeyedSubmission | None:
        return self.found


async def test_a_call_that_comes_twice_at_once_gives_one_job(nursery: trio.Nursery) -> None:
    known = Known()
    queue = OneAtATime(known)
    own = OwnJobs(cast(Any, None), cast(Any, queue), cast(Any, known), cast(Any, None))
    replies: list[JobId] = []

    async def call() -> None:
        replies.append(await own.submit(({"OP_ID": "OP_TEST_DUMMY"},), "by hand", ROOT))

    nursery.start_soon(call)
    nursery.start_soon(call)
    await wait_all_tasks_blocked()
    queue.goes_on.set()
    await wait_all_tasks_blocked()

    assert replies == [7, 7]
