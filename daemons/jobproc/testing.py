"""A kit for authors of opcodes: carry out a unit without daemons, job files or a cluster, and find its mistakes.

    def test_a_release_is_put_in_place(tmp_path):
        trial = UnitTrial(tmp_path)

        result = trial.carry_out(SitePublishUnit, {"site": "shop", "source": "/build/shop"})

        assert result == {"release": "1"}
        assert trial.locks == {"cluster/BGL": "shared", "instance/shop": "exclusive"}
        assert trial.feedback == ["100 %: index.html"]

The steps are those of a job process (`life.py`). What would go wrong only in a cluster is a `Mistake` here: an opcode
that its job file does not hold whole; a secret in that file, the job's log or the result; locks other than the opcode
declares, by which luxid foresees who waits for whom; a change or a use of something whose lock is not held; a result
that is not JSON. No time passes in `wait`.
"""

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import orjson

from common.errors import GantryError, JobCanceled
from common.ids import JobId
from common.lockdecl import LevelDeclaration, LockDeclaration, Scope, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest, group_lock
from common.objects.codec import decode_config, to_json
from common.objects.config import Config
from common.opcodes.base import OpCode, read_opcode, summary, with_secrets, write_opcode
from common.opcodes.registry import parse_opcode
from common.paths import Paths
from common.settings import Settings
from common.system.livelock import Livelock
from daemons.jobproc.commands.output import OutputFile
from daemons.jobproc.context import UnitContext
from daemons.jobproc.fakewconfd import FakeWconfd
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.life import UNIT_LEVELS
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.offspring import inherit
from daemons.jobproc.signals import ProcessSignals
from daemons.jobproc.units.base import LogicalUnit
from protocol.blocking import BlockingClient
from protocol.luxi.submission import JobInput

_JOB: Final = JobId(1)
# a long wait is cut into so many steps, between which the job may be cancelled
_STEPS: Final = 1000


class Mistake(AssertionError):
    """The unit or its opcode does what would go wrong in a cluster."""


def _never(trial: "UnitTrial") -> bool:
    return False


class UnitTrial:
    """The job process of one opcode, played.

    Args:
        folder: an empty one, for what the unit writes to `context.output`.
        config: the cluster's configuration; None: the unit must not look at it.
        settings: of the installation played; None: all defaults, in `folder`.
        cancel_when: asked whenever the unit looks, or waits, whether the job is cancelled.
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
        self.log: list[tuple[str, Any]] = []
        # all locks asked for -> the strongest mode
        self.asked: dict[Lock, LockMode] = {}
        # jobs submitted by the unit, as luxid gets them
        self.submitted: list[JobInput] = []
        # seconds that the unit let pass
        self.waited_s = 0.0

    @property
    def feedback(self) -> list[str]:
        """The lines of text in the job's log, those of `progress` among them."""
        return [message for kind, message in self.log if kind == "message"]

    @property
    def config(self) -> Config:
        """The configuration after what the unit changed."""
        assert self.wconfd is not None, "the trial has no configuration"
        return decode_config(self.wconfd.config)

    @property
    def config_changes(self) -> list[str]:
        """The changes of the configuration, by the names that wconfd's methods have: `["updateNode"]`."""
        return [request.METHOD for request in self.wconfd.changes] if self.wconfd is not None else []

    @property
    def locks(self) -> dict[str, str]:
        """All locks that were asked for, as they are written: `{"node/web1": "exclusive"}`."""
        return {str(lock): mode.value for lock, mode in sorted(self.asked.items())}

    def carry_out(self, unit: type[LogicalUnit[Any]], parameters: Mapping[str, Any]) -> Any:
        """Carry out the opcode of this unit.

        Args:
            parameters: as JSON, as they stand in a file for `gnt-job submit`.
        Returns: the opcode's result; None for a dry run.
        Raises:
            InvalidRequest: the parameters are refused, as luxid would.
            Mistake: see the module.
            Whatever the unit raises.
        """
        op = read_opcode(unit.OPCODE, parameters)
        kept = _from_job_file(op)
        context = FakeContext(self, write_opcode(op), op.secret_parameters() or {})
        made = unit(kept)
        made.expand_names(context)
        self._take_locks(made, context)
        made.check_prereq(context)
        result = None if kept.dry_run else made.run(context)
        _check_result(result)
        context.check_secrets_in(result, "the result")
        return result

    def _take_locks(self, unit: LogicalUnit[Any], context: "FakeContext") -> None:
        """As `life` does: all that is known goes in one request, before a level that needs to be looked at."""
        declared = unit.declaration
        requests = [LockRequest(BGL, declared.bgl)] if declared.bgl else []
        for level in UNIT_LEVELS:
            if unit.is_dynamic(level):
                context.take(requests)
                requests = []
            wanted = unit.declare_locks(level, context)
            _check_requests(unit.op, declared, level, wanted)
            requests += wanted
        context.take(requests)

    def note_asked(self, requests: Iterable[LockRequest]) -> None:
        for lock, mode in ((request.lock, request.mode) for request in requests):
            known = self.asked.get(lock)
            if mode is not None and (known is None or not known.covers(mode)):
                self.asked[lock] = mode


