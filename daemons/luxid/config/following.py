"""Follow wconfd: the locks of running jobs, and changes of the filter rules.

Each connection begins with all held locks, so nothing that was missed stays unknown. If wconfd
refuses the subscription, luxid works with declared locks and its present rules.

Source: DESIGN sections 6 and 8.
"""

from collections.abc import Callable, Iterable
from typing import Final, assert_never

from common.errors import GantryError
from common.ids import JobId
from common.system.log import get_log
from daemons.luxid.config.configcache import ConfigurationMissing
from daemons.luxid.config.filterrules import FilterRules
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.subscription import ConfigChanged, Event, GhostsChanged, KeptChanged, LocksChanged, Snapshot, WconfdEvents
from protocol.wconfd.ghosts import Ghost
from protocol.wconfd.subscribe import Holdings

_log: Final = get_log(__name__)


class Following:
    """Passes wconfd's events to the queue.

    Args:
        on_config: called whenever the configuration may have changed.
        on_ghosts: called with the ghosts, whenever they may have changed; with None if they are to be listed.
        on_kept: called when schedules or resources, by `protocol.wconfd.subscribe`, have changed; with None at each
            connection to wconfd, when both are to be read.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        rules: FilterRules,
        events: WconfdEvents,
        on_config: Callable[[], None] = lambda: None,
        on_ghosts: Callable[[tuple[Ghost, ...] | None], None] = lambda _: None,
        on_kept: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._jobs = jobs
        self._rules = rules
        self._events = events
        self._on_config = on_config
        self._on_ghosts = on_ghosts
        self._on_kept = on_kept

    async def run(self) -> None:
        """Follow, through restarts of wconfd, until cancelled or refused."""
        while True:
            try:
                event = await self._events.next()
            except GantryError as error:
                effect = "declared locks count in place of held ones, and rules set elsewhere are not seen"
                _log.error("wconfd.not_followed", reason=error, effect=effect)
                return
            await self._take(event)

    async def _take(self, event: Event) -> None:
        self._jobs.news.reasons_changed()
        match event:
            case Snapshot(holdings=holdings):
                for job_id in self._jobs.queue.running():
                    self._jobs.queue.locks_changed(job_id, {})
                self._tell(holdings)
                self._on_config()
                self._on_ghosts(None)
                self._on_kept(None)
                await self._refresh_rules()
            case LocksChanged(holdings=holdings):
                self._tell(holdings)
            case ConfigChanged(filters_changed=filters_changed):
                self._on_config()
                if filters_changed:
                    await self._refresh_rules()
            case GhostsChanged(ghosts=ghosts):
                # changes of their locks are told apart
                self._on_ghosts(ghosts)
            case KeptChanged(what):
                self._on_kept(what)
            case _:
                assert_never(event)

    def _tell(self, holdings: Iterable[Holdings]) -> None:
        """Does not pump: held locks never make a job startable, they only reorder the ready ones."""
        for owner, held in holdings:
            job = self._jobs.table.in_memory(JobId(owner.ident)) if isinstance(owner.ident, int) else None
            # an event may name an earlier process of the job
            if job is not None and job.livelock == owner.livelock:
                self._jobs.queue.locks_changed(job.job_id, dict(held))

    async def _refresh_rules(self) -> None:
        try:
            await self._rules.refresh()
        except ConfigurationMissing as error:
            # the next connection begins with a snapshot, and then the rules are read again
            _log.warning("filters.not_read", reason=error, effect="the rules stay as they are")
