"""One job's life, from the handshake to the last opcode.

Theory. After a crash only the file counts, so each step is on disk before the
next one begins: *running* before anything is executed, the end of an opcode before the next one. A
process may end between two opcodes; the job is then queued, and another process continues it. That
happens before an opcode that depends on other jobs, or that a filter rule pauses. If the rule comes
while the opcode waits for its locks, it drops its request and all that it holds, and goes back to queued. So does
an opcode whose command has failed and is to be tried again (`retrying`).

Locks outlive the opcode if one of its processes does and may (see `leftprocesses`). The next opcode
then waits for that. At the end of the job nothing is freed and the livelock stays: the supervisor of
those processes holds it, and wconfd frees the locks when the last of them ends.

A process may find its first opcode *running*: an earlier process of the job has begun it, and died. If it is
resumable, it goes on here: the orphaned locks that the earlier process has left are adopted. As long as a command may
still run on a node, the end of an opcode frees nothing, whatever has ended it, and the locks outlive this process.

Source: DESIGN sections 3, 5, 7, 11, 13 and 14; luxid.md 9.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from common.commands.cgroups import GroupTree
from common.commands.output import OutputFile
from common.errors import JobCanceled, PrerequisiteError, ProtocolError
from common.ids import JobId
from common.locks import Owner
from common.opcodes.base import REDACTED, OpCode, with_secrets
from common.opcodes.registry import parse_opcode
from common.queue.jobs import JobState
from common.queue.sidefiles import taken_priority
from common.settings import Settings
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.signals import ProcessSignals
from daemons.jobproc.context import Abandoned, UnitContext
from daemons.jobproc.jobrecord import JobRecord, WaitRecord, load_record
from daemons.jobproc.leftprocesses import LeftoverWait
from daemons.jobproc.locking import JobLocks, Paused
from daemons.jobproc.opcodeends import SHUTDOWN, OpcodeEnds, Retrying
from daemons.jobproc.opcodelocks import OpcodeLocks
from daemons.jobproc.units.registry import make_unit
from protocol.forkserver import GO_AHEAD, REFUSAL, Secrets
from protocol.framing import Framer, pack

# The job process's side of the handshake with luxid.
#
# Source: protocol.forkserver; luxid.md 9.1.


_CHUNK = 64 * 2**10
_log = get_log(__name__)


def shake_hands(sock: socket.socket, livelock_path: str) -> Secrets | None:
    """Report to luxid and wait until it permits the start; closes the socket.

    A TERM meanwhile does not end the wait: luxid may already have given the job away, and then this process must
    cancel it.

    Returns: the secrets; None: luxid is gone or sent something else, and the job must not be touched.
    """
    with sock:
        messages = _Messages(sock)
        try:
            sock.setblocking(True)
            sock.sendall(pack(livelock_path.encode()))
            if messages.next() != GO_AHEAD:
                return None
        except (OSError, EOFError):
            return None
        return _take_secrets(messages)


def refuse(sock: socket.socket, reason: str) -> None:
    """Tell luxid that this process cannot start at the moment, through no fault of its job; closes the socket."""
    with sock, contextlib.suppress(OSError):
        sock.setblocking(True)
        sock.sendall(pack(REFUSAL + reason.encode(errors="replace")))


def _take_secrets(messages: "_Messages") -> Secrets:
    # after the go-ahead the file is ours: luxid's death must not stop the job now
    try:
        return _read_secrets(messages.next())
    except (OSError, EOFError, ProtocolError) as error:
        _log.warning("job.no_secrets", error=error)
        return ()


def _read_secrets(payload: bytes) -> Secrets:
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"the secrets are not JSON: {error}") from None
    if not isinstance(value, list) or not all(item is None or isinstance(item, dict) for item in value):
        raise ProtocolError("the secrets are not a list of objects and nulls")
    return value


class _Messages:
    """The messages that arrive on a socket, one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._framer = Framer()
        self._whole: list[bytes] = []

    def next(self) -> bytes:
        """Raises: EOFError: the peer closed; OSError."""
        while not self._whole:
            data = self._sock.recv(_CHUNK)
            if not data:
                raise EOFError("luxid closed the connection")
            self._whole = self._framer.feed(data)
        return self._whole.pop(0)


# reason of a pause
_FILTER_RULE: Final = "filter rule"
_NO_SECRETS: Final[Mapping[str, object]] = {}


