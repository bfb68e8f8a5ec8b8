"""What wconfd answers: method name, request class and handler, one row each.

Source: wconfd.md section 2; STYLE 2.4.
"""

from common.access import Role
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.deaths import Deaths
from daemons.wconfd.handlers.changes import change_routes
from daemons.wconfd.handlers.config import config_routes
from daemons.wconfd.handlers.events import event_routes
from daemons.wconfd.handlers.locks import lock_routes
from daemons.wconfd.handlers.misc import misc_routes
from daemons.wconfd.handlers.reservations import reservation_routes
from daemons.wconfd.lockstore import LockStore
from daemons.wconfd.shortlock import ShortLock
from daemons.wconfd.tempresstore import ReservationStore
from protocol.peer import Peer
from protocol.service import Route
from protocol.wconfd.locks import Echo


def routes(
    locks: LockStore, config: ConfigStore, deaths: Deaths, reservations: ReservationStore, short_lock: ShortLock
) -> list[Route]:
    """The table. What others may do here is look; the configuration, which has secrets, is for operators.

    Job processes and luxid are the daemons' user; so locks and changes are for those with all rights.
    """
    return [
        Route(Echo, _echo, role=Role.READ),
        *lock_routes(locks, deaths),
        *event_routes(locks, config),
        *config_routes(config, locks),
        *change_routes(short_lock, reservations),
        *reservation_routes(reservations, config, short_lock),
        *misc_routes(config, locks, short_lock.livelock),
    ]


async def _echo(call: Echo, _: Peer) -> str:
    return call.text
