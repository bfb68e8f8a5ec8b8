"""What came of a command, as the result or the failure of its opcode: the same wherever it ran.

Source: DESIGN sections 7, 13 and 16.
"""

import signal
from collections.abc import Sequence
from typing import Final

import attrs

from common.commands.output import OutputFile, Tail
from common.commands.spec import CommandOutcome
from common.errors import CommandFailed, ExecutionError, JobCanceled
from common.opcodes.command import OpRunCommand
from common.system.log import get_log

EACH_PROCESS: Final = (
    "memory is limited for each process by itself (its address space): there is no control group for memory here"
)
_log = get_log(__name__)


class OutputSink:
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


@attrs.frozen
class Written:
    """What a stream of the command had."""

    byte_count: int
    tail: Sequence[str]


def judge(
    op: OpRunCommand, outcome: CommandOutcome, output: Written, errors: Written, *, cancelled: bool
) -> dict[str, object]:
    """Return the result of an opcode whose command ended as it should.

    Args:
        cancelled: whether the job was asked to cancel.
    Raises: CommandFailed; JobCanceled; ExecutionError: its supervisor was killed.
    """
    program = op.argv[0]
    if outcome.not_begun is not None:
        raise not_begun(outcome.not_begun)
    if outcome.was_killed:
        # no matter by which signal or code it ended
        raise JobCanceled(f"'{program}' was killed with its job")
    if outcome.supervisor_lost:
        raise ExecutionError(f"the supervisor of '{program}' was killed, and all of it was ended")
    if outcome.timed_out or outcome.exit_code not in op.exit_codes:
        # a kill: TERM to the whole group reached the job process as well
        if cancelled and _was_terminated(outcome) and not outcome.timed_out:
            raise JobCanceled(f"'{program}' was killed with its job")
        text = f"'{program}' {_how(op, outcome)}{_last_line(errors.tail or output.tail)}"
        raise CommandFailed(text, _told(outcome))
    result = {**_told(outcome), "output_bytes": output.byte_count, "tail": list(output.tail)}
    apart = {"error_bytes": errors.byte_count, "error_tail": list(errors.tail)}
    return {**result, **apart} if op.stderr_apart else result


def not_begun(text: str) -> CommandFailed:
    """The failure of a command whose program was not executed."""
    return CommandFailed(text, {"exit_code": None, "signal": None, "has_begun": False})


def _how(op: OpRunCommand, outcome: CommandOutcome) -> str:
    if outcome.oom_kills:
        count = "a process" if outcome.oom_kills == 1 else f"{outcome.oom_kills} processes"
        most = "there is" if op.memory is None else f"its {op.memory / 2**20:g} MiB"
        return f"was killed for memory: {count} of it needed more than {most}"
    if outcome.timed_out:
        return f"did not end within {op.timeout:g} s and was stopped"
    expected = " or ".join(map(str, op.exit_codes)) or "none"
    if outcome.signal:
        return f"was ended by {outcome.signal} (expected exit code {expected})"
    return f"ended with exit code {outcome.exit_code} (expected {expected})"


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
