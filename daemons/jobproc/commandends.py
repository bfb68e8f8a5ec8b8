"""What an opcode with a command runs, and what came of that as its result or failure: the same wherever it runs.

Source: DESIGN sections 7, 13 and 16.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.commands.retryrules import TryFailure, TryFailureKind
from common.commands.spec import CommandOutcome, CommandSpec, Leave
from common.errors import CommandFailed, JobCanceled
from common.opcodes.command import OpRunCommand
from common.system.signals import SHUT_DOWN_TEXT
from common.tracecontext import VARIABLE
from daemons.jobproc.context import UnitContext

EACH_PROCESS: Final = (
    "memory is limited for each process by itself (its address space): there is no control group for memory here"
)
# end of a command of which it is not known how far it came
LOST: Final = {"exit_code": None, "signal": None, "lost": True}


def command_spec(op: OpRunCommand, context: UnitContext) -> CommandSpec:
    """What the opcode runs."""
    return CommandSpec(
        argv=op.argv,
        shell=op.shell,
        env={**_trace_env(context), **op.env, **_job_env(op, context)},
        cwd=op.cwd or "/",
        user=op.user,
        submitter=None if op.user is None else context.owner_login,
        stdin_text=op.stdin_text,
        stdin_path=op.stdin_path,
        stderr_apart=bool(op.stderr_apart),
        timeout=op.timeout,
        memory=op.memory,
        cpus=op.cpus,
        nice=op.nice,
        ulimits=op.ulimits or {},
        leave=Leave.KEEP_LOCKS if op.keep_locks else Leave.DETACH if op.detach else Leave.END,
        grace_s=context.settings.luxid.kill_grace_s,
    )


def _job_env(op: OpRunCommand, context: UnitContext) -> Mapping[str, str]:
    node = {"GANTRY_NODE": op.node} if op.node is not None else {}
    tried = {"GANTRY_TRY": str(context.try_number)} if op.retries or op.rerunnable else {}
    uses = " ".join(f"{use.key}={use.count}" for use in context.units_used)
    of_job = {**tried, "GANTRY_USES": uses} if uses else tried
    return {"GANTRY_JOB_ID": str(context.job_id), "GANTRY_OPCODE_INDEX": str(context.op_index), **node, **of_job}


def _trace_env(context: UnitContext) -> Mapping[str, str]:
    """The span that submitted the job, for spans of the command's own; a variable that the opcode names wins."""
    return {VARIABLE: context.trace} if context.trace else {}


class TryFailed(CommandFailed):
    """a command failed, and nothing of it runs any more

    Args:
        failure: what the rules of retries judge.
        why: how it ended, without the program and what was expected: `ended with exit code 75`.
    """

    def __init__(self, message: str, end: Mapping[str, object], failure: TryFailure, why: str) -> None:
        super().__init__(message, end)
        self.failure = failure
        self.why = why


class TryLost(CommandFailed):
    """nobody knows how far a command came, and nothing of it runs any more"""


@attrs.frozen
class StreamEnd:
    """What a stream of the command had."""

    byte_count: int
    tail: Sequence[str]
    # whether the job's file lacks some of it, as the disk took none
    is_lost: bool = False


def judge(
    op: OpRunCommand,
    outcome: CommandOutcome,
    output: StreamEnd,
    errors: StreamEnd,
    *,
    cancelled: bool,
    shut_down: bool = False,
) -> dict[str, object]:
    """Return the result of an opcode whose command ended as it should.

    Args:
        cancelled: whether the job was asked to cancel.
        shut_down: whether the machine is being shut down, which ends commands as well.
    Raises: TryFailed; TryLost: its supervisor was killed, or the machine is shut down; JobCanceled.
    """
    program = op.argv[0]
    told = {**_told(outcome), **({"output_lost": True} if output.is_lost or errors.is_lost else {})}
    if outcome.not_begun is not None:
        raise not_begun(outcome.not_begun)
    if outcome.was_killed:
        # no matter by which signal or code it ended
        raise JobCanceled(f"'{program}' was killed with its job")
    if outcome.supervisor_lost:
        text = f"the supervisor of '{program}' was killed, and all of it was ended"
        raise TryLost(text, LOST)
    if outcome.timed_out or outcome.exit_code not in op.exit_codes:
        if shut_down:
            raise TryLost(f"{SHUT_DOWN_TEXT}: '{program}' {_how(op, outcome)}", LOST)
        # a kill: TERM to the whole group reached the job process as well
        if cancelled and _was_terminated(outcome) and not outcome.timed_out:
            raise JobCanceled(f"'{program}' was killed with its job")
        how = _how(op, outcome)
        text = f"'{program}' {how}{_expected(op, outcome)}{_last_line(errors.tail or output.tail)}"
        raise TryFailed(text, told, _failure(outcome), how)
    result = {**told, "output_bytes": output.byte_count, "tail": list(output.tail)}
    apart = {"error_bytes": errors.byte_count, "error_tail": list(errors.tail)}
    return {**result, **apart} if op.stderr_apart else result


def not_begun(text: str) -> TryFailed:
    """The failure of a command whose program was not executed."""
    end = {"exit_code": None, "signal": None, "has_begun": False}
    return TryFailed(text, end, TryFailure(TryFailureKind.START), "could not be started")


def _how(op: OpRunCommand, outcome: CommandOutcome) -> str:
    if outcome.oom_kills:
        count = "a process" if outcome.oom_kills == 1 else f"{outcome.oom_kills} processes"
        most = "there is" if op.memory is None else f"its {op.memory / 2**20:g} MiB"
        return f"was killed for memory: {count} of it needed more than {most}"
    if outcome.timed_out:
        return f"did not end within {op.timeout:g} s and was stopped"
    if outcome.signal:
        return f"was ended by {outcome.signal}"
    return f"ended with exit code {outcome.exit_code}"


def _expected(op: OpRunCommand, outcome: CommandOutcome) -> str:
    if outcome.oom_kills or outcome.timed_out:
        return ""
    expected = " or ".join(map(str, op.exit_codes)) or "none"
    return f" (expected exit code {expected})" if outcome.signal else f" (expected {expected})"


def _failure(outcome: CommandOutcome) -> TryFailure:
    if outcome.oom_kills:
        kind = TryFailureKind.MEMORY
    elif outcome.timed_out:
        kind = TryFailureKind.TIMEOUT
    else:
        kind = TryFailureKind.SIGNAL if outcome.signal else TryFailureKind.EXIT
    return TryFailure(kind, outcome.exit_code, outcome.signal)


def _told(outcome: CommandOutcome) -> dict[str, object]:
    return {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "timed_out": outcome.timed_out,
        "duration_s": round(outcome.duration_s, 6),
        "usage": dict(outcome.usage),
        **({"oom_kills": outcome.oom_kills, "killed_for": "memory"} if outcome.oom_kills else {}),
    }


def _was_terminated(outcome: CommandOutcome) -> bool:
    """Whether it was ended by a signal, or exited after a TERM with a shell's code for it."""
    return outcome.signal is not None or outcome.exit_code == 128 + signal.SIGTERM


def _last_line(tail: Sequence[str]) -> str:
    last = next((line for line in reversed(tail) if line.strip()), "")
    return f"; last output: {last}" if last else ""