def run(
    job_id: JobId,
    sock: socket.socket,
    settings: Settings,
    signals: ProcessSignals,
    groups: GroupTree | None = None,
) -> int:
    """Live the life of a job; the caller ends the process with the returned exit code.

    Args:
        sock: connection to luxid; closed here.
        signals: installed.
        groups: tree for the control groups of commands; None: no control groups here.
    """
    try:
        livelock = Livelock.create(settings.paths.livelocks, f"job_{job_id:06d}")
    except OSError as error:
        _log.error("job.not_started", job=job_id, reason=f"the livelock cannot be made: {error}")
        refuse(sock, f"its livelock cannot be made: {(error.strerror or str(error)).lower()}")
        return 1
    secrets = shake_hands(sock, livelock.path)
    if secrets is None:
        _log.warning("job.not_started", job=job_id, reason="luxid gave no go-ahead")
        livelock.remove()
        return 1
    record = load_record(job_id, settings.paths, livelock, signals)
    if record is None:
        livelock.remove()
        return 1
    life = _Life(job_id, record, livelock, settings, signals, secrets, groups)
    try:
        life.live()
    except Abandoned as reason:
        _log.warning("job.abandoned", job=job_id, reason=reason, next="another process goes on with it")
        return 1
    except BaseException as error:
        _log.exception("job.crashed", job=job_id)
        life.give_up(error)
        return 1
    finally:
        life.leave()
    return 0


