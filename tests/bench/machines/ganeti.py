"""A real Ganeti 3.0.2 for the comparison `beside`: a cluster of one node in a machine of `tests.reliability.ganeti`."""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from common.paths import Paths
from protocol.blocking import BlockingClient
from protocol.messages import Request
from tests.bench.jobs import many_jobs, one_job
from tests.bench.locks import hand_overs, lock_updates
from tests.reliability.ganeti.machines import Machines
from tests.reliability.ganeti.program import SYSTEM

R = TypeVar("R")

_CLUSTER: Final = """gnt-cluster init --no-ssh-init --no-etc-hosts --enabled-hypervisors fake \
 --enabled-disk-templates diskless,file --master-netdev eth0 rg.test"""
# jobs are the only processes that luxid starts, and nobody adds up what they have used
_CGROUP: Final = "/run/cpuacct/gantry-bench"
# luxid and wconfd anew, and luxid in a group whose CPU the kernel adds up
_AGAIN: Final = f"""for name in luxid wconfd; do /usr/lib/ganeti/daemon-util stop ganeti-$name; done
for name in wconfd luxid; do /usr/lib/ganeti/daemon-util start ganeti-$name; done
mkdir -p {Path(_CGROUP).parent}
mountpoint -q {Path(_CGROUP).parent} || mount -t cgroup -o cpuacct cpuacct {Path(_CGROUP).parent}
mkdir -p {_CGROUP} && cat /run/ganeti/ganeti-luxid.pid > {_CGROUP}/cgroup.procs"""
# what costs least of the opcodes that Ganeti carries out
NO_OP: Final[dict[str, Any]] = {
    "OP_ID": "OP_TEST_DELAY",
    "reason": [],
    "duration": 1e-6,
    "on_master": True,
    "on_nodes": [],
    "on_node_uuids": None,
    "repeat": 0,
    "interruptible": False,
    "no_locks": True,
}


class GanetisMachine:
    """Where it is installed, and runs; a context manager. Needs root.

    Args: folder: keeps an installed Debian; the first run takes a minute more.
    """

    def __init__(self, folder: Path) -> None:
        self._machines = Machines(folder.absolute(), count=1)

    def __enter__(self) -> Self:
        self._machines.__enter__()
        self._machines.on_all(SYSTEM)
        said = self._machines.run(1, _CLUSTER)
        assert "exit code" not in said, said
        return self

    def __exit__(self, *error: object) -> None:
        self._machines.run(1, f"cat {_CGROUP}/cgroup.procs | xargs -r kill; sleep 0.5; rmdir {_CGROUP}")
        self._machines.__exit__(*error)

    def begin_anew(self) -> None:
        """Start its daemons again."""
        said = self._machines.run(1, _AGAIN)
        assert "exit code" not in said, said

    def command(self, *words: str) -> list[str]:
        """A program of this checkout there, as the user of wconfd, who may send it signals."""
        user = ("setpriv", "--reuid=gnt-masterd", "--regid=gnt-masterd", "--init-groups")
        return [*self._machines.place(1), *user, "/opt/gantry/bin/python3", "-P", "-B", *words]


class Ganeti:
    """In the machine: its daemons, as the parts of a benchmark need them."""

    def __init__(self) -> None:
        run = Path("/run/ganeti")
        self.paths = Paths(data=Path("/var/lib/ganeti"), run=run, log=Path("/var/log/ganeti"))
        self.pids = {name: int((run / f"ganeti-{name}.pid").read_text()) for name in ("wconfd", "luxid")}
        self._client = BlockingClient(self.paths.query_socket)

    def luxi(self, request: Request[R]) -> R:
        return self._client.call(request)

    def jobs_cpu_s(self) -> float:
        """Seconds of CPU of luxid and its jobs so far."""
        return int(Path(_CGROUP, "cpuacct.usage").read_text()) / 1e9

    def parts(self) -> Mapping[str, Callable[[Any, int], object]]:
        pid = os.getpid()
        return {
            "lock call, 1 connection": functools.partial(lock_updates, connections=1, pid=pid),
            "lock call, 4 connections": functools.partial(lock_updates, connections=4, pid=pid),
            "hand-over of a lock": functools.partial(hand_overs, pid=pid),
            "one job alone": functools.partial(one_job, op=NO_OP),
            "job of a mass": functools.partial(many_jobs, op=NO_OP),
        }
