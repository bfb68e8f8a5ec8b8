"""What happens to locks and configuration, told as it happens.

Source: DESIGN sections 6 and 8; the method is ours.
"""

import attrs

from common.objects.config import Config
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.limits import job_limits
from daemons.wconfd.lockstore import LockStore
from protocol.peer import Peer
from protocol.stream import Publisher, Stream
from protocol.wconfd.subscribe import CONFIG_CHANGED, Holdings, Subscribe


@attrs.frozen
class EventHandlers:
    _locks: LockStore
    _config: ConfigStore

    async def subscribe(self, _: Subscribe, __: Peer) -> Stream[tuple[tuple[Holdings, ...], int]]:
        # no checkpoint between the reading of the state and the subscription
        return self._locks.publisher.subscribe((tuple(self._locks.rows()), self._config.config.serial_no))


def tell_config(publisher: Publisher, before: Config, after: Config) -> None:
    """Tell those who have subscribed of a change of the configuration."""
    concerns_luxid = before.filters != after.filters or job_limits(before) != job_limits(after)
    publisher.publish(CONFIG_CHANGED, after.serial_no, concerns_luxid)
