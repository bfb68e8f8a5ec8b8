"""What a logical unit sees of the job process that carries it out.

Source: DESIGN section 7.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

from common.errors import JobCanceled
from common.ids import JobId
from common.locks import Lock, LockLevel, LockMode, Owner
from common.settings import Settings
from common.system.livelock import Livelock
from common.wire import unstructure
from daemons.jobproc.commands.cgroups import GroupTree
from daemons.jobproc.commands.output import OutputFile
from daemons.jobproc.commands.program import Leash
from daemons.jobproc.configuration import UnitConfig, Wconfd
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.offspring import inherit
from daemons.jobproc.signals import ProcessSignals
from protocol.blocking import BlockingClient
from protocol.luxi.submission import JobInput, SubmitManyJobs


class UnitLocks:
    """The locks of the running opcode: to look at, and to give up early."""

    def __init__(self, locks: JobLocks) -> None:
        self._locks = locks

    @property
    def held(self) -> Mapping[Lock, LockMode]:
        return self._locks.held

    def release(self, locks: Iterable[Lock]) -> None:
        """Give up some of them; others get them at once."""
        self._locks.release(locks)

    def downgrade(self, level: LockLevel) -> None:
        """Turn the exclusive ones of a level into shared ones."""
        self._locks.downgrade(level)


@attrs.define
class UnitContext:
    """One opcode's view; made anew for each."""

    job_id: JobId
    # place of the opcode in the job, from 0
    op_index: int
    settings: Settings
    # parameters that are in no file; empty if there are none
    secrets: Mapping[str, Any]
    # the job's, for the supervisors of programs
    livelock: Livelock
    # where the control groups of programs are made; None: none can be
    groups: GroupTree | None
    signals: ProcessSignals
    output: OutputFile
    # standard error of commands that have it apart
    error_output: OutputFile
    _record: JobRecord
    _locks: JobLocks
    # see `keep_locks_until`
    leash: Leash | None = None
    # see `config`; None: to be read
    _config: UnitConfig | None = attrs.field(default=None, init=False)

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to cancel; a unit may go on all the same."""
        return self.signals.cancel_asked

    @property
    def killed(self) -> bool:
        """Whether the job is to end at once; a unit that does not soon is killed."""
        return self.signals.kill_asked

    def begin_canceling(self) -> None:
        """Show the opcode as being ended, since the job is killed, until nothing of it lives."""
        self._record.begin_canceling(self.op_index)

    @property
    def config(self) -> UnitConfig:
        """The cluster's configuration: read once, and again after each change that the unit makes by it.

        Raises: Unavailable: wconfd did not answer for minutes. RemoteError.
        """
        if self._config is None:
            owner = Owner(self.job_id, self.livelock.path)
            self._config = UnitConfig.read(Wconfd(self._connect_wconfd, owner, self.wait, self._forget_config))
        return self._config

    @cached_property
    def locks(self) -> UnitLocks:
        return UnitLocks(self._locks)

    def feedback(self, text: str) -> None:
        """Tell the user something: a line in the job's log. Cheap; it is written soon after."""
        self._record.log(self.op_index, text)

    def log(self, kind: str, message: object) -> None:
        """Add an entry of another type than text to the job's log; the message is JSON-able."""
        self._record.log(self.op_index, message, kind)

    def begin_waiting(self) -> None:
        """Show the opcode as waiting, while its names are expanded; it is done by itself when locks are not free."""
        self._record.begin_waiting(self.op_index)

    def progress(self, fraction: float, text: str) -> None:
        """Tell how far the work is; `fraction` from 0 to 1."""
        self.feedback(f"{100 * min(max(fraction, 0.0), 1.0):.0f} %: {text}")

    def wait(self, seconds: float, *, until_canceled: bool = True) -> bool:
        """Let time pass, or less of it when the job is asked to cancel.

        Returns: whether it was (`cancelled`).
        Raises: JobCanceled: the job is killed.
        """
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0 and not (until_canceled and self.cancelled):
            self.signals.wait(left_s)
            if self.killed:
                raise JobCanceled("the job was killed")
        return self.cancelled

    def submit_jobs(self, jobs: Sequence[JobInput]) -> tuple[object, ...]:
        """Submit jobs, lists of opcode objects; they inherit as `offspring` tells.

        Returns: `[true, job id]` or `[false, message]` for each, in order: JSON, as a unit may give it as its result.
        Raises: RemoteError, Unavailable: luxid refused all or is away. It is not asked twice, as
            the jobs might then run twice.
        """
        with BlockingClient(self.settings.paths.query_socket, daemon="the queue daemon") as client:
            inherited = inherit(self._record.job.ops[self.op_index].input, jobs)
            answers = client.call(SubmitManyJobs(inherited, by_job=self.job_id))
        return tuple(map(unstructure, answers))

    def keep_locks_until(self, leash: Leash) -> None:
        """Something that the opcode started outlives it: its locks are kept until the last of that ends."""
        self.leash = leash

    def _connect_wconfd(self) -> BlockingClient:
        return BlockingClient(self.settings.paths.wconfd_socket, daemon="the lock daemon")

    def _forget_config(self) -> None:
        self._config = None
