"""Events of locks and configuration, sent as they happen.

Source: DESIGN sections 6 and 8; the method is ours.
"""

import attrs

from common.objects.config import Config
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.limits import job_limits
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.stream import Publisher, Stream
from protocol.wconfd.subscribe import CONFIG_CHANGED, Holdings, Subscribe


@attrs.frozen
class EventHandlers:
    _locks: LockStore
    _config: ConfigStore

    async def subscribe(self, _: Subscribe, __: Peer) -> Stream[tuple[tuple[Holdings, ...], int]]:
        # no checkpoint between reading the state and subscribing
        return self._locks.publisher.subscribe((tuple(self._locks.rows()), self._config.config.serial_no))


def tell_config(publisher: Publisher, before: Config, after: Config) -> None:
    """Send a change of the configuration to the subscribers."""
    concerns_luxid = before.filters != after.filters or job_limits(before) != job_limits(after)
    publisher.publish(CONFIG_CHANGED, after.serial_no, concerns_luxid)
