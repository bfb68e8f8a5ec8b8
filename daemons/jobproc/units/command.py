"""OP_RUN_COMMAND: run any program as a job.

The opcode ends with the program, and processes that the program leaves running are ended with it, unless `detach` or
`keep_locks` is set. With these the opcode also ends with the program; with `keep_locks` its locks stay held until the
last of these processes has ended.

Source: DESIGN sections 7 and 16.
"""

import errno
import os
import pwd
import resource
import signal
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from common.commands.execution import Account, Launch, NotStarted, Stage
from common.commands.holding import group_name
from common.commands.limits import MEMORY, Wanted
from common.commands.output import OutputFile, Tail
from common.commands.prelude import Prelude
from common.commands.program import RunningProgram, Sink, SupervisorLost
from common.commands.programend import ProgramEnd
from common.commands.spec import Leave
from common.commands.startwords import folder_words, prelude_words, program_words
from common.commands.supervision import Terms
from common.commands.surroundings import SHELL, environment_of
from common.errors import CommandFailed, ExecutionError, JobCanceled, PrerequisiteError
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from common.system.log import get_log
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

_EACH_PROCESS: Final = (
    "memory is limited for each process by itself (its address space): there is no control group for memory here"
)
_NO_CPUS: Final = (
    "'cpus' cannot be kept: no control group for processors can be made here; run the daemons as root or in a "
    "service with Delegate=yes, or leave it out"
)
_log = get_log(__name__)


class RunCommandUnit(LogicalUnit[OpRunCommand]):
    """Runs a program to its end. A request to cancel does not stop it; a kill does."""

    OPCODE: ClassVar[type[OpCode]] = OpRunCommand

    def check_prereq(self, context: UnitContext) -> None:
        for name, path in (("cwd", self._cwd), ("stdin_path", self.op.stdin_path)):
            if path is not None and not os.path.isabs(path):
                raise PrerequisiteError(f"{name} must be an absolute path, got {path!r}", "wrong_input")
        # another user's folder is entered with that user's rights, so the check happens at the start of the program
        if self._user() is None:
            _check_folder(self._cwd)

    def run(self, context: UnitContext) -> dict[str, object]:
        sink = _Sink(context.output, context.settings.jobproc.output_tail_lines)
        errors = _Sink(context.error_output, context.settings.jobproc.output_tail_lines)
        if context.killed:
            raise JobCanceled("the job was killed before its program was started")
        program: RunningProgram | None = None
        try:
            program = self._start(context, sink.take, errors.take if self.op.stderr_apart else None)
            if self.op.memory is not None and MEMORY not in program.limited.by_controller:
                context.feedback(_EACH_PROCESS)
            end = program.run(context.begin_canceling)
        except SupervisorLost as error:
            if context.killed:
                raise JobCanceled(f"'{self.op.argv[0]}' was killed with its job") from error
            text = f"the supervisor of '{self.op.argv[0]}' was killed, and all of it was ended"
            raise ExecutionError(text) from error
        finally:
            if program is not None:
                program.close()
            context.output.close()
            context.error_output.close()
        if end.leash is not None:
            context.keep_locks_until(end.leash)
        return self._judge(end, sink, errors, context)

    def _start(self, context: UnitContext, sink: Sink, error_sink: Sink | None) -> RunningProgram:
        """Raises: CommandFailed: the program could not be started, with the reason. SupervisorLost."""
        launch = self._launch(context)
        try:
            return RunningProgram(launch, self._terms(context), sink, context.signals, error_sink)
        except NotStarted as failure:
            step = launch.prelude.failure() if failure.stage is Stage.PRELUDE else None
            text = prelude_words(step, self._user_name) if step else self._words(launch, failure.error)
            if failure.stage is Stage.LIMIT:
                text = _NO_CPUS
            raise _not_begun(text) from failure
        except OSError as error:
            raise _not_begun(self._words(launch, error)) from error
        finally:
            if launch.stdin is not None:
                os.close(launch.stdin)
            launch.prelude.close()

    def _words(self, launch: Launch, error: OSError) -> str:
        return program_words(launch.argv[0], launch.env["PATH"], error)

    def _judge(self, end: ProgramEnd, sink: "_Sink", errors: "_Sink", context: UnitContext) -> dict[str, object]:
        tail, error_tail = sink.tail.lines(), errors.tail.lines()
        if end.was_killed:
            # no matter by which signal or code it ended
            raise JobCanceled(f"'{self.op.argv[0]}' was killed with its job")
        if end.timed_out or end.exit_code not in self.op.exit_codes:
            # a kill: TERM to the whole group reached the job process as well
            if context.cancelled and _was_terminated(end) and not end.timed_out:
                raise JobCanceled(f"'{self.op.argv[0]}' was killed with its job")
            text = f"'{self.op.argv[0]}' {self._how(end)}{_last_line(error_tail or tail)}"
            raise CommandFailed(text, _told(end))
        result = {
            **_told(end),
            "output_bytes": sink.taken,
            "tail": tail,
        }
        return {**result, "error_bytes": errors.taken, "error_tail": error_tail} if self.op.stderr_apart else result

    def _how(self, end: ProgramEnd) -> str:
        if end.oom_kills:
            count = "a process" if end.oom_kills == 1 else f"{end.oom_kills} processes"
            return f"was killed for memory: {count} of it needed more than {self._memory_words}"
        if end.timed_out:
            return f"did not end within {self.op.timeout:g} s and was stopped"
        expected = " or ".join(map(str, self.op.exit_codes)) or "none"
        if end.signal_name:
            return f"was ended by {end.signal_name} (expected exit code {expected})"
        return f"ended with exit code {end.exit_code} (expected {expected})"

    @property
    def _memory_words(self) -> str:
        return "there is" if self.op.memory is None else f"its {self.op.memory / 2**20:g} MiB"

    def _launch(self, context: UnitContext) -> Launch:
        argv = [SHELL, "-c", " ".join(self.op.argv)] if self.op.shell else list(self.op.argv)
        user, settings = self._user(), context.settings.jobproc
        env = {**environment_of(user, settings), **self.op.env, **_job_env(context)}
        account = user and Account(user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))
        return Launch(
            argv,
            env,
            Prelude(self._cwd, self.op.stdin_path, _limits_of(self.op.ulimits or {}), self.op.nice or 0),
            account=account,
            umask=settings.command_umask,
            stdin=None if self.op.stdin_text is None else _file_of(self.op.stdin_text),
        )

    def _terms(self, context: UnitContext) -> Terms:
        leave = Leave.KEEP_LOCKS if self.op.keep_locks else Leave.DETACH if self.op.detach else Leave.END
        return Terms(
            context.job_id,
            context.livelock,
            leave,
            self.op.timeout,
            context.settings.luxid.kill_grace_s,
            context.groups,
            group_name(context.job_id, context.op_index, is_detached=leave is Leave.DETACH),
            context.settings.paths.run,
            Wanted(self.op.memory, self.op.cpus),
        )

    @property
    def _cwd(self) -> str:
        return self.op.cwd or "/"

    @property
    def _user_name(self) -> str:
        return self.op.user or _own_name()

    def _user(self) -> pwd.struct_passwd | None:
        """The user to run as; None: the job process's."""
        if self.op.user is None:
            return None
        try:
            user = pwd.getpwnam(self.op.user)
        except KeyError:
            raise PrerequisiteError(f"there is no user {self.op.user!r} on this machine", "unknown_entity") from None
        if user.pw_uid == os.geteuid():
            return None
        if os.geteuid() != 0:
            raise PrerequisiteError(
                f"jobs run as {_own_name()!r} here and cannot become {self.op.user!r}; "
                "the daemons would have to run as root"
            )
        return user


