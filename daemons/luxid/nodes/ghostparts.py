"""Ghosts, from the first moment of a luxid on: raised if the master has moved, then laid by the words of nodes.

Source: DESIGN sections 13 and 14.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import trio

from common.errors import DamagedFile
from common.ids import JobId
from common.nodes.epochs import own_epoch
from common.queue.jobs import Job
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.ghosts.claimorder import claim_order
from daemons.luxid.earlyparts import EarlyParts
from daemons.luxid.nodes.ghostwatch import GhostWatch
from daemons.luxid.nodes.raising import RAISING, LastEpoch, Raising
from protocol.client import Client
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient

_log: Final = get_log(__name__)


class GhostParts:
    """What luxid does about ghosts; call `begin` first."""

    def __init__(self, settings: Settings, early: EarlyParts) -> None:
        paths, parts = settings.paths, early.parts
        self._paths = paths
        self._own_name = settings.cluster.own_name
        self._jobs, self._scheduler = parts.jobs, parts.scheduler
        self._epoch: int | None = None
        self._client = NodeClient(CertificateFiles.of(paths), epoch=lambda: self._epoch)
        wconfd = Client(paths.wconfd_socket, daemon="wconfd")
        self._raising = Raising(parts.jobs, early.config, wconfd)
        self._last_epoch = LastEpoch(paths.epoch_file, paths.last_epoch)
        self.watch = GhostWatch(
            parts.jobs, early.config, self._client, wconfd, settings.noded.port, parts.left.ghosts_told
        )

    def begin(self, found: Iterable[Job], raised: trio.Event, nursery: trio.Nursery) -> None:
        """Start no job before the ghosts of these are raised.

        Args:
            found: jobs whose processes died before this luxid began.
            raised: is set when that is done; none of them may be taken up or ended before.
        """
        orphans = [job for job in found if self._jobs.work_left(job) is not None]
        if orphans:
            self._scheduler.obstruct(RAISING)
        nursery.start_soon(self._run, orphans, raised)

    async def _run(self, orphans: Sequence[Job], raised: trio.Event) -> None:
        """Raises: NoLongerMaster: this node has seen another master. DamagedFile, OSError: the epoch cannot be read."""
        self._epoch = await in_thread(own_epoch, self._paths.epoch_file, self._own_name)
        has_moved = await self._has_moved()
        async with self._client, trio.open_nursery() as nursery:
            if orphans:
                for job in orphans:
                    self._jobs.processes.record(job.job_id).has_moved = has_moved
                await self._raising.raise_ghosts(await self._claiming(orphans) if has_moved else orphans)
            raised.set()
            self._scheduler.clear(RAISING)
            self.watch.told(None)
            nursery.start_soon(self.watch.run)
            if has_moved:
                await self._until_ended(job.job_id for job in orphans if self._ends_on_failover(job))
                await self._keep_epoch()

    async def _claiming(self, orphans: Sequence[Job]) -> Sequence[Job]:
        """Those whose commands may run, in the order of their claims."""
        works = {job.job_id: work for job in orphans if (work := self._jobs.work_left(job)) is not None}
        running = await self.watch.running_at(work.node for work in works.values())
        by_id = {job.job_id: job for job in orphans}
        return [by_id[job_id] for job_id in claim_order(works, running)]

    def _ends_on_failover(self, job: Job) -> bool:
        work = self._jobs.work_left(job)
        return work is not None and work.ends_on_failover

    async def _until_ended(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            with self._jobs.bells.listen(job_id) as bell:
                while self._jobs.phase(job_id) is not None:
                    await bell.wait()

    async def _has_moved(self) -> bool:
        try:
            return await self._last_epoch.has_changed()
        except (OSError, DamagedFile) as error:
            effect = "no command is ended for a move of the master"
            _log.error("epoch.not_compared", file=self._paths.last_epoch, reason=error, effect=effect)
            return False

    async def _keep_epoch(self) -> None:
        try:
            await self._last_epoch.keep()
        except (OSError, DamagedFile) as error:
            effect = "the next luxid takes its start for a move of the master"
            _log.error("epoch.not_kept", file=self._paths.last_epoch, reason=error, effect=effect)
