"""Reading of each new configuration, for parts that must know it before anybody asks for it.

Without such parts luxid reads the configuration only when a call needs it.
"""

from typing import Final

import trio

from common.system.log import get_log
from daemons.luxid.config.configcache import ConfigCache, ConfigurationMissing

_log: Final = get_log(__name__)


class NewConfigs:
    """Reads the configuration after each report of a change; changes that come meanwhile are read together."""

    def __init__(self, config: ConfigCache) -> None:
        self._config = config
        self._has_news = trio.Event()

    def tell(self) -> None:
        """The configuration may have changed."""
        self._has_news.set()

    async def run(self) -> None:
        """Read what was reported, until cancelled."""
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            try:
                await self._config.current()
            except ConfigurationMissing as error:
                # the next connection to wconfd begins with a snapshot, which is reported too
                _log.warning("config.not_read", reason=error, effect="copies go to the candidates known so far")
