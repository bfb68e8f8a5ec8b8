"""The end of the fork server, with all jobs of this node, when the mastership of the node has run out.

Source: DESIGN section 14; common/system/leaseguard.py.
"""

from pathlib import Path
from typing import Self

from common.lease.deadline import Deadline
from common.lease.grant import read_held
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.system.leaseguard import DeadlineTimer, end_with_jobs
from protocol.launched import find_killer


class LeaseEnd:
    """The guard of `server.ForkServer`."""

    def __init__(self, deadline: Deadline, livelocks: Path, launcher: Path) -> None:
        self._timer = DeadlineTimer(deadline)
        self._livelocks = livelocks
        self._launcher = launcher

    @classmethod
    def of(cls, paths: Paths) -> Self:
        """Raises: NoLongerMaster: this node does not hold the mastership. DamagedFile, OSError."""
        held = read_held(paths)
        if held is None:
            raise NoLongerMaster("this node does not hold the mastership; 'gantry cluster' tells who does")
        return cls(held.deadline, paths.livelocks, paths.launcher_socket)

    def fileno(self) -> int:
        return self._timer.fileno()

    def look(self) -> None:
        """End this process, with all jobs, if the deadline has passed."""
        if self._timer.has_passed():
            end_with_jobs(self._livelocks, find_killer(self._launcher))

    def close(self) -> None:
        self._timer.close()
