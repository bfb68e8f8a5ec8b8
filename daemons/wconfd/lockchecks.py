"""Whether those who change the configuration hold the locks of what they change.

A call does not name its owner, in Ganeti's protocol; so the locks are those of the owners that the calling process has
named as its own by their pid. A change without them is counted, logged and made, because programs of Ganeti need no
locks for some; or it is refused, by a setting.

Source: DESIGN section 8.
"""

import time
from collections import deque
from typing import Final, TypeVar

import attrs

from common.errors import Conflict
from common.locks import Lock, LockMode, Owner
from common.objects.config import Config
from common.system.log import get_log
from daemons.wconfd.configstore import Step, UpdateStep
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.unlocked import unlocked
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.wconfd.violations import LockViolation, LockViolations

T = TypeVar("T")

# violations that are kept to be shown
KEPT: Final = 200
_log: Final = get_log(__name__)


@attrs.frozen
class Changer:
    """The caller that changes the configuration."""

    method: str
    peer: Peer
    # None: the call does not tell
    owner: Owner | None = None


@attrs.define
class LockChecks:
    """Judges changes, and keeps the violations of this run of wconfd.

    Args: is_required: whether a change without locks is refused.
    """

    _locks: LockStore
    _is_required: bool = False
    _count: int = 0
    _latest: deque[LockViolation] = attrs.field(factory=lambda: deque(maxlen=KEPT))

    def violations(self) -> LockViolations:
        return LockViolations(self._count, self._is_required, tuple(self._latest))

    def judged(self, step: Step[T], changer: Changer) -> Step[T]:
        """The step with a judgement of its change, which raises Conflict if the locks are required."""
        held = self._held(changer)

        def with_judgement(config: Config, now: float) -> tuple[Config, T]:
            after, answer = step(config, now)
            self._judge(config, after, held, changer)
            return after, answer

        return with_judgement

    def judged_once(self, step: UpdateStep, changer: Changer) -> UpdateStep:
        """The same of a step that is told of its first delivery."""
        held = self._held(changer)

        def with_judgement(config: Config, now: float, told: Stamp | None) -> tuple[Config, Stamp]:
            after, stamp = step(config, now, told)
            self._judge(config, after, held, changer)
            return after, stamp

        return with_judgement

    def _held(self, changer: Changer) -> dict[Lock, LockMode]:
        table = self._locks.state.table
        held = table.held_by_process(changer.peer.pid)
        return held if changer.owner is None else {**held, **table.held_by(changer.owner)}

    def _judge(self, before: Config, after: Config, held: dict[Lock, LockMode], changer: Changer) -> None:
        """In the writer's thread, which is the only one that writes here."""
        for found in unlocked(before, after, held):
            self._count += 1
            self._latest.append(
                LockViolation(
                    at=time.time(),
                    method=changer.method,
                    pid=changer.peer.pid,
                    uid=changer.peer.uid,
                    changed=found.title,
                    lock=str(found.lock),
                    is_refused=self._is_required,
                )
            )
            _log.warning(
                "config.unlocked_change",
                method=changer.method,
                by=changer.peer,
                changed=found.title,
                lock=found.lock,
                refused=self._is_required,
            )
            if self._is_required:
                raise Conflict(
                    f"{found.title} may only be changed by a holder of the lock '{found.lock}', exclusively; acquire "
                    "it first, or set 'require_locks = false' in '[wconfd]'"
                )
