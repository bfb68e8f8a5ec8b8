"""Two candidates with real luxid, wconfd and fork server over a real etcd; who is the master is played.

with PlayedPair(tmp_path, etcd) as pair:
    pair.begin(pair.first)            # it is the master, and serves
    pair.first.crash()
    pair.begin(pair.second)           # the next epoch

Node daemons are not started, so the other candidate lacks everything that is only in etcd.
"""

import threading
from pathlib import Path
from typing import Generic, Self, TypeVar

from common.errors import GantryError
from common.lease.grant import Grant
from common.lease.records import EtcdKeys
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryJobs
from protocol.messages import Request
from tests.support.etcds.etcd import Etcd
from tests.support.etcds.playedkeeper import PlayedKeeper
from tests.support.machines.etcdentries import entries, put
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import PATIENCE_S, wait_until

R = TypeVar("R")
DAEMONS = ("wconfd", "forkserver", "luxid")


class Asking(Generic[R]):
    """A request that may wait long for its reply, in a thread of its own."""

    def __init__(self, socket: Path, request: Request[R]) -> None:
        self._socket, self._request = socket, request
        self.reply: R | None = None
        self.error: Exception | None = None
        # whether the request is under way
        self.is_sent = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> R | None:
        """The reply; None: there was none."""
        self._thread.join(PATIENCE_S)
        assert not self.is_open, f"{self._request.METHOD} has no end"
        return self.reply

    def _run(self) -> None:
        try:
            with BlockingClient(self._socket) as client:
                client.start(self._request)
                self.is_sent = True
                self.reply = client.finish(self._request, timeout_s=PATIENCE_S)
        except (GantryError, OSError) as error:
            self.error = error


class PlayedPair:
    """A context manager that leaves no process behind."""

    def __init__(self, root: Path, etcd: Etcd) -> None:
        self.etcd = etcd
        self._fleet = LeaseFleet(root, etcd, 2, has_ways=True)
        self.first, self.second = self._fleet
        self.keys = EtcdKeys(self._fleet.prefix)
        self.keepers = {
            each.name: PlayedKeeper(each.paths, each.name, etcd.members[0].url, self._fleet.prefix)
            for each in self._fleet
        }

    def __enter__(self) -> Self:
        self._fleet.__enter__()
        self._keep_for_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.__exit__()

    def _keep_for_all(self) -> None:
        """Let both be candidates for which entries are kept: as after an earlier master compared their files."""
        for each in self._fleet:
            put(self.etcd, self.keys.synced(each.name), "0")

    def begin(self, candidate: Candidate) -> Grant:
        """Let it be the master of the next epoch, and wait until it serves."""
        grant = self.keepers[candidate.name].win()
        candidate.cluster.start(*DAEMONS)
        return grant

    def luxi(self, candidate: Candidate, request: Request[R]) -> Asking[R]:
        return Asking(candidate.paths.query_socket, request)

    def jobs(self, candidate: Candidate) -> dict[int, str]:
        """Id -> status of all jobs there."""
        return {row[0]: row[1] for row in candidate.cluster.luxi(QueryJobs(None, ("id", "status")))}  # type: ignore[misc]

    def entries(self) -> dict[str, bytes]:
        """What etcd has of this cluster."""
        return entries(self.etcd, self.keys.prefix)

    def until_entry(self, key: str) -> None:
        wait_until(lambda: key in self.entries(), what=f"etcd has {key}", state=lambda: sorted(self.entries()))

    def job_key(self, job_id: int) -> str:
        return f"{self.keys.dirty}queue/job-{job_id}"
