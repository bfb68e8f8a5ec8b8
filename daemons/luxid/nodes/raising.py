"""Claim what jobs held under an earlier master, before anything is started under this one.

Theory. The jobs found with a command under way, and no process, have ghosts in a wconfd that knew them; that of a new
master knows nothing. Luxid tells it before it starts any job and before any of these is taken up or ended, so that
their locks are not free for a moment. A claim of a known ghost changes nothing, so luxid need not know whether the
master is new.

For `on_failover` it must: this node's last epoch as master is noted in a file, after the jobs that end by a failover
have ended.

Source: DESIGN section 14, "New master".
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import GantryError
from common.nodes.epochs import read_seen
from common.queue.jobs import Job
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.luxid.config.configcache import ConfigCache
from daemons.luxid.core.ghosts.claims import claim_of
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.client import Client
from protocol.wconfd.ghosts import Claim, RaiseGhosts

# obstacle to starts
RAISING: Final = "locks of commands on nodes are not yet claimed"
_MODE: Final = 0o640
_log: Final = get_log(__name__)


class Raising:
    """Raises the ghosts of jobs that were found with a command under way."""

    def __init__(self, jobs: LiveJobs, config: ConfigCache, wconfd: Client) -> None:
        self._jobs = jobs
        self._config = config
        self._wconfd = wconfd

    async def raise_ghosts(self, jobs: Sequence[Job]) -> None:
        """Return when wconfd has all claims durably; tries until it has.

        A job whose claim is refused is taken up all the same, and waits for its locks.
        """
        told = ""
        for pause_s in retry_pauses():
            try:
                refused = await self._wconfd.call(RaiseGhosts(await self._claims(jobs)))
            except GantryError as error:
                if error.message != told:
                    told, effect = error.message, "no job is started until it succeeds"
                    _log.error("ghosts.not_raised", reason=error, effect=effect, retry_s=pause_s)
                await trio.sleep(pause_s)
                continue
            _log.info("ghosts.claimed", jobs=len(jobs), refused=len(refused))
            for owner in refused:
                effect = "another owner has its locks; it waits for them, and its command may run meanwhile"
                _log.error("ghost.refused", job=owner.ident, effect=effect)
            return

    async def _claims(self, jobs: Sequence[Job]) -> tuple[Claim, ...]:
        """Raises: GantryError: the configuration cannot be read."""
        index = await self._config.current()
        found = ((job, self._jobs.work_left(job)) for job in jobs)
        return tuple(claim_of(job, work, index) for job, work in found if work is not None)


class LastEpoch:
    """The epoch with which this node was the master last.

    Args:
        seen: file with the highest epoch that this node has seen; here that is its own.
        note: file that is only luxid's.
    """

    def __init__(self, seen: Path, note: Path) -> None:
        self._seen = seen
        self._note = note

    async def has_changed(self) -> bool:
        """Whether this node has become the master since the last `keep`. Raises: OSError, DamagedFile."""
        return await in_thread(lambda: read_seen(self._seen).number != read_seen(self._note).number)

    async def keep(self) -> None:
        """Note the present epoch. Durability: on return. Raises: OSError, DamagedFile."""
        await in_thread(self._keep)

    def _keep(self) -> None:
        number = read_seen(self._seen).number
        durably(lambda: write_file(self._note, f"{number}\n".encode(), mode=_MODE))
