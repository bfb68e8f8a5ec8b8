"""Changes of many jobs by a call of luxid each."""

from typing import Any, cast

import pytest
import trio

from common.errors import Conflict
from common.ids import JobId
from daemons.rapid.calls import Daemons
from daemons.rapid.resources.jobchanges import one_by_one
from protocol.http.body import HungUp
from protocol.luxi.jobs import ChangeResult

IDS = [JobId(number) for number in range(1, 31)]
NOBODY = cast(Any, None)


@pytest.mark.trio
async def test_a_refusal_of_one_stops_no_other() -> None:
    async def change(_: Daemons, job_id: JobId) -> ChangeResult:
        await trio.lowlevel.checkpoint()
        if job_id % 7 == 0:
            raise Conflict("it has not ended")
        return ChangeResult(True, str(job_id))

    told = await one_by_one(change)(NOBODY, IDS)

    assert told == [
        ChangeResult(False, "it has not ended") if each % 7 == 0 else ChangeResult(True, str(each)) for each in IDS
    ]


@pytest.mark.trio
async def test_a_client_that_goes_ends_all_of_it_without_an_error_of_ours(autojump_clock: trio.abc.Clock) -> None:
    begun: list[JobId] = []

    async def change(_: Daemons, job_id: JobId) -> ChangeResult:
        begun.append(job_id)
        if job_id == 3:
            raise HungUp
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(HungUp):
        await one_by_one(change)(NOBODY, IDS)

    assert 3 <= len(begun) < len(IDS)
