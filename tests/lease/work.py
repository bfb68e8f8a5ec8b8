"""Jobs that are submitted to whichever node is the master, and what must have become of them."""

from pathlib import Path
from typing import Final

from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryJobs
from tests.reliability.lease.history import EndedJob, Rest, Submit, Told
from tests.reliability.lease.ledgers import command, ledger_lines, token_of
from tests.reliability.lease.violations import violations
from tests.reliability.ledger import Outcome
from tests.support.machines.following import Follower
from tests.support.machines.leasefleet import LeaseFleet
from tests.support.wait import wait_until

_PATIENCE_S: Final = 90.0
_FINAL: Final = ("success", "error", "canceled")


class Work:
    """Args: folder: for the ledger."""

    def __init__(self, fleet: LeaseFleet, folder: Path) -> None:
        self.fleet, self._folder = fleet, folder
        self.follower = Follower([(each.name, each.paths) for each in fleet])
        self._told: list[Told] = []

    def submit(self, lasts_s: float = 0.0, node: str = "") -> int:
        """Submit a job until it is acknowledged; returns its id."""
        token = f"t{len(self._told)}"
        job = (command(self._folder, token, f"x-{token}", node, lasts_s),)
        reply = self.follower.luxi(SubmitJob(job, token), _PATIENCE_S)
        self._told.append(Told("test", Submit(token, (token,)), 0, 0, Outcome.ANSWERED, (int(reply.value),), reply.by))
        return int(reply.value)

    def states(self) -> dict[int, str]:
        return {job_id: job.state for job_id, job in self._jobs().items()}

    def until_ended(self, *job_ids: int) -> list[str]:
        """Wait until these jobs have ended, or all; returns how these have."""

        def open_jobs() -> list[int]:
            states = self.states()
            return [job_id for job_id in job_ids or states if states[job_id] not in _FINAL]

        wait_until(lambda: not open_jobs(), what="the jobs end", timeout_s=_PATIENCE_S, state=open_jobs)
        return [self.states()[job_id] for job_id in job_ids]

    def complaints(self) -> list[str]:
        return violations(self._told, ledger_lines(self._folder), Rest(self._jobs()))

    def has_run(self, job_id: int) -> bool:
        token = self._jobs()[job_id].token
        return any(line.token == token for line in ledger_lines(self._folder))

    def _jobs(self) -> dict[int, EndedJob]:
        found: dict[int, EndedJob] = {}
        for job_id, state, ops in self.follower.luxi(QueryJobs(None, ("id", "status", "ops")), _PATIENCE_S).value:
            assert isinstance(ops, list)
            found[int(str(job_id))] = EndedJob(str(state), token_of(ops[0]))
        return found
