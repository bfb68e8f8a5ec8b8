"""OP_RUN_COMMAND: any program as a job.

The program inherits the descriptor of the job's livelock and a leash: the opcode's locks stay taken
while anything that it left running still has them (DESIGN section 5). The opcode itself ends with
the program.

Source: DESIGN section 7.
"""

import errno
import os
import pwd
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, ClassVar

from common.errors import ExecutionError, JobCanceled, PrerequisiteError
from common.log import get_log
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from daemons.jobproc.context import UnitContext
from daemons.jobproc.output import OutputFile, Tail
from daemons.jobproc.prelude import Prelude
from daemons.jobproc.program import Account, Launch, ProgramEnd, RunningProgram, Sink
from daemons.jobproc.startwords import folder_words, prelude_words, program_words
from daemons.jobproc.surroundings import SHELL, environment_of
from daemons.jobproc.units.base import LogicalUnit

_log = get_log(__name__)


class RunCommandUnit(LogicalUnit[OpRunCommand]):
    """Run a program to its end. A request to cancel does not stop it; a kill does."""

    OPCODE: ClassVar[type[OpCode]] = OpRunCommand

    def check_prereq(self, context: UnitContext) -> None:
        for name, path in (("cwd", self._cwd), ("stdin_path", self.op.stdin_path)):
            if path is not None and not os.path.isabs(path):
                raise PrerequisiteError(f"{name} must be an absolute path, got {path!r}", "wrong_input")
        # that of another user is entered with his rights only, and that is seen when he begins
        if self._user() is None:
            _check_folder(self._cwd)

    def run(self, context: UnitContext) -> dict[str, Any]:
        sink = _Sink(context.output, context.settings.jobproc.output_tail_lines)
        errors = _Sink(context.error_output, context.settings.jobproc.output_tail_lines)
        program = self._start(context, sink.take, errors.take if self.op.stderr_apart else None)
        try:
            end = program.run(self.op.timeout, context.settings.luxid.kill_grace_s)
        finally:
            program.close()
            context.output.close()
            context.error_output.close()
        context.keep_locks_until(end.leash)
        return self._judge(end, sink, errors, context)

    def _start(self, context: UnitContext, sink: Sink, error_sink: Sink | None) -> RunningProgram:
        """Raises: ExecutionError: it could not be started; the text says why."""
        launch = self._launch(context)
        try:
            return RunningProgram(launch, sink, context.signals, error_sink)
        except OSError as error:
            # subprocess names the folder if that was it
            if launch.cwd is not None and error.filename == launch.cwd != launch.argv[0]:
                raise ExecutionError(folder_words(launch.cwd, error.errno, self._user_name)) from error
            raise ExecutionError(program_words(launch.argv[0], launch.env["PATH"], error)) from error
        except subprocess.SubprocessError as error:
            failure = launch.prelude and launch.prelude.failure()
            raise ExecutionError(prelude_words(failure, self._user_name) if failure else str(error)) from error
        finally:
            if launch.stdin is not None:
                os.close(launch.stdin)
            if launch.prelude is not None:
                launch.prelude.close()

    def _judge(self, end: ProgramEnd, sink: "_Sink", errors: "_Sink", context: UnitContext) -> dict[str, Any]:
        tail, error_tail = sink.tail.lines(), errors.tail.lines()
        if end.timed_out or end.exit_code not in self.op.exit_codes:
            # a kill: TERM to the whole group reached us as well
            if context.cancelled and _was_terminated(end) and not end.timed_out:
                raise JobCanceled(f"'{self.op.argv[0]}' was killed with its job")
            raise ExecutionError(f"'{self.op.argv[0]}' {self._how(end)}{_last_line(error_tail or tail)}")
        result = {
            "exit_code": end.exit_code,
            "signal": end.signal_name,
            "timed_out": end.timed_out,
            "duration_s": round(end.duration_s, 6),
            "output_bytes": sink.taken,
            "tail": tail,
        }
        return {**result, "error_bytes": errors.taken, "error_tail": error_tail} if self.op.stderr_apart else result

    def _how(self, end: ProgramEnd) -> str:
        if end.timed_out:
            return f"did not end within {self.op.timeout:g} s and was stopped"
        expected = " or ".join(map(str, self.op.exit_codes)) or "none"
        if end.signal_name:
            return f"was ended by {end.signal_name} (expected exit code {expected})"
        return f"ended with exit code {end.exit_code} (expected {expected})"

    def _launch(self, context: UnitContext) -> Launch:
        argv = [SHELL, "-c", " ".join(self.op.argv)] if self.op.shell else list(self.op.argv)
        user, settings = self._user(), context.settings.jobproc
        env = {**environment_of(user, settings), **self.op.env, **_job_env(context)}
        account = user and Account(user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))
        prelude = self._prelude(account)
        return Launch(
            argv,
            env,
            None if prelude is not None else self._cwd,
            pass_fds=(context.livelock_fd,),
            account=account,
            umask=settings.command_umask,
            stdin=None if self.op.stdin_text is None else _file_of(self.op.stdin_text),
            prelude=prelude,
        )

    def _prelude(self, account: Account | None) -> Prelude | None:
        """The steps that only the command's own process can take; None: there are none, and it starts faster."""
        if account is None and self.op.stdin_path is None:
            return None
        return Prelude(self._cwd, self.op.stdin_path)

    @property
    def _cwd(self) -> str:
        return self.op.cwd or "/"

    @property
    def _user_name(self) -> str:
        return self.op.user or _own_name()

    def _user(self) -> pwd.struct_passwd | None:
        """Whom to run as; None: as the job process."""
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
            # a full disk must not stop the work: the program's output is not the program's result
            self._is_broken = True
            _log.warning("output.lost", error=error, next="go on without an output file")


def _was_terminated(end: ProgramEnd) -> bool:
    """Ended by a signal, or by its own hand after a TERM, as shells tell it."""
    return end.signal_name is not None or end.exit_code == 128 + signal.SIGTERM


def _check_folder(cwd: str) -> None:
    """Raises: PrerequisiteError: this process' user cannot enter it."""
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
    """A file in memory with this text, to read from its beginning; the caller closes it."""
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
