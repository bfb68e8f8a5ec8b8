"""What has run: ended jobs, and sums over them; ours.

Source: DESIGN section 16.
"""

from typing import Final

import attrs

from common.queue.submitter import NO_UID
from daemons.luxid.core.past.pastfields import Eyes
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.history.pasthistory import PastHistory
from protocol.luxi.history import EndedJobs, PastSum, ReadHistory, SummarizeHistory
from protocol.peer import Peer

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
