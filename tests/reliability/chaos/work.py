"""What clients do during a chaos, and what they were told.

Each act is one change of the queue or of the configuration, sent again until it is acknowledged or refused. A
submission has a key, so that one that is sent again is not taken twice.
"""

import random
from typing import Any, Final

import attrs

from common.errors import RemoteError
from common.ids import JobId
from common.paths import Paths
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import Accepted, ArchiveJob, CancelJob, ChangeJobPriority, SubmitManyJobs
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import SetDrainFlag
from protocol.messages import Request
from protocol.wconfd.changes import ChangeJobLimits

# a daemon that is killed again and again needs long to reply
_PATIENCE_S: Final = 300.0
_MOST_AT_ONCE: Final = 3
_FINAL: Final = ("success", "error", "canceled")


@attrs.define
class Told:
    """What was acknowledged."""

    # key of a submission -> ids of its jobs
    jobs: dict[str, tuple[JobId, ...]] = attrs.field(factory=dict)
    archived: set[JobId] = attrs.field(factory=set)
    job_changes: int = 0
    config_changes: int = 0
    # the configuration has this value, or, if the last change was not acknowledged, that one
    limit: int = 0
    refused: int = 0

    @property
    def job_ids(self) -> list[JobId]:
        return [job_id for job_ids in self.jobs.values() for job_id in job_ids]


class Client:
    """Acts at random. Args: seed: decides what is done."""

    def __init__(self, paths: Paths, seed: str) -> None:
        self._paths = paths
        self._chance = random.Random(seed)
        self.told = Told()
        self._is_drained = False

    def change_queue(self) -> None:
        """One acknowledged, or refused, change."""
        acts = {self._submit: 6, self._archive: 2, self._cancel: 1, self._change_priority: 1, self._drain: 1}
        self._chance.choices(list(acts), list(acts.values()))[0]()
        self.told.job_changes += 1

    def change_config(self) -> None:
        """One acknowledged change."""
        self.told.limit = 30 + self.told.config_changes
        self._wconf(ChangeJobLimits(self.told.limit, None))
        self.told.config_changes += 1

    def end(self) -> None:
        """Open the queue again, and wait until all jobs have ended."""
        self._luxi(SetDrainFlag(False))

    def open_jobs(self) -> list[JobId]:
        """The jobs that have not ended."""
        live = [job_id for job_id in self.told.job_ids if job_id not in self.told.archived]
        rows = self._luxi(QueryJobs(tuple(live), ("id", "status"))) if live else ()
        found: list[Any] = [row for row in rows or () if row is not None]
        return [JobId(row[0]) for row in found if row[1] not in _FINAL]

    def _submit(self) -> None:
        if self._is_drained:
            self._drain()
            return
        key = f"key-{len(self.told.jobs)}-{self.told.job_changes}"
        ops = {"OP_ID": "OP_TEST_DELAY", "duration": self._chance.choice((0.0, 0.0, 0.05, 0.5))}
        jobs = ((ops,),) * self._chance.randint(1, _MOST_AT_ONCE)
        answers = self._luxi(SubmitManyJobs(jobs, key))
        if answers is not None:
            self.told.jobs[key] = tuple(each.job_id for each in answers if isinstance(each, Accepted))

    def _archive(self) -> None:
        job_id = self._any_job()
        if job_id is not None and self._luxi(ArchiveJob(job_id)):
            self.told.archived.add(job_id)

    def _cancel(self) -> None:
        job_id = self._any_job()
        if job_id is not None:
            self._luxi(CancelJob(job_id))

    def _change_priority(self) -> None:
        job_id = self._any_job()
        if job_id is not None:
            self._luxi(ChangeJobPriority(job_id, self._chance.randint(-5, 5)))

    def _drain(self) -> None:
        self._is_drained = not self._is_drained
        self._luxi(SetDrainFlag(self._is_drained))

    def _any_job(self) -> JobId | None:
        live = [job_id for job_id in self.told.job_ids if job_id not in self.told.archived]
        return self._chance.choice(live) if live else None

    def _luxi(self, request: Request[Any]) -> Any:
        """The reply; None: it was refused."""
        try:
            with BlockingClient(self._paths.query_socket, reply_timeout_s=_PATIENCE_S) as client:
                return client.call_retrying(request)
        except RemoteError:
            self.told.refused += 1
            return None

    def _wconf(self, request: Request[Any]) -> None:
        with BlockingClient(self._paths.wconfd_socket, reply_timeout_s=_PATIENCE_S) as client:
            client.call_retrying(request)
