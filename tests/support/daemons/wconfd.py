"""wconfd without its process: the whole table of methods over real files, called by messages."""

import os
from collections.abc import Callable
from typing import Any

import attrs
import orjson
import trio

from common.access import Role
from common.paths import Paths
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.filestores import KeptFiles, ReservationStore
from daemons.wconfd.locks.deaths import LockOwnerDeaths
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.main import make_handlers
from daemons.wconfd.rpc import WconfdHandlers, routes
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.serving.service import Service

PEER = Peer(pid=1, uid=0, gid=0, role=Role.FULL)


@attrs.frozen
class Calls:
    """Calls by name, as a client of Ganeti's makes them; nobody looks whether owners live."""

    config: ConfigStore
    locks: LockStore
    reservations: ReservationStore
    service: Service

    @classmethod
    async def start(
        cls, paths: Paths, nursery: trio.Nursery, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> "Calls":
        """Load the files and start the writers, which end with the nursery."""
        paths.make_folders()
        config = ConfigStore.load(paths)
        locks = LockStore.load(paths.locks_data)
        reservations = ReservationStore.load(paths.tempres_data, locks.known.meet)
        kept = KeptFiles.load(paths)
        for run in (config.run, locks.run, reservations.run, kept.run):
            await nursery.start(run)
        to = handlers_over(paths, config, locks, reservations, kept, random_bytes)
        return cls(config, locks, reservations, Service(routes(to)))

    async def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self.service.answer(orjson.dumps(message), PEER)
        assert answer.payload is not None
        reply: dict[str, Any] = orjson.loads(answer.payload)
        return reply

    async def __call__(self, method: str, *args: Any) -> Any:
        """The result of a call that must succeed."""
        reply = await self.reply({"method": method, "args": list(args)})
        assert reply["success"], reply
        return reply["result"]

    async def refused(self, method: str, *args: Any) -> tuple[str, str]:
        """The name and the text of the error of a call that must fail."""
        reply = await self.reply({"method": method, "args": list(args)})
        assert not reply["success"], reply
        return reply["result"][0], reply["result"][1][0]


def handlers_over(
    paths: Paths,
    config: ConfigStore,
    locks: LockStore,
    reservations: ReservationStore,
    kept: KeptFiles,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> WconfdHandlers:
    """The handlers of the daemon over these stores."""
    short_lock = ShortLock(config, locks, str(paths.livelocks / "wconf-daemon_1"))
    deaths = LockOwnerDeaths(locks, paths.livelocks, grace_s=1.0, tables=[reservations])
    return make_handlers(locks, config, deaths, reservations, kept, short_lock, random_bytes)
