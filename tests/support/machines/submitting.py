"""A client that submits jobs all the time, wherever the master is, and remembers which ones were acknowledged."""

import threading
from typing import Any, Self

import attrs

from common.errors import GantryError
from common.ids import JobId
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJob
from tests.support.machines.movablemaster import Machine

# pause after a job, and after a refusal
_PAUSE_S = 0.02
_PATIENCE_S = 20.0


@attrs.frozen
class Acknowledged:
    job_id: JobId
    # name of the master that has taken it
    by: str


class Submitter:
    """Submits in a thread of its own; a context manager that ends it."""

    def __init__(self, machine: Machine, op: dict[str, Any]) -> None:
        self._machine = machine
        self._op = op
        self._is_over = threading.Event()
        self._lock = threading.Condition()
        self.acknowledged: list[Acknowledged] = []
        self.refused = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def turn_to(self, machine: Machine) -> None:
        """Submit there from now on."""
        self._machine = machine

    def until_acknowledged(self, count: int) -> None:
        """Wait until so many more jobs are acknowledged."""
        with self._lock:
            wanted = len(self.acknowledged) + count
            assert self._lock.wait_for(lambda: len(self.acknowledged) >= wanted, 60), "no job is acknowledged"

    def _run(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            machine = self._machine
            try:
                with BlockingClient(machine.paths.query_socket, connect_timeout_s=0) as luxid:
                    job_id = luxid.call(SubmitJob((self._op,)), timeout_s=_PATIENCE_S)
            except (GantryError, OSError):
                self.refused += 1
                continue
            with self._lock:
                self.acknowledged.append(Acknowledged(job_id, machine.name))
                self._lock.notify_all()
