"""What is to be committed at luxid's start, in parts, as far as it is not done yet.

Source: DESIGN section 14.
"""

from collections.abc import Mapping

from common.ids import JobId
from common.lease.dirty import Fate
from daemons.luxid.core.copies.backlog import Key
from daemons.luxid.core.copies.fateparts import MOST_FILES, in_parts
from daemons.luxid.core.copies.jobhands import Passing
from daemons.luxid.replicating.etcdcopies import is_too_large
from daemons.luxid.replicating.replaying import Laid


class Uncommitted:
    """Args: laid: files and jobs that are otherwise than in etcd."""

    def __init__(self, laid: Laid | None = None) -> None:
        self._fates: dict[Key, Fate] = {} if laid is None else dict(laid.fates)
        # jobs that no process has any more
        self._over: set[JobId] = set() if laid is None else set(laid.over)

    def take_too_large(self) -> frozenset[Key]:
        """Leave out what etcd does not take, and return it; the jobs stay in the hands of their processes there."""
        large = frozenset(key for key, fate in self._fates.items() if is_too_large(fate))
        for key in large:
            del self._fates[key]
        self._over -= large
        return large

    def part(self) -> tuple[Mapping[Key, Fate], Passing] | None:
        """What one change takes; None: nothing is left."""
        fates = next(in_parts(self._fates), {})
        ended = [key for key in fates if isinstance(key, int) and key in self._over]
        if not ended:
            # one whose file is in a later part leaves its process with that
            ended = [job_id for job_id in self._over if job_id not in self._fates][:MOST_FILES]
        return (fates, Passing(over=frozenset(ended))) if fates or ended else None

    def committed(self, fates: Mapping[Key, Fate], passing: Passing) -> None:
        for key in fates:
            del self._fates[key]
        self._over -= passing.over
