"""Change how many jobs may run: a limit of the cluster, which wconfd keeps.

Source: DESIGN section 11. The method is ours; Ganeti's clients submit OP_CLUSTER_SET_PARAMS for it. That job would
wait for a free slot among the running jobs exactly when there is none.
"""

from pathlib import Path
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.system.log import get_log
from daemons.luxid.config.filterrules import FilterRules
from daemons.luxid.handlers.filters import PATIENCE_S
from protocol.client import Client
from protocol.luxi.queue import SetJobLimits
from protocol.peer import Peer
from protocol.wconfd import changes

_log: Final = get_log(__name__)


@attrs.frozen
class Limits:
    """The method about limits."""

    _rules: FilterRules
    # wconfd's socket
    _wconfd: Path

    async def set_job_limits(self, call: SetJobLimits, peer: Peer) -> bool:
        """Durability: the limits are in the configuration; and in force here.

        Raises: InvalidRequest: a limit is below 1. Unavailable: nothing is changed, or may be.
        """
        for name, value in attrs.asdict(call).items():
            if value is not None and value < 1:
                raise InvalidRequest(f"{name} must be at least 1, got {value}")
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(changes.SetJobLimits(call.max_running_jobs, call.max_tracked_jobs), PATIENCE_S)
        _log.info(
            "limits.set",
            max_running_jobs=call.max_running_jobs,
            max_tracked_jobs=call.max_tracked_jobs,
            **peer.named,
        )
        await self._rules.refresh()
        return True
