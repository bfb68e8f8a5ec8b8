"""What was changed without its lock; the method is ours."""

import attrs

from daemons.wconfd.lockchecks import LockChecks
from protocol.peer import Peer
from protocol.wconfd.violations import ListLockViolations, LockViolations


@attrs.frozen
class ViolationHandlers:
    _checks: LockChecks

    async def list_lock_violations(self, _: ListLockViolations, __: Peer) -> LockViolations:
        return self._checks.violations()
