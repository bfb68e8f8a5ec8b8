"""Remove what is kept no longer, now; ours.

Source: DESIGN section 16.
"""

from typing import Final

import attrs
import trio

from common.access import Role, check_role
from common.errors import Unavailable
from common.system.log import get_log
from daemons.luxid.retention.pruning import Pruning
from protocol.luxi.history import Prune, Pruned
from protocol.peer import Peer

# seconds that a call may take; the client sends it again
LONGEST_S: Final = 20.0
_log: Final = get_log(__name__)


@attrs.frozen
class Prunes:
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