class FakeContext(UnitContext):
    """What a unit under trial sees; its face is that of `UnitContext`."""

    def __init__(self, trial: UnitTrial, op_input: Mapping[str, Any], secrets: Mapping[str, Any]) -> None:
        paths = trial.settings.paths
        paths.make_folders()
        self._trial = trial
        self._op_input = op_input
        self._fake_locks = _FakeLocks()
        most = trial.settings.jobproc.output_max_bytes
        super().__init__(
            job_id=_JOB,
            op_index=0,
            settings=trial.settings,
            secrets=secrets,
            livelock=Livelock(str(paths.livelocks / "job_000001_0"), -1),
            groups=None,
            signals=_FakeSignals(),
            output=OutputFile(paths.output_file(_JOB), most),
            error_output=OutputFile(paths.error_output_file(_JOB), most),
            record=cast(JobRecord, _FakeRecord(self._note)),
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
        """Let no time pass, but count it."""
        end_s = self._trial.waited_s + seconds
        while (left_s := end_s - self._trial.waited_s) > 0 and not (until_canceled and self.cancelled):
            self._trial.waited_s += min(left_s, max(1.0, seconds / _STEPS))
            if self.killed:
                raise JobCanceled("the job was killed")
        return self.cancelled

    def submit_jobs(self, jobs: Sequence[JobInput]) -> tuple[Any, ...]:
        """Note the jobs; those that luxid would refuse have its answer."""
        answers: list[list[Any]] = []
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

    def uses(self, lock: Lock, mode: LockMode = LockMode.EXCLUSIVE) -> None:
        """For what stands in for the world in a test: something is touched that this lock guards.

        Raises: Mistake: the lock is not held, nor one that stands for it.
        """
        standing_for = (lock, group_lock(lock.level), BGL)
        held = [(name, self._fake_locks.held[name]) for name in standing_for if name in self._fake_locks.held]
        # all jobs share the big lock; only alone it stands for others
        if not any(has.covers(mode) for name, has in held if name == lock or name != BGL or has is LockMode.EXCLUSIVE):
            shown = ", ".join(f"'{name}' {has.value}" for name, has in sorted(self._fake_locks.held.items()))
            raise Mistake(f"'{lock}' is used and needs to be held {mode.value}; held are: {shown or 'none'}")

    def take(self, requests: Sequence[LockRequest]) -> None:
        """Grant locks, as wconfd would to the only job there is."""
        self._trial.note_asked(requests)
        self._fake_locks.take(requests)

    def check_secrets_in(self, value: Any, place: str) -> None:
        """Raises: Mistake: the value of a secret parameter is in there."""
        text = repr(value)
        for name, secret in self.secrets.items():
            if isinstance(secret, str) and secret and secret in text:
                raise Mistake(f"the secret parameter '{name}' is in {place}, which is kept in a file: {text:.200}")

    def _connect_wconfd(self) -> BlockingClient:
        if self._trial.wconfd is None:
            raise Mistake("the unit looks at the configuration; give the trial one")
        self._trial.wconfd.guard = self.uses
        return cast(BlockingClient, self._trial.wconfd)

    def _note(self, kind: str, message: Any) -> None:
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

    def wait(self, timeout_s: float | None, *fds: int) -> tuple[int, ...]:
        return tuple(select.select(fds, [], [], timeout_s)[0]) if fds else ()


class _FakeRecord:
    """Takes what a unit has to say, and no more; states and files are the job process's business."""

    def __init__(self, note: Callable[[str, Any], None]) -> None:
        self._note = note

    def log(self, index: int, message: Any, kind: str = "message") -> None:
        self._note(kind, message)

    def begin_waiting(self, index: int) -> None:
        pass

    def begin_canceling(self, index: int) -> None:
        pass


class _FakeLocks:
    """The locks of a job that is alone: whatever it asks for is granted."""

    def __init__(self) -> None:
        self.held: dict[Lock, LockMode] = {}

    def take(self, requests: Iterable[LockRequest]) -> None:
        self.held |= {request.lock: request.mode for request in requests if request.mode is not None}

    def release(self, locks: Iterable[Lock]) -> None:
        """Raises: Mistake: one is not held."""
        for lock in locks:
            if self.held.pop(lock, None) is None:
                raise Mistake(f"'{lock}' is given up, and is not held")

    def downgrade(self, level: LockLevel) -> None:
        """Raises: Mistake: none of the level is held."""
        if not any(lock.level is level for lock in self.held):
            raise Mistake(f"the locks of level {level.value} are made shared, and none is held")
        self.held = {lock: LockMode.SHARED if lock.level is level else mode for lock, mode in self.held.items()}


def _from_job_file(op: OpCode) -> OpCode:
    """The opcode as the job process reads it. Raises: Mistake: that differs, or a secret can be read in the file."""
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


def _check_requests(op: OpCode, declared: LockDeclaration, level: LockLevel, wanted: Sequence[LockRequest]) -> None:
    """Raises: Mistake: the unit asks for other locks of a level than the opcode tells."""
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


def _check_result(result: Any) -> None:
    try:
        orjson.dumps(result)
    except TypeError as error:
        raise Mistake(f"the result is not JSON: {error}") from error