def _told(end: ProgramEnd) -> dict[str, object]:
    return {
        "exit_code": end.exit_code,
        "signal": end.signal_name,
        "timed_out": end.timed_out,
        "duration_s": round(end.duration_s, 6),
        "usage": dict(end.usage),
        **({"oom_kills": end.oom_kills, "killed_for": "memory"} if end.oom_kills else {}),
    }


def _limits_of(ulimits: Mapping[str, Sequence[int]]) -> Mapping[int, tuple[int, int]]:
    """The limits by the kernel's numbers."""
    return {getattr(resource, f"RLIMIT_{name.upper()}"): (pair[0], pair[-1]) for name, pair in ulimits.items() if pair}


def _not_begun(text: str) -> CommandFailed:
    return CommandFailed(text, {"exit_code": None, "signal": None, "has_begun": False})


class _Sink:
    """Takes a program's output: all of it to the output file, its end to the tail."""

    def __init__(self, output: OutputFile, tail_lines: int) -> None:
        self.tail = Tail(tail_lines)
        self.taken = 0
        self._output = output
        self._is_broken = False

    def take(self, data: bytes) -> None:
        self.taken += len(data)
        self.tail.feed(data)
        if self._is_broken:
            return
        try:
            self._output.append(data)
        except OSError as error:
            # a full disk must not stop the work: the output is not the program's result
            self._is_broken = True
            _log.warning("output.lost", error=error, next="go on without an output file")


def _was_terminated(end: ProgramEnd) -> bool:
    """Whether it was ended by a signal, or exited after a TERM with a shell's code for it."""
    return end.signal_name is not None or end.exit_code == 128 + signal.SIGTERM


def _check_folder(cwd: str) -> None:
    """Raises: PrerequisiteError: this process's user cannot enter the folder."""
    try:
        os.close(os.open(cwd, os.O_PATH | os.O_DIRECTORY))
        if not os.access(cwd, os.X_OK):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        text = folder_words(cwd, error.errno, _own_name())
        raise PrerequisiteError(text, "unknown_entity") from error


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _file_of(text: str) -> int:
    """Make a file in memory with this text, positioned at its start; the caller closes it."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "replace"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _job_env(context: UnitContext) -> Mapping[str, str]:
    paths = context.settings.paths
    return {
        "GANTRY_JOB_ID": str(context.job_id),
        "GANTRY_OPCODE_INDEX": str(context.op_index),
        "GANTRY_DATA_DIR": str(paths.data),
        "GANTRY_RUN_DIR": str(paths.run),
        "GANTRY_LOG_DIR": str(paths.log),
    }


def _last_line(tail: list[str]) -> str:
    last = next((line for line in reversed(tail) if line.strip()), "")
    return f"; last output: {last}" if last else ""
