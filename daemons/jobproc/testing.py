"""A kit for authors of opcodes: carry out a unit without daemons, job files or a cluster, and find its mistakes.

    def test_a_release_is_put_in_place(tmp_path):
        trial = UnitTrial(tmp_path)

        result = trial.carry_out(SitePublishUnit, {"site": "shop", "source": "/build/shop"})

        assert result == {"release": "1"}
        assert trial.locks == {"cluster/BGL": "shared", "instance/shop": "exclusive"}
        assert trial.feedback == ["100 %: index.html"]

The steps are those of a job process (`life.py`). A fault that would show only in a cluster is a `Mistake` here: an
opcode that does not survive its job file; a secret in that file, the job's log or the result; locks other than those
the opcode declares, from which luxid predicts waits; an optimistic unit that does not bear its second call of
`expand_names`; a change or a use of something whose lock is not held; a result that is not JSON. No time passes in
`wait`.
"""

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import orjson

from common.commands.output import OutputFile
from common.errors import GantryError, JobCanceled
from common.ids import JobId
from common.lockdecl import LevelDeclaration, LockDeclaration, Scope, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest, group_lock
from common.objects.codec import decode_config, to_json
from common.objects.config import Config
from common.opcodes.base import OpCode, read_opcode, summary, with_secrets, write_opcode
from common.opcodes.registry import parse_opcode
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from common.settings import Settings
from common.system.livelock import Livelock
from common.system.signals import ProcessSignals
from daemons.jobproc.context import UnitContext, inherit
from daemons.jobproc.fakewconfd import FakeWconfd
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.opcodelocks import UNIT_LEVELS, covers, declared_again
from daemons.jobproc.units.base import LogicalUnit
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import JobInput
from protocol.wconfd.locks import CommandOnNode


def _never(trial: "UnitTrial") -> bool:
    return False


class UnitTrial:
    """A simulated job process for one opcode, its settings, and a record of what the unit did in it.

    Args:
        folder: an empty one, for the output of the unit (`context.output`).
        config: the cluster's configuration; None: the unit must not use it.
        settings: of the simulated installation; None: all defaults, in `folder`.
        cancel_when: called whenever the unit checks, or waits; returns whether the job is cancelled.
        kill_when: the same for a kill.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: Config | None = None,
        settings: Settings | None = None,
        cancel_when: "Callable[[UnitTrial], bool]" = _never,
        kill_when: "Callable[[UnitTrial], bool]" = _never,
    ) -> None:
        self.settings = settings or Settings(Paths.under_root(folder))
        self.wconfd = None if config is None else FakeWconfd(to_json(config))
        self.cancel_when = cancel_when
        self.kill_when = kill_when
        # (kind, message) of each entry of the job's log
        self.log: list[tuple[str, object]] = []
        # every requested lock -> the strongest mode
        self.asked: dict[Lock, LockMode] = {}
        # jobs submitted by the unit, as luxid gets them
        self.submitted: list[JobInput] = []
        # seconds for which the unit waited
        self.waited_s = 0.0

    @property
    def feedback(self) -> list[str]:
        """The lines of text in the job's log, those of `progress` included."""
        return [message for kind, message in self.log if kind == "message" and isinstance(message, str)]

    @property
    def config(self) -> Config:
        """The configuration after the unit's changes."""
        assert self.wconfd is not None, "the trial has no configuration"
        return decode_config(self.wconfd.config)

    @property
    def config_changes(self) -> list[str]:
        """The changes of the configuration, by the names of wconfd's methods: `["updateNode"]`."""
        return [request.METHOD for request in self.wconfd.changes] if self.wconfd is not None else []

    @property
    def locks(self) -> dict[str, str]:
        """All requested locks, by name: `{"node/web1": "exclusive"}`."""
        return {str(lock): mode.value for lock, mode in sorted(self.asked.items())}

    def note_asked(self, requests: Iterable[LockRequest]) -> None:
        for lock, mode in ((request.lock, request.mode) for request in requests):
            known = self.asked.get(lock)
            if mode is not None and (known is None or not known.covers(mode)):
                self.asked[lock] = mode

    def carry_out(self, unit: type[LogicalUnit[OpCode]], parameters: Mapping[str, object]) -> Any:
        """Carry out the opcode of this unit.

        Args:
            parameters: JSON values, as in a file for `gnt-job submit`.
        Returns: the opcode's result; None for a dry run.
        Raises:
            InvalidRequest: luxid would refuse the parameters.
            Mistake: see the module.
            All exceptions of the unit.
        """
        op = read_opcode(unit.OPCODE, parameters)
        kept = from_job_file(op)
        context = FakeContext(self, write_opcode(op), op.secret_parameters() or {})
        made = unit(kept)
        made.expand_names(context)
        self._take_locks(made, context)
        context.forget_config()
        if made.is_optimistic and not covers(context.locks.held, declared_again(made, context)):
            raise Mistake(f"{op.OP_ID} asks for other locks when it is expanded again, though nothing has changed")
        made.check_prereq(context)
        result = None if kept.dry_run else made.run(context)
        check_result(result)
        context.check_secrets_in(result, "the result")
        return result

    def _take_locks(self, unit: LogicalUnit[OpCode], context: "FakeContext") -> None:
        """Take locks as `life` does: all known ones in one request, before a level that depends on held locks."""
        declared = unit.declaration
        requests = [LockRequest(BGL, declared.bgl)] if declared.bgl else []
        for level in UNIT_LEVELS:
            if unit.is_dynamic(level):
                context.take(requests)
                requests = []
            wanted = unit.declare_locks(level, context)
            check_requests(unit.op, declared, level, wanted)
            requests += wanted
        context.take(requests)


