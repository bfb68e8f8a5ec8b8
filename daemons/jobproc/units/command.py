"""OP_RUN_COMMAND: run any program as a job.

The opcode ends with the program, and processes that the program leaves running are ended with it, unless `detach` or
`keep_locks` is set. With these the opcode also ends with the program; with `keep_locks` its locks stay held until the
last of these processes has ended.

Source: DESIGN sections 7 and 16.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from common.commands.holding import group_name
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.spec import CommandSpec, Leave
from common.errors import JobCanceled
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.commandresult import OutputSink, Written, judge

_EACH_PROCESS: Final = (
    "memory is limited for each process by itself (its address space): there is no control group for memory here"
)


class RunCommandUnit(LogicalUnit[OpRunCommand]):
    """Runs a program to its end. A request to cancel does not stop it; a kill does."""

    OPCODE: ClassVar[type[OpCode]] = OpRunCommand

    def check_prereq(self, context: UnitContext) -> None:
        self._command(context).check()

    def run(self, context: UnitContext) -> dict[str, object]:
        sink = OutputSink(context.output, context.settings.jobproc.output_tail_lines)
        errors = OutputSink(context.error_output, context.settings.jobproc.output_tail_lines)
        if context.killed:
            raise JobCanceled("the job was killed before its program was started")
        command = self._command(context)

        def tell_begun() -> None:
            if command.limited_each:
                context.feedback(_EACH_PROCESS)

        try:
            outcome = command.run(sink.take, errors.take, tell_begun, context.begin_canceling)
        finally:
            context.output.close()
            context.error_output.close()
        if command.leash is not None:
            context.keep_locks_until(command.leash)
        output, error = (Written(each.taken, each.tail.lines()) for each in (sink, errors))
        return judge(self.op, outcome, output, error, cancelled=context.cancelled)

    def _command(self, context: UnitContext) -> LocalCommand:
        spec = command_spec(self.op, context)
        is_detached = spec.leave is Leave.DETACH
        place = CommandPlace(
            settings=context.settings,
            signals=context.signals,
            livelock=context.livelock,
            groups=context.groups,
            group_name=group_name(context.job_id, context.op_index, is_detached=is_detached),
            job_id=context.job_id,
            title=f"gantry-job {context.job_id} supervisor",
        )
        return LocalCommand(spec, place)


def command_spec(op: OpRunCommand, context: UnitContext) -> CommandSpec:
    """What the opcode runs."""
    return CommandSpec(
        argv=op.argv,
        shell=op.shell,
        env={**op.env, **_job_env(context)},
        cwd=op.cwd or "/",
        user=op.user,
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


def _job_env(context: UnitContext) -> Mapping[str, str]:
    return {"GANTRY_JOB_ID": str(context.job_id), "GANTRY_OPCODE_INDEX": str(context.op_index)}
