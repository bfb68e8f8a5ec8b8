"""Whether the clock was set ahead by so much that no age can be trusted."""

import time
from typing import Final

import attrs

from common.lease.deadline import boottime
from daemons.luxid.core.retention.keeping import DAY_S

# seconds by which a clock may be set without harm
_JUMP_S: Final = DAY_S


@attrs.define
class ClockJumps:
    """Compares the clock with the time since the machine began."""

    jump_s: float = 0.0
    _offset: float = attrs.Factory(lambda: time.time() - boottime())
    # instant, by the time since the machine began, until which the clock is doubted
    _until: float = 0.0

    def has_jumped(self) -> bool:
        """Whether it was set ahead by much since the last call."""
        offset = time.time() - boottime()
        self.jump_s, self._offset = offset - self._offset, offset
        if self.jump_s > _JUMP_S:
            self._until = boottime() + DAY_S
            return True
        if self.jump_s < -_JUMP_S:
            # set right again
            self._until = 0.0
        return False

    @property
    def is_doubted(self) -> bool:
        return boottime() < self._until