# Mistakes of an opcode or a unit that would otherwise show only in a cluster.


class Mistake(AssertionError):
    """The unit or its opcode would fail in a cluster."""


def from_job_file(op: OpCode) -> OpCode:
    """Return the opcode as the job process reads it. Raises: Mistake: it differs, or the file shows a secret."""
    text = orjson.dumps(write_opcode(op)).decode()
    secrets = op.secret_parameters() or {}
    for place, shown in (("the job file", text), ("its summary", summary(op)), ("its repr", repr(op))):
        for name, secret in secrets.items():
            if isinstance(secret, str) and secret and secret in shown:
                raise Mistake(f"the secret '{name}' of {op.OP_ID} can be read in {place}; keep it with metadata=SECRET")
    read = read_opcode(type(op), orjson.loads(text))
    kept = with_secrets(read, secrets) if secrets else read
    if kept != op:
        raise Mistake(f"{op.OP_ID} does not come back from its job file: {op} became {kept}")
    return kept


def check_requests(op: OpCode, declared: LockDeclaration, level: LockLevel, wanted: Sequence[LockRequest]) -> None:
    """Raises: Mistake: the unit requests other locks of a level than the opcode declares."""
    entries = declared.levels.get(level, ())
    for request in wanted:
        name, mode = str(request.lock), request.mode.value if request.mode else "released"
        if request.lock.level is not level:
            raise Mistake(f"{op.OP_ID}: declare_locks of level {level.value} asks for '{name}', of another level")
        if not any(_tells_of(entry, request) for entry in entries):
            raise Mistake(f"{op.OP_ID} asks for '{name}' {mode}, which its lock_declaration does not tell of")
    for missing in set(requests_for(level, entries)) - set(wanted):
        raise Mistake(f"{op.OP_ID} declares '{missing.lock}', which its unit does not ask for")


def _tells_of(entry: LevelDeclaration, request: LockRequest) -> bool:
    if not entry.mode.covers(request.mode):
        return False
    return entry.scope is not Scope.NAMED or (not request.lock.is_group and request.lock.name in entry.names)


def check_result(result: object) -> None:
    """Raises: Mistake: the result is not JSON."""
    try:
        orjson.dumps(result)
    except TypeError as error:
        raise Mistake(f"the result is not JSON: {error}") from error


_JOB: Final = JobId(1)
# number of steps of a long wait; the job may be cancelled between them
_STEPS: Final = 1000


class FakeContext(UnitContext):
    """The context of a unit under trial; it has the interface of `UnitContext`."""

    def __init__(self, record: UnitTrial, op_input: Mapping[str, object], secrets: Mapping[str, object]) -> None:
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

    def keep_locks_for(self, command: CommandOnNode) -> None:
        """Raises: Mistake: always."""
        raise Mistake(f"a trial has one machine; run the command on its master, and not on '{command.node}'")

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
