"""A process like a job of Ganeti's: it holds a livelock, and reports each SIGHUP with what the disk says then."""

import os
import signal
import subprocess
import sys
from typing import Self

from common.paths import Paths
from common.system.livelock import Livelock
from tests.daemon.wconfd.wire import WireOwner
from tests.support.cluster import CHECKOUT


class Holder:
    """The process as its test sees it."""

    def __init__(self, process: subprocess.Popen[str], number: int, livelock: str) -> None:
        self._process = process
        self.pid = process.pid
        self.livelock = livelock
        # of Ganeti's form
        self.owner: WireOwner = [number, livelock, process.pid]

    @classmethod
    def start(cls, paths: Paths, number: int) -> Self:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(paths.livelocks), str(paths.locks_data), f"job_{number:06}"],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        return cls(process, number, process.stdout.readline().strip())

    def told(self) -> str:
        """Wait for a SIGHUP; return the locks that the process then read from disk."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()


def main(livelocks: str, locks_data: str, prefix: str) -> None:
    from pathlib import Path

    from tests.support.fakes.durable import durable_locks

    signal.signal(signal.SIGHUP, lambda *_: print(durable_locks(Path(locks_data)).decode(), flush=True))
    livelock = Livelock.create(Path(livelocks), prefix)
    print(livelock.path, flush=True)
    # until it is killed, or the test has gone
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