class _Life:
    """A job with everything that its process has for it."""

    def __init__(
        self,
        job_id: JobId,
        record: JobRecord,
        livelock: Livelock,
        settings: Settings,
        signals: ProcessSignals,
        secrets: Secrets,
        groups: GroupTree | None,
    ) -> None:
        self._job_id = job_id
        self._record = record
        self._livelock = livelock
        self._settings = settings
        self._signals = signals
        self._secrets = secrets
        self._groups = groups
        owner = Owner(job_id, livelock.path, os.getpid())
        waits = WaitRecord(settings.paths.waits_file(job_id), job_id)
        self._locks = JobLocks(settings.paths.wconfd_socket, owner, signals, waits)
        most = settings.jobproc.output_max_bytes
        self._output = OutputFile(settings.paths.output_file(job_id), most)
        self._error_output = OutputFile(settings.paths.error_output_file(job_id), most)
        self._left = LeftoverWait(signals)
        retrying = Retrying(record, signals, self._left, self._output, self._error_output)
        self._ends = OpcodeEnds(job_id, record, self._locks, self._left, retrying, signals, settings)
        index = record.job.next_index
        # opcode that an earlier process has begun
        self._begun = index if index is not None and record.job.ops[index].state is JobState.RUNNING else None
        self._opcode_locks = OpcodeLocks(job_id, self._locks, record, self._is_paused, self._begun)
        # see `UnitContext.after_end`
        self._afterwards: list[Callable[[], None]] = []
        signals.on_priority = self._take_priority
        signals.is_kill = settings.paths.kill_message(job_id).exists

    def live(self) -> None:
        """Carry out the unfinished opcodes, until one fails, or the job is cancelled, must wait, or is paused."""
        _log.debug("job.started", job=self._job_id)
        is_first = True
        while (index := self._record.job.next_index) is not None:
            self._signals.look()
            if self._signals.cancel_asked and not self._has_begun(index):
                if self._ends.is_left_queued:
                    _log.info("job.paused", job=self._job_id, opcode=index, reason=SHUTDOWN)
                    return
                self._ends.cancel_queued()
            elif not is_first and self._record.job.ops[index].input.get("depends"):
                _log.info("job.paused", job=self._job_id, opcode=index, reason="dependencies")
                return
            elif why := _FILTER_RULE if not is_first and self._is_paused() else self._carry_out(index):
                _log.info("job.paused", job=self._job_id, opcode=index, reason=why)
                return
            is_first = False
        _log.info("job.ended", job=self._job_id, state=self._record.job.state.value)

    def give_up(self, error: BaseException) -> None:
        """End the job as failed, if the file can still be written."""
        if not self._record.job.is_final:
            with contextlib.suppress(Exception):
                self._record.fail(error)

    def leave(self) -> None:
        """Release everything, except what processes that live on stand for."""
        self._output.close()
        self._error_output.close()
        self._record.close()
        if self._left.is_any or self._locks.may_run:
            _log.info("job.left_processes", job=self._job_id, locks="kept until they end")
            return
        self._locks.start_free()
        self._locks.finish_free()
        self._locks.close()
        self._livelock.remove()

    def _carry_out(self, index: int) -> str:
        """Carry out one opcode; return why it is queued again; "": it, or the whole job, has ended."""
        why = ""
        try:
            result = self._execute(index)
        except Paused:
            self._ends.hold_back(index)
            return _FILTER_RULE
        except Abandoned:
            raise
        except JobCanceled:
            why = self._ends.cancel(index)
        except BaseException as error:
            why = self._ends.fail(index, error)
        else:
            self._ends.succeed(index, result)
        self._do_afterwards()
        return why

    def _do_afterwards(self) -> None:
        acts, self._afterwards = self._afterwards, []
        if acts:
            self._record.make_durable()
        for act in acts:
            try:
                act()
            except Exception as error:
                _log.warning("opcode.afterwards_failed", job=self._job_id, error=error, effect="none on the job")

    def _has_begun(self, index: int) -> bool:
        """Whether an earlier process has begun the opcode: then a request to cancel comes too late."""
        return index == self._begun

    def _is_paused(self) -> bool:
        return self._settings.paths.pause_message(self._job_id).exists()

    def _execute(self, index: int) -> object:
        """Raises: JobCanceled; Paused; Abandoned; all exceptions of the unit."""
        self._wait_for_left_processes(index)
        op = self._opcode(index)
        unit = make_unit(op)
        context = self._context(index)
        self._afterwards = context.afterwards
        has_locks = context.is_resumed and self._opcode_locks.adopt(index, op)
        unit.expand_names(context)
        if has_locks:
            context.forget_config()
        else:
            self._opcode_locks.take(index, unit, context)
        if not context.is_resumed:
            self._hold_back_if_paused(index)
            self._record.begin_running(index)
        try:
            unit.check_prereq(context)
            # a dry run ends here: everything up to here refuses as in earnest
            return None if op.dry_run else unit.run(context)
        finally:
            self._left.keep(context.left)

    def _hold_back_if_paused(self, index: int) -> None:
        """Raises: Paused: a rule has come while it waited for its locks."""
        if self._record.job.ops[index].start_at is not None and self._is_paused():
            raise Paused

    def _opcode(self, index: int) -> OpCode:
        """The opcode with its secrets. Raises: PrerequisiteError: the secrets are lost."""
        op = parse_opcode(self._record.job.ops[index].input)
        if (secrets := self._secrets_of(index)) is not None:
            return with_secrets(op, secrets)
        if REDACTED in (op.secret_parameters() or {}).values():
            raise PrerequisiteError(
                "the secret parameters are lost: they are kept in memory only, and the queue daemon was restarted "
                "since the job was submitted; submit it again",
                "wrong_state",
            )
        return op

    def _secrets_of(self, index: int) -> Mapping[str, object] | None:
        return self._secrets[index] if index < len(self._secrets) else None

    def _wait_for_left_processes(self, index: int) -> None:
        text = "waiting for processes that the previous opcode left running, and for its locks"
        if not self._left.wait(lambda: self._record.log(index, text)):
            return
        self._locks.start_free()
        self._locks.finish_free()
        if self._signals.cancel_asked:
            # it waited for an end that it has caused itself: the next opcode must not request locks
            raise JobCanceled

    def _context(self, index: int) -> UnitContext:
        return UnitContext(
            job_id=self._job_id,
            op_index=index,
            settings=self._settings,
            secrets=self._secrets_of(index) or _NO_SECRETS,
            livelock=self._livelock,
            groups=self._groups,
            signals=self._signals,
            output=self._output,
            error_output=self._error_output,
            record=self._record,
            locks=self._locks,
            is_resumed=self._has_begun(index),
        )

    def _take_priority(self) -> None:
        """Read luxid's message with a new priority, and apply it."""
        try:
            with taken_priority(self._settings.paths.priority_message(self._job_id)) as priority:
                if priority is None:
                    return
                self._record.set_priority(priority)
                _log.info("job.priority", job=self._job_id, priority=priority)
        except (OSError, ValueError) as error:
            _log.warning("priority.unreadable", job=self._job_id, error=error)
