"""OP_RUN_COMMAND: any program as a job.

The program inherits the descriptor of the job's livelock and a leash: the opcode's locks stay taken
while anything that it left running still has them (DESIGN section 5). The opcode itself ends with
the program.

Source: DESIGN section 7.
"""

import os
import pwd
import signal
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from common.errors import ExecutionError, JobCanceled, PrerequisiteError
from common.log import get_log
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from daemons.jobproc.context import UnitContext
from daemons.jobproc.output import OutputFile, Tail
from daemons.jobproc.program import Account, Launch, ProgramEnd, RunningProgram
from daemons.jobproc.units.base import LogicalUnit

_SHELL: Final = "/bin/sh"
_log = get_log(__name__)


class RunCommandUnit(LogicalUnit[OpRunCommand]):
    """Run a program to its end. A request to cancel does not stop it; a kill does."""

    OPCODE: ClassVar[type[OpCode]] = OpRunCommand

    def check_prereq(self, context: UnitContext) -> None:
        _check_folder(self._cwd)
        self._user()

    def run(self, context: UnitContext) -> dict[str, Any]:
        sink = _Sink(context.output, context.settings.jobproc.output_tail_lines)
        try:
            program = RunningProgram(self._launch(context), sink.take, context.signals)
        except OSError as error:
            raise ExecutionError(_why_not_started(self.op.argv[0], error)) from error
        try:
            end = program.run(self.op.timeout, context.settings.luxid.kill_grace_s)
        finally:
            program.close()
            context.output.close()
        context.keep_locks_until(end.leash)
        return self._judge(end, sink, context)

    def _judge(self, end: ProgramEnd, sink: "_Sink", context: UnitContext) -> dict[str, Any]:
        tail = sink.tail.lines()
        if end.timed_out or end.exit_code not in self.op.exit_codes:
            # a kill: TERM to the whole group reached us as well
            if context.cancelled and _was_terminated(end) and not end.timed_out:
                raise JobCanceled(f"'{self.op.argv[0]}' was killed with its job")
            raise ExecutionError(f"'{self.op.argv[0]}' {self._how(end)}{_last_line(tail)}")
        return {
            "exit_code": end.exit_code,
            "signal": end.signal_name,
            "timed_out": end.timed_out,
            "duration_s": round(end.duration_s, 6),
            "output_bytes": sink.taken,
            "tail": tail,
        }

    def _how(self, end: ProgramEnd) -> str:
        if end.timed_out:
            return f"did not end within {self.op.timeout:g} s and was stopped"
        expected = " or ".join(map(str, self.op.exit_codes)) or "none"
        if end.signal_name:
            return f"was ended by {end.signal_name} (expected exit code {expected})"
        return f"ended with exit code {end.exit_code} (expected {expected})"

    def _launch(self, context: UnitContext) -> Launch:
        argv = [_SHELL, "-c", " ".join(self.op.argv)] if self.op.shell else list(self.op.argv)
        user = self._user()
        env = {**os.environ, **_login_of(user), **self.op.env, **_job_env(context)}
        account = user and Account(user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))
        return Launch(argv, env, self._cwd, (context.livelock_fd,), account)

    @property
    def _cwd(self) -> str:
        return self.op.cwd or "/"

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
            own = pwd.getpwuid(os.geteuid()).pw_name
            raise PrerequisiteError(
                f"jobs run as {own!r} here and cannot become {self.op.user!r}; the daemons would have to run as root"
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
    if not os.path.isabs(cwd):
        raise PrerequisiteError(f"cwd must be an absolute path, got {cwd!r}", "wrong_input")
    if not os.path.isdir(cwd):
        reason = "is not a folder" if os.path.lexists(cwd) else "does not exist"
        raise PrerequisiteError(f"cwd {cwd!r} {reason}", "unknown_entity")


def _login_of(user: pwd.struct_passwd | None) -> dict[str, str]:
    if user is None:
        return {}
    return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell or _SHELL}


def _job_env(context: UnitContext) -> Mapping[str, str]:
    paths = context.settings.paths
    return {
        "GANTRY_JOB_ID": str(context.job_id),
        "GANTRY_OPCODE_INDEX": str(context.op_index),
        "GANTRY_DATA_DIR": str(paths.data),
        "GANTRY_RUN_DIR": str(paths.run),
        "GANTRY_LOG_DIR": str(paths.log),
    }


def _why_not_started(program: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        where = "" if "/" in program else " in the PATH of the job"
        return f"there is no program {program!r}{where}; give its full path, or install it"
    if isinstance(error, PermissionError):
        return f"{program!r} may not be executed: {(error.strerror or '').lower()}; check its mode and owner"
    return f"{program!r} cannot be started: {(error.strerror or str(error)).lower()}"


def _last_line(tail: list[str]) -> str:
    last = next((line for line in reversed(tail) if line.strip()), "")
    return f"; last output: {last}" if last else ""
