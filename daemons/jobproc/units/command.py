"""OP_RUN_COMMAND: run any program as a job, here or on a node.

The opcode ends with the program, and processes that the program leaves running are ended with it, unless `detach` or
`keep_locks` is set. With these the opcode also ends with the program; with `keep_locks` its locks stay held until the
last of these processes has ended.

On a node the program runs under that node's daemon (see `nodecommands`). Without node daemons the only node is this
one.

Source: DESIGN sections 7, 13 and 16.
"""

import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import attrs

from common.commands.cgroups import group_name
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.output import OutputFile, Tail
from common.commands.retryrules import Failure, Kind
from common.commands.spec import CommandOutcome, CommandSpec, Leave
from common.errors import CommandFailed, ExecutionError, JobCanceled, PrerequisiteError
from common.locks import LockLevel
from common.objects.config import Node
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from common.system.log import get_log
from common.system.signals import SHUT_DOWN_TEXT, is_shutting_down
from daemons.jobproc.context import UnitContext
from daemons.jobproc.leftprocesses import LeashedProcesses
from daemons.jobproc.units.base import LogicalUnit

# What an opcode runs, as a spec.
#
# Source: DESIGN sections 7, 13 and 16.


def command_spec(op: OpRunCommand, context: UnitContext) -> CommandSpec:
    """What the opcode runs."""
    return CommandSpec(
        argv=op.argv,
        shell=op.shell,
        env={**op.env, **_job_env(op, context)},
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


# What came of a command, as the result or the failure of its opcode: the same wherever it ran.
#
# Source: DESIGN sections 7, 13 and 16.


EACH_PROCESS: Final = (
    "memory is limited for each process by itself (its address space): there is no control group for memory here"
)
# end of a command of which it is not known how far it came
LOST: Final = {"exit_code": None, "signal": None, "lost": True}
_log = get_log(__name__)


class TryFailed(CommandFailed):
    """a command failed, and nothing of it runs any more

    Args:
        failure: what the rules of retries judge.
        why: how it ended, without the program and what was expected: `ended with exit code 75`.
    """

    def __init__(self, message: str, end: Mapping[str, object], failure: Failure, why: str) -> None:
        super().__init__(message, end)
        self.failure = failure
        self.why = why


class TryLost(CommandFailed):
    """nobody knows how far a command came, and nothing of it runs any more"""


class OutputSink:
    """Takes a program's output: all of it to the output file, its end to the tail."""

    def __init__(self, output: OutputFile, tail_lines: int) -> None:
        self.tail = Tail(tail_lines)
        self.taken = 0
        # whether the file lacks some of it
        self.is_broken = False
        self._output = output

    def take(self, data: bytes) -> None:
        self.taken += len(data)
        self.tail.feed(data)
        if self.is_broken:
            return
        try:
            self._output.append(data)
        except OSError as error:
            # a full disk must not stop the work: the output is not the program's result
            self.is_broken = True
            _log.warning("output.lost", error=error, next="go on without an output file")


@attrs.frozen
class Written:
    """What a stream of the command had."""

    byte_count: int
    tail: Sequence[str]
    # whether the job's file lacks some of it, as the disk took none
    is_lost: bool = False


def judge(
    op: OpRunCommand,
    outcome: CommandOutcome,
    output: Written,
    errors: Written,
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
    return TryFailed(text, end, Failure(Kind.START), "could not be started")


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


def _failure(outcome: CommandOutcome) -> Failure:
    if outcome.oom_kills:
        kind = Kind.MEMORY
    elif outcome.timed_out:
        kind = Kind.TIMEOUT
    else:
        kind = Kind.SIGNAL if outcome.signal else Kind.EXIT
    return Failure(kind, outcome.exit_code, outcome.signal)


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


class RunCommandUnit(LogicalUnit[OpRunCommand]):
    """Runs a program to its end. A request to cancel does not stop it; a kill does."""

    OPCODE: ClassVar[type[OpCode]] = OpRunCommand

    def __init__(self, op: OpRunCommand) -> None:
        super().__init__(op)
        # the node that the parameters name
        self._node: Node | None = None

    def expand_names(self, context: UnitContext) -> None:
        if self.op.node is not None:
            self._node = context.node(self.op.node)
        if self._node is not None or (self.op.names_nodes and context.settings.cluster.has_nodes):
            self.declaration = self.op.lock_declaration(partial(self._resolve, context))

    def _resolve(self, context: UnitContext, _: LockLevel, name: str) -> str | None:
        """The UUID of a node."""
        if self._node is not None and name in (self.op.node, self._node.name, self._node.uuid):
            return self._node.uuid
        found = context.config.node_named(name)
        return None if found is None else found.uuid

    def check_prereq(self, context: UnitContext) -> None:
        if self._node is None:
            self._command(context).check()
            return
        # it may have changed while the locks were waited for
        self._node = context.node(self._node.name)
        if self._is_here(context):
            self._command(context).check()
        elif self._node.offline and not context.is_resumed:
            raise PrerequisiteError(
                f"node '{self._node.name}' is marked offline; name another one, or bring it back: "
                f"gnt-node modify --offline=no {self._node.name}",
                "wrong_state",
            )

    def run(self, context: UnitContext) -> dict[str, object]:
        """Raises: CommandFailed; of a command with retries it tells the number of tries, as the result does."""
        tries = {"tries": context.try_number} if self.op.retries or context.try_number > 1 else {}
        try:
            return {**self._run(context), **tries}
        except CommandFailed as failed:
            failed.end = {**failed.end, **tries}
            raise

    def _run(self, context: UnitContext) -> dict[str, object]:
        if self._node is None or self._is_here(context):
            return self._run_here(context)
        # imported late: on one machine nothing of it is needed
        from daemons.jobproc.nodecommands.nodecommand import NodeCommand

        return NodeCommand(self.op, context, self._node).run()

    def _is_here(self, context: UnitContext) -> bool:
        """Whether there are no node daemons, and the node is this one. Raises: PrerequisiteError: it is another one."""
        assert self._node is not None
        if context.settings.cluster.has_nodes:
            return False
        if context.cluster().master_node == self._node.uuid:
            return True
        raise PrerequisiteError(
            f"'replication' in '[cluster]' is 'none', so commands run on the master only, and not on node "
            f"'{self._node.name}'; set it to 'nodes', and restart the daemons",
            "environment_error",
        )

    def _run_here(self, context: UnitContext) -> dict[str, object]:
        if context.is_resumed:
            raise ExecutionError(f"the process of the job has died, and '{self.op.argv[0]}' with it")
        sink = OutputSink(context.output, context.settings.jobproc.output_tail_lines)
        errors = OutputSink(context.error_output, context.settings.jobproc.output_tail_lines)
        if context.killed:
            raise JobCanceled("the job was killed before its program was started")
        command = self._command(context)

        def tell_begun() -> None:
            if command.limited_each:
                context.feedback(EACH_PROCESS)

        try:
            outcome = command.run(sink.take, errors.take, tell_begun, context.begin_canceling)
        finally:
            context.output.close()
            context.error_output.close()
        if command.leash is not None:
            context.keep_locks_until(LeashedProcesses(command.leash, context.signals))
        output, error = (Written(each.taken, each.tail.lines(), each.is_broken) for each in (sink, errors))
        # looked up, not remembered: the command may have been ended by the shutdown before this process hears of it
        shut_down = is_shutting_down()
        return judge(self.op, outcome, output, error, cancelled=context.cancelled, shut_down=shut_down)

    def _command(self, context: UnitContext) -> LocalCommand:
        spec = command_spec(self.op, context)
        if spec.user is not None:
            # imported late: most commands run as the daemons' user
            from protocol.launcher import find_launcher
        is_detached = spec.leave is Leave.DETACH
        place = CommandPlace(
            settings=context.settings,
            signals=context.signals,
            livelock=context.livelock,
            launcher=find_launcher(context.settings.paths.launcher_socket) if spec.user is not None else None,
            groups=context.groups,
            group_name=group_name(context.job_id, context.op_index, is_detached=is_detached),
            job_id=context.job_id,
            title=f"gantry-job {context.job_id} supervisor",
        )
        return LocalCommand(spec, place)
