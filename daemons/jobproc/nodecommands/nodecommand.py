"""A command of OP_RUN_COMMAND on a node: guarded, started, followed, judged, forgotten.

Theory. The order makes every crash harmless: the guard is durable at wconfd before the start is sent, and the locks are
freed, which ends the guard, only after the node's word that nothing of the command runs. A process of the job that dies
between leaves a guard; the next one adopts it, and sends the same start again, which takes the command up.

Source: DESIGN sections 13 and 14.
"""

from collections.abc import Callable
from typing import Final, NoReturn, assert_never

from common.commands.spec import CommandOutcome
from common.errors import CommandFailed, JobCanceled
from common.objects.node import Node
from common.opcodes.command import OpRunCommand
from common.queue.silencenotes import SilenceNote
from common.replication import NoLongerMaster
from daemons.jobproc.context import Abandoned, UnitContext
from daemons.jobproc.nodecommands.conversation import Conversation, End, Over
from daemons.jobproc.nodecommands.nodelink import NodeLink
from daemons.jobproc.nodecommands.nodetalk import NodeTalk
from daemons.jobproc.nodecommands.streamcopy import StreamCopy
from daemons.jobproc.units.commandresult import EACH_PROCESS, LOST, TryLost, judge, not_begun
from daemons.jobproc.units.commandterms import command_spec
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.commands import ForgetCommands
from protocol.noded.names import command_key
from protocol.wconfd.ghosts import Guard

# seconds for the last call, on which nothing depends
_FORGET_S: Final = 5.0


class NodeCommand:
    """One command from its guard to its end.

    Args:
        node: as the configuration has it.
    Raises: Abandoned: another node has become the master.
    """

    def __init__(self, op: OpRunCommand, context: UnitContext, node: Node) -> None:
        self._op = op
        self._context = context
        self._node = node
        self._key = command_key(context.job_id, context.op_index, context.try_number)
        settings = context.settings
        try:
            self._link = NodeLink(
                settings, NodeAddress(node.name, node.primary_ip, settings.noded.port), context.signals
            )
        except NoLongerMaster as error:
            raise Abandoned(error.message) from error
        lines = settings.jobproc.output_tail_lines
        self._talk = NodeTalk(
            link=self._link,
            signals=context.signals,
            output=StreamCopy.of(context.output, lines, context.signals),
            error=StreamCopy.of(context.error_output, lines, context.signals),
            tell=context.feedback,
            on_kill=context.begin_canceling,
            note=SilenceNote(settings.paths.silence_note(context.job_id), context.livelock.path).put,
        )
        self._conversation = Conversation(
            key=self._key,
            spec=command_spec(op, context),
            output=self._talk.output.stream,
            error=self._talk.error.stream,
            lost_s=settings.jobproc.lost_node_s,
            may_run=context.is_resumed,
        )

    def run(self) -> dict[str, object]:
        """Run the command; returns the opcode's result.

        Raises:
            CommandFailed, ExecutionError: as `judge`; or the node does not answer, and the locks are kept.
            JobCanceled: the job was killed.
            Abandoned: another node has become the master, or this machine is being shut down.
        """
        context = self._context
        # the connection is used again by what comes after the end
        context.after_end(self._link.close)
        self._guard()
        try:
            self._conversation = self._talk.carry_on(self._conversation)
        finally:
            context.output.close()
            context.error_output.close()
        over = self._conversation.over
        assert over is not None
        return self._conclude(over)

    def _guard(self) -> None:
        try:
            self._context.guard(Guard(self._node.name, self._key))
        except BaseException:
            if not self._context.is_resumed:
                # nothing was sent to the node
                self._context.settle()
            raise

    def _conclude(self, over: Over) -> dict[str, object]:
        if over.end.is_proof:
            self._context.settle()
            if over.end is not End.NOT_BEGUN:
                self._context.afterwards.insert(0, self._forget)
        if self._talk.dropped:
            self._context.feedback(
                f"{self._talk.dropped} bytes of the output are missing: node '{self._node.name}' had dropped them "
                "before they were copied"
            )
        if self._conversation.is_killed and over.end.is_proof:
            # no matter how it ended
            raise JobCanceled(f"'{self._op.argv[0]}' was killed with its job")
        if over.outcome is None:
            self._fail(over)
        if over.end is End.KEPT:
            left = Conversation.about_left(self._conversation)
            self._context.keep_locks_until(LeftOnNode(self._talk, left, self._context, self._forget))
        return self._judge(over.outcome)

    def _judge(self, outcome: CommandOutcome) -> dict[str, object]:
        if outcome.limited_each:
            self._context.feedback(EACH_PROCESS)
        state = self._conversation.state
        assert state is not None
        output = self._talk.output.written(state.output_bytes)
        error = self._talk.error.written(state.error_bytes)
        # a request to cancel does not reach the node
        return judge(self._op, outcome, output, error, cancelled=False)

    def _fail(self, over: Over) -> NoReturn:
        program, node = self._op.argv[0], self._node.name
        match over.end:
            case End.OUTDATED:
                raise Abandoned(over.text)
            case End.VOID:
                raise not_begun(f"'{program}' was stopped on node '{node}' before it was started")
            case End.NOT_BEGUN:
                raise not_begun(f"'{program}' was not started: {over.text}")
            case End.SILENT:
                raise silence(program, node, over, self._conversation, self._context)
            # with an outcome the first and the last of these are no failures
            case End.ENDED | End.LOST | End.FORGOTTEN | End.KEPT:
                raise TryLost(
                    f"how '{program}' ended on node '{node}' is not known: the node was restarted, or has lost what it "
                    "knew of it; nothing of it runs there any more",
                    LOST,
                )
            case _:
                assert_never(over.end)

    def _forget(self) -> None:
        self._link.ask(ForgetCommands((self._key,)), _FORGET_S)


class LeftOnNode:
    """Processes on a node that a command has left there under the job's locks; see `leftprocesses.Left`."""

    def __init__(
        self, talk: NodeTalk, conversation: Conversation, context: UnitContext, forget: Callable[[], None]
    ) -> None:
        self._talk = talk
        self._conversation = conversation
        self._context = context
        self._forget = forget

    @property
    def is_gone(self) -> bool:
        over = self._conversation.over
        return over is not None and over.end.is_proof

    def wait(self) -> None:
        signals = self._context.signals
        conversation = self._talk.carry_on(self._conversation, lambda: signals.cancel_asked and not signals.kill_asked)
        self._conversation = conversation
        if conversation.over is None:
            return
        over, node = conversation.over, self._talk.link.node.name
        if over.end is End.OUTDATED:
            raise Abandoned(over.text)
        if over.end is End.SILENT:
            raise silence(conversation.spec.argv[0], node, over, conversation, self._context)
        self._context.settle()

    def stop(self) -> None:
        # `carry_on` sees the kill by itself
        pass

    def close(self) -> None:
        self._forget()
        self._talk.link.close()


def silence(
    program: str, node: str, over: Over, conversation: Conversation, context: UnitContext
) -> CommandFailed | JobCanceled:
    """The end of an opcode whose command may run on a node that does not answer. The locks are kept."""
    kept = (
        f"'{program}' may still run on node '{node}', so the job's locks are kept until it is known that it has ended"
    )
    if conversation.is_killed:
        context.feedback(f"{kept}; 'gantry ghosts' lists them: {over.text}")
        return JobCanceled(f"'{program}' was to be killed, and node '{node}' does not answer")
    return CommandFailed(f"{kept}; 'gantry ghosts' lists them: {over.text}", LOST)
