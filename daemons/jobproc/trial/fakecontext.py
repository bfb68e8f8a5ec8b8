"""The context of a unit under trial, in place of its job process's."""

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from common.commands.output import OutputFile
from common.errors import GantryError, JobCanceled
from common.ids import JobId
from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest, group_lock
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job, JobOp
from common.system.livelock import Livelock
from common.system.signals import ProcessSignals
from daemons.jobproc.context import UnitContext
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.offspring import inherit
from daemons.jobproc.trial.checks import Mistake
from daemons.jobproc.trial.record import TrialRecord
from protocol.blocking import BlockingClient
from protocol.luxi.submission import JobInput
from protocol.wconfd.ghosts import Guard

_JOB: Final = JobId(1)
# number of steps of a long wait; the job may be cancelled between them
_STEPS: Final = 1000


class FakeContext(UnitContext):
    """The context of a unit under trial; it has the interface of `UnitContext`."""

    def __init__(self, record: TrialRecord, op_input: Mapping[str, object], secrets: Mapping[str, object]) -> None:
        paths = record.settings.paths
        paths.make_folders()
        self._trial = record
        self._op_input = op_input
        self._fake_locks = _FakeLocks()
        most = record.settings.jobproc.output_max_bytes
        super().__init__(
            job_id=_JOB,
            op_index=0,
            settings=record.settings,
            secrets=secrets,
            livelock=Livelock(str(paths.livelocks / "job_000001_0"), -1),
            groups=None,
            signals=_FakeSignals(),
            output=OutputFile(paths.output_file(_JOB), most),
            error_output=OutputFile(paths.error_output_file(_JOB), most),
            record=cast(JobRecord, _FakeRecord(self._note, Job(_JOB, (JobOp(op_input),)))),
            locks=cast(JobLocks, self._fake_locks),
        )

    @property
    def cancelled(self) -> bool:
        self._ask()
        return super().cancelled

    @property
    def killed(self) -> bool:
        self._ask()
        return super().killed

    def wait(self, seconds: float, *, until_canceled: bool = True) -> bool:
        """Count the time without waiting."""
        end_s = self._trial.waited_s + seconds
        while (left_s := end_s - self._trial.waited_s) > 0 and not (until_canceled and self.cancelled):
            self._trial.waited_s += min(left_s, max(1.0, seconds / _STEPS))
            if self.killed:
                raise JobCanceled("the job was killed")
        return self.cancelled

    def submit_jobs(self, jobs: Sequence[JobInput]) -> tuple[object, ...]:
        """Record the jobs; those that luxid would refuse get its reply."""
        answers: list[list[object]] = []
        for job in inherit(self._op_input, jobs):
            try:
                for op in job:
                    parse_opcode(op)
            except GantryError as error:
                answers.append([False, error.message])
                continue
            self._trial.submitted.append(job)
            answers.append([True, _JOB + len(self._trial.submitted)])
        return tuple(answers)

    @property
    def try_number(self) -> int:
        return 1

    def guard(self, guard: Guard) -> None:
        """Raises: Mistake: always."""
        raise Mistake(f"a trial has one machine; run the command on its master, and not on '{guard.node}'")

    def uses(self, lock: Lock, mode: LockMode = LockMode.EXCLUSIVE) -> None:
        """Report, from a test's stand-in for the real world, the use of something that this lock guards.

        Raises: Mistake: neither the lock is held nor one that includes it.
        """
        standing_for = (lock, group_lock(lock.level), BGL)
        held = [(name, self._fake_locks.held[name]) for name in standing_for if name in self._fake_locks.held]
        # all jobs share the BGL; only an exclusive one includes other locks
        if not any(has.covers(mode) for name, has in held if name == lock or name != BGL or has is LockMode.EXCLUSIVE):
            shown = ", ".join(f"'{name}' {has.value}" for name, has in sorted(self._fake_locks.held.items()))
            raise Mistake(f"'{lock}' is used and needs to be held {mode.value}; held are: {shown or 'none'}")

    def take(self, requests: Sequence[LockRequest]) -> None:
        """Grant locks, as wconfd would to the only job."""
        self._trial.note_asked(requests)
        self._fake_locks.take(requests)

    def check_secrets_in(self, value: object, place: str) -> None:
        """Raises: Mistake: the text contains the value of a secret parameter."""
        text = repr(value)
        for name, secret in self.secrets.items():
            if isinstance(secret, str) and secret and secret in text:
                raise Mistake(f"the secret parameter '{name}' is in {place}, which is kept in a file: {text:.200}")

    def _connect_wconfd(self) -> BlockingClient:
        if self._trial.wconfd is None:
            raise Mistake("the unit looks at the configuration; give the trial one")
        self._trial.wconfd.guard = self.uses
        return cast(BlockingClient, self._trial.wconfd)

    def _note(self, kind: str, message: object) -> None:
        self.check_secrets_in(message, "the job's log")
        self._trial.log.append((kind, message))

    def _ask(self) -> None:
        if self._trial.kill_when(self._trial):
            cast(_FakeSignals, self.signals).kill()
        elif self._trial.cancel_when(self._trial):
            self.signals.cancel_asked = True


class _FakeSignals(ProcessSignals):
    """Signals that only the trial sends."""

    def kill(self) -> None:
        self.cancel_asked = self._is_killed = True

    def wait(self, timeout_s: float | None, *fds: int, writing: int | None = None) -> tuple[int, ...]:
        return tuple(select.select(fds, [], [], timeout_s)[0]) if fds else ()


class _FakeRecord:
    """Records what a unit logs; a real record would also handle states and files."""

    def __init__(self, note: Callable[[str, object], None], job: Job) -> None:
        self._note = note
        self.job = job

    def log(self, index: int, message: object, kind: str = "message") -> None:
        self._note(kind, message)

    def begin_waiting(self, index: int) -> None:
        pass

    def begin_canceling(self, index: int) -> None:
        pass


class _FakeLocks:
    """The locks of the only job: every request is granted."""

    def __init__(self) -> None:
        self.held: dict[Lock, LockMode] = {}

    def take(self, requests: Iterable[LockRequest]) -> None:
        self.held |= {request.lock: request.mode for request in requests if request.mode is not None}

    def release(self, locks: Iterable[Lock]) -> None:
        """Raises: Mistake: a lock is not held."""
        for lock in locks:
            if self.held.pop(lock, None) is None:
                raise Mistake(f"'{lock}' is given up, and is not held")

    def downgrade(self, level: LockLevel) -> None:
        """Raises: Mistake: no lock of the level is held."""
        if not any(lock.level is level for lock in self.held):
            raise Mistake(f"the locks of level {level.value} are made shared, and none is held")
        self.held = {lock: LockMode.SHARED if lock.level is level else mode for lock, mode in self.held.items()}
