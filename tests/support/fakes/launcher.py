"""A launcher whose job processes are nothing but a stream."""

import trio

from common.errors import Unavailable
from common.ids import JobId
from daemons.luxid.processes.launcher import LauncherEvents, StartedProcess, StartRules
from protocol.framing import pack


class FakeLauncher:
    """Processes that send a livelock's path and take the go-ahead; they only exist as a stream."""

    def __init__(self) -> None:
        self.rules = StartRules(attempts=3, may_be_slow=True)
        self.starts = 0
        self.is_away = False
        # None: nothing at all
        self.sends: bytes | None = b"/livelocks/job_1"
        self._ends: list[trio.socket.SocketType] = []

    async def start(self, job_id: JobId) -> StartedProcess:
        self.starts += 1
        if self.is_away:
            raise Unavailable("away")
        ours, theirs = trio.socket.socketpair()
        if self.sends is not None:
            await theirs.send(pack(self.sends))
        self._ends.append(theirs)
        return StartedProcess(999_999, trio.SocketStream(ours))

    async def abandon(self, started: StartedProcess) -> None:
        pass

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()

    def close(self) -> None:
        for end in self._ends:
            end.close()
