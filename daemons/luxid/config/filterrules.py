"""The filter rules and the limit of running jobs in force, taken from the configuration, which wconfd keeps.

Before they were read once, no job is started: a restart must not bypass a rule that holds jobs back.

Source: DESIGN section 6, "Filters"; luxid.md 5.2.
"""

from typing import Final

import trio

from common.errors import InvalidRequest
from common.system.log import get_log
from daemons.luxid.config.configcache import ConfigCache, ConfigurationMissing
from daemons.luxid.scheduler import Scheduler

UNKNOWN: Final = "wconfd has not told the filter rules yet"
RETRY_S: Final = 1.0
_log: Final = get_log(__name__)


class FilterRules:
    """Keeps the queue's rules equal to those of the configuration.

    Args:
        scheduler: obstructed by UNKNOWN until the rules are known.
    """

    def __init__(self, scheduler: Scheduler, config: ConfigCache) -> None:
        self._scheduler = scheduler
        self._config = config
        # one at a time, so that an older configuration never replaces a newer one
        self._turn = trio.Lock()

    async def load(self) -> None:
        """Get the rules for the first time; tries until the configuration can be read."""
        while True:
            try:
                await self.refresh()
                return
            except ConfigurationMissing as error:
                _log.warning("filters.unknown", reason=error, effect="no job is started", retry_s=RETRY_S)
            await trio.sleep(RETRY_S)

    async def refresh(self) -> None:
        """Put the rules and the limit of the present configuration in force.

        If a rule is malformed, that is logged, and the rules stay unchanged.

        Raises: ConfigurationMissing.
        """
        async with self._turn:
            config = (await self._config.current()).config
            self._scheduler.limit_running(config.cluster.max_running_jobs)
            try:
                self._scheduler.filters_changed(config.filters.values())
            except InvalidRequest as error:
                effect = "the rules stay as they were; with none so far no job starts"
                _log.error("filters.refused", reason=error, effect=effect)
                return
            self._scheduler.clear(UNKNOWN)
