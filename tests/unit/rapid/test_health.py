"""What `/3/health` says of a luxid that cannot be asked."""

from pathlib import Path
from typing import Any, cast

import pytest

from common.webaccess.rights import NOBODY
from daemons.rapid.backend import ConnectionPool
from daemons.rapid.calls import Asked
from daemons.rapid.health import Health, HealthHandlers
from daemons.rapid.load import Load
from daemons.rapid.mastership import NodeStatus


class _Master:
    async def standing(self) -> NodeStatus:
        return NodeStatus("node1", None)


class _Backend:
    def __init__(self, pool: ConnectionPool) -> None:
        self.luxid = pool


@pytest.mark.trio
@pytest.mark.parametrize(
    ("most", "reason"),
    [(1, "luxid does not answer"), (0, "0 calls to luxid are under way, which is the limit; try again")],
)
async def test_the_reason_says_whether_luxid_is_away_or_others_are_asking(
    tmp_path: Path, most: int, reason: str
) -> None:
    backend = _Backend(ConnectionPool(tmp_path / "socket", "luxid", 0.0, most))
    handlers = HealthHandlers(cast(Any, _Master()), cast(Any, backend), Load())

    given = await handlers.health(Asked(cast(Any, None), NOBODY, cast(Any, None)))

    health = given.value
    assert isinstance(health, Health)
    assert (given.status, health.ok, health.reason) == (503, False, reason)
