"""OP_RUN_COMMAND: run any program as a job, here or on a node.

The opcode ends with the program, and processes that the program leaves running are ended with it, unless `detach` or
`keep_locks` is set. With these the opcode also ends with the program; with `keep_locks` its locks stay held until the
last of these processes has ended.

On a node the program runs under that node's daemon (see `nodecommands`). Without node daemons the only node is this
one.

Source: DESIGN sections 7, 13 and 16.
"""

from functools import partial
from typing import ClassVar

from common.commands.cgroups import group_name
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.output import OutputSink
from common.commands.spec import Leave
from common.errors import CommandFailed, ExecutionError, JobCanceled, PrerequisiteError
from common.locks import LockLevel
from common.objects.config import Node
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from common.system.signals import is_shutting_down
from daemons.jobproc.commandends import EACH_PROCESS, StreamEnd, command_spec, judge
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit


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
        if command.left is not None:
            context.keep_locks_until(command.left)
        output, error = (StreamEnd(each.taken, each.tail.lines(), each.is_broken) for each in (sink, errors))
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
