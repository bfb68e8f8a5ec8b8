"""What has run: ended jobs and sums over them, and the removal of old ones. Ours."""

from typing import Final

import attrs
import trio

from common.access import Role, check_role
from common.errors import Unavailable
from common.queue.reasons import NO_UID
from common.system.log import get_log
from daemons.luxid.core.past.queries import Eyes
from daemons.luxid.core.rights import Viewer
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.retention import Pruning
from protocol.luxi.history import EndedJobs, PastSum, Prune, Pruned, ReadHistory, SummarizeHistory
from protocol.peer import Peer

# What has run: ended jobs, and sums over them; ours.
#
# Source: DESIGN section 16.


# a user who owns no job
_NOBODY: Final = -3


@attrs.frozen
class PastJobs:
    """The methods that read the history; of the jobs of others, they show what lists show."""

    _history: PastHistory

    async def read_history(self, call: ReadHistory, peer: Peer) -> EndedJobs:
        return await self._history.read(call, _eyes(peer))

    async def summarize_history(self, call: SummarizeHistory, peer: Peer) -> tuple[PastSum, ...]:
        return await self._history.summarize(call, _eyes(peer))


def _eyes(peer: Peer) -> Eyes:
    if Viewer(peer.uid, peer.role).sees_all:
        return Eyes(None)
    return Eyes(_NOBODY if peer.uid == NO_UID else peer.uid)


# Remove what is kept no longer, now; ours.
#
# Source: DESIGN section 16.


# seconds that a call may take; the client sends it again
LONGEST_S: Final = 20.0
_log: Final = get_log(__name__)


@attrs.frozen
class PruneHandlers:
    """The method that removes."""

    _pruning: Pruning

    async def prune(self, call: Prune, peer: Peer) -> Pruned:
        """Raises: Denied: the caller may only ask what would be removed. Unavailable: it cannot be done now."""
        if not call.is_dry:
            check_role(peer.role, Role.ADMIN, peer.caller, "the removal of old jobs and files")
            _log.info("retention.asked", **peer.named)
        try:
            return await self._pruning.prune(is_dry=call.is_dry, until=trio.current_time() + LONGEST_S)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"files cannot be removed: {reason}; what is left is removed by the next call") from error
