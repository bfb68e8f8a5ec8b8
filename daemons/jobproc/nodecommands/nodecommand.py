"""A command of OP_RUN_COMMAND on a node: its locks are kept, it is started, followed, judged, forgotten.

Theory. The order makes every crash harmless: wconfd knows durably that the command may still run before the start is
sent, and the locks are freed only after the node's word that nothing of it runs. A process of the job that dies between
leaves orphaned locks; the next one adopts them, and sends the same start again, which takes the command up.

Source: DESIGN sections 13 and 14.
"""

import math
import time
from collections.abc import Callable
from typing import Final, NoReturn, Self, TypeVar, assert_never

import attrs

from common.commands.output import OutputFile, OutputSink
from common.commands.spec import CommandOutcome
from common.errors import CommandFailed, JobCanceled, Unavailable
from common.nodes.mastership import own_epoch
from common.objects.config import Node
from common.opcodes.command import OpRunCommand
from common.queue.explanation import SilentNode
from common.queue.sidefiles import SilenceNote
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.system.log import get_log
from common.system.shortages import retry_pauses
from common.system.signals import ProcessSignals
from daemons.jobproc.commandends import (
    EACH_PROCESS,
    LOST,
    StreamEnd,
    TryLost,
    command_spec,
    judge,
    not_begun,
)
from daemons.jobproc.context import Abandoned, UnitContext
from daemons.jobproc.nodecommands.conversation import (
    Conversation,
    ConversationEnd,
    ConversationOver,
    CopiedStream,
    NextCall,
    Rest,
)
from protocol.noded.call import (
    Breakdown,
    Failed,
    FailureKind,
    NodeAddress,
    NodeCall,
    Outcome,
    Replied,
    Skipped,
    request_body,
)
from protocol.noded.clients.certificates import CallerContext, CertificateFiles
from protocol.noded.clients.connection import CONNECT_S, HttpRequest, NodeConnection
from protocol.noded.clients.judging import after_reply, before_sending, given_up, no_reply, not_connected
from protocol.noded.commands import CommandNews, CommandPhase, CommandState, FollowCommand, ForgetCommands
from protocol.noded.statefiles import command_key
from protocol.wconfd.locks import CommandOnNode

# The connection of a job process to one node daemon, for call after call.
#
# A signal gets through to the job process at any instant, so it waits with its signals, and not with a client that
# blocks.
#
# Source: noded.md section 2; DESIGN section 13.


R = TypeVar("R")
_log = get_log(__name__)


def _never() -> bool:
    return False


def _patiently(read: Callable[[], R], event: str, signals: ProcessSignals) -> R:
    """What is read, as soon as the disk lets it be. Args: event: of the log, after each failure."""
    for pause_s in retry_pauses():
        try:
            return read()
        except OSError as error:
            _log.warning(event, error=error, retry_s=pause_s)
        signals.wait(pause_s)
    raise AssertionError("pauses never end")


class NodeLink:
    """A connection that is kept from one call to the next, and made anew when it is lost.

    Raises: NoLongerMaster: another node has become the master. DamagedFile: what the epoch should be is none.
    """

    def __init__(self, settings: Settings, node: NodeAddress, signals: ProcessSignals) -> None:
        self.node = node
        self._signals = signals
        paths, own_name = settings.paths, settings.cluster.own_name
        self._epoch = _patiently(lambda: own_epoch(paths.epoch_file, own_name), "epoch.unreadable", signals)
        self._context = CallerContext(CertificateFiles.of(settings.paths))
        self._connection: NodeConnection | None = None

    def ask(self, call: NodeCall[R], limit_s: float, stop: Callable[[], bool] = _never) -> Outcome[R] | None:
        """Send a call and wait for its reply.

        Args:
            stop: called after each signal; once it is true the call is given up.
        Returns: None: it was given up after it was sent, and the node may have carried it out.
        """
        body = request_body(call)
        if (unsent := before_sending(self.node, call, body)) is not None:
            return unsent
        request = HttpRequest(call.METHOD, body, self._epoch)
        try:
            reply = self._talk(call, request, time.monotonic() + limit_s, limit_s, stop)
        except Breakdown as breakdown:
            self.close()
            return breakdown.failed
        except Unavailable as error:
            return Failed(FailureKind.UNSENT, error.message)
        except BaseException:
            self.close()
            raise
        if reply is None or isinstance(reply, Failed):
            self.close()
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _talk(
        self, call: NodeCall[R], request: HttpRequest, deadline: float, limit_s: float, stop: Callable[[], bool]
    ) -> Outcome[R] | None:
        """Raises: Breakdown; Unavailable: there are no certificates."""
        connection = self._connected()
        connection.ask(request)
        connected_by = min(time.monotonic() + CONNECT_S, deadline)
        while True:
            connection.advance()
            if connection.reply is not None:
                return after_reply(self.node, call, self._epoch, connection.reply)
            if stop():
                return None if connection.is_up else given_up(self.node, call)
            left_s = (deadline if connection.is_up else connected_by) - time.monotonic()
            if left_s <= 0:
                is_up = connection.is_up
                return (
                    no_reply(self.node, call, limit_s) if is_up else not_connected(self.node, min(limit_s, CONNECT_S))
                )
            self._wait(connection, left_s)

    def _connected(self) -> NodeConnection:
        context = self._context.current()
        kept, self._connection = self._connection, None
        if kept is not None and kept.context is context and kept.may_be_kept:
            self._connection = kept
            return kept
        if kept is not None:
            kept.close()
        self._connection = NodeConnection(self.node, context)
        return self._connection

    def _wait(self, connection: NodeConnection, left_s: float) -> None:
        fd = connection.sock.fileno()
        reading = (fd,) if connection.wants_read else ()
        self._signals.wait(left_s, *reading, writing=fd if connection.wants_write else None)


# Copies of a node command's streams in the job's own files, with exact offsets.
#
# Theory. The byte n of the node's stream is the byte base + n of the job's file, where the base is what the file had
# before the command; the node keeps it. So the size of the file alone tells a later process of the job what is still to
# be copied. Bytes that the node has dropped are left out of the file, and the offsets of the others stay.


class StreamCopy:
    """One stream on its way into the job's file.

    Args:
        size: bytes that the file has.
    """

    def __init__(self, output: OutputFile, size: int, tail_lines: int) -> None:
        self._output = output
        self._sink = OutputSink(output, tail_lines)
        self.size = size

    @classmethod
    def of(cls, output: OutputFile, tail_lines: int, signals: ProcessSignals) -> Self:
        """The copy into this file, as soon as its size can be read."""
        return cls(output, _patiently(lambda: output.end, "output.unreadable", signals), tail_lines)

    @property
    def stream(self) -> CopiedStream:
        return CopiedStream(self.size)

    def recall(self, base: int) -> None:
        """Take up what an earlier process has copied. Args: base: bytes that the file had before the command."""
        # a master that has changed has no output of what ran before: the offsets stay nevertheless
        self.take(base - self.size, b"")
        if self.size > base:
            try:
                self._sink.tail.feed(self._output.last(self._sink.tail.most_bytes, base))
            except OSError as error:
                _log.warning("output.unreadable", error=error, next="the last lines of the result are incomplete")

    def take(self, dropped: int, data: bytes) -> None:
        """Args: dropped: bytes before these that the node has not kept."""
        if dropped > 0:
            try:
                self._output.skip(dropped)
            except OSError as error:
                _log.warning("output.unreadable", error=error, effect="the offsets of the output do not fit")
        if data:
            self._sink.take(data)

    def written(self, byte_count: int) -> StreamEnd:
        return StreamEnd(byte_count, self._sink.tail.lines(), self._sink.is_broken)


# A conversation with a node, carried out: calls are sent, output is copied, the user is told of a silence.
#
# At the end of a shutdown of this machine the conversation breaks off: the command on the node goes on, and another
# process of the job takes it up by its key after the next start.
#
# Source: DESIGN section 13.


# seconds of silence after which the user is told: a node daemon that is only started again is not worth a line
TELL_S: Final = 3.0


def _ignore(_: SilentNode | None) -> None:
    pass


@attrs.define(kw_only=True)
class NodeTalk:
    """Speaks with one node about one command."""

    link: NodeLink
    signals: ProcessSignals
    output: StreamCopy
    error: StreamCopy
    # function that tells the user something
    tell: Callable[[str], None]
    # function called once when the command is asked to end because the job is killed
    on_kill: Callable[[], None]
    # bytes of output that the node has not kept long enough
    dropped: int = 0
    # function that lets others see for which node is waited; None: it answers
    note: Callable[[SilentNode | None], None] = _ignore
    _has_told: bool = False
    _noted: SilentNode | None = None

    def carry_on(self, conversation: Conversation, stop: Callable[[], bool] = _never) -> Conversation:
        """Carry the conversation on to its end, or until `stop`, which is called after each signal, becomes true.

        Raises: Abandoned: this machine is being shut down.
        """
        while True:
            if self.signals.asked_by_shutdown:
                raise Abandoned("the machine is being shut down")
            now = time.monotonic()
            if self.signals.kill_asked and not conversation.is_killed:
                conversation = conversation.kill(now)
                if conversation.may_run:
                    self.on_kill()
            self._tell_of_silence(conversation, now)
            step = conversation.next_step(now)
            match step:
                case ConversationOver():
                    self._note(None)
                    return attrs.evolve(conversation, over=step)
                case Rest():
                    self.signals.wait(step.seconds)
                case NextCall():
                    conversation = self._ask(conversation, step, stop)
                case _:
                    assert_never(step)
            if conversation.over is None and stop():
                return conversation

    def _ask(self, conversation: Conversation, step: NextCall, stop: Callable[[], bool]) -> Conversation:
        def is_urgent() -> bool:
            is_kill = self.signals.kill_asked and not conversation.is_killed
            return is_kill or self.signals.asked_by_shutdown or stop()

        if isinstance(step.call, FollowCommand):
            news = self.link.ask(step.call, step.limit_s, is_urgent)
            if not isinstance(news, Replied):
                return self._hear_nothing(conversation, news)
            self._recall(conversation, news.value.state)
            self._copy(conversation, news.value)
            return conversation.hear_news(news.value, time.monotonic())
        state = self.link.ask(step.call, step.limit_s, is_urgent)
        if not isinstance(state, Replied):
            return self._hear_nothing(conversation, state)
        self._recall(conversation, state.value)
        return conversation.hear(state.value, time.monotonic())

    def _hear_nothing(self, conversation: Conversation, outcome: Failed | Skipped | None) -> Conversation:
        """Args: outcome: None: the call was given up after it was sent."""
        if outcome is None:
            return conversation.give_up()
        unsent = Failed(FailureKind.UNSENT, f"{self.link.node} is offline")
        failed = outcome if isinstance(outcome, Failed) else unsent
        _log.debug("node.silent", key=conversation.key, node=self.link.node.name, reason=failed.text)
        return conversation.hear_failure(failed, time.monotonic())

    def _recall(self, conversation: Conversation, state: CommandState) -> None:
        """Find the place of the command's output in the job's files, when the node has first told of the command."""
        if conversation.state is None and state.phase is not CommandPhase.UNKNOWN:
            self.output.recall(state.output_base)
            self.error.recall(state.error_base)

    def _copy(self, conversation: Conversation, news: CommandNews) -> None:
        for stream, copy, begin, content in (
            (conversation.output, self.output, news.output_from, news.output),
            (conversation.error, self.error, news.error_from, news.error),
        ):
            if content.data:
                dropped, data = stream.fresh_part(begin, content.data)
                self.dropped += dropped
                copy.take(dropped, data)

    def _tell_of_silence(self, conversation: Conversation, now: float) -> None:
        silence, node = conversation.silence, self.link.node.name
        if silence is None:
            if self._has_told:
                self._has_told = False
                self._note(None)
                self.tell(f"node '{node}' answers again")
        elif not self._has_told and now - silence.since >= TELL_S:
            self._has_told = True
            since = time.strftime("%H:%M:%S", time.localtime(time.time() - (now - silence.since)))
            state = "its command may still run there" if conversation.may_run else "its command has not begun"
            begun_at = time.time() - now
            until = None if math.isinf(conversation.ends_at) else begun_at + conversation.ends_at
            self._note(SilentNode(node, begun_at + silence.since, until, conversation.may_run, silence.text))
            self.tell(f"node '{node}' does not answer since {since}; {state}: {silence.text}")
            _log.warning("node.does_not_answer", node=node, key=conversation.key, reason=silence.text, next="ask again")

        elif self._noted is not None and self._noted.may_run != conversation.may_run:
            # a start was sent, and nobody knows whether it has arrived
            self._note(attrs.evolve(self._noted, may_run=conversation.may_run))
            self.tell(f"node '{node}' does not answer still; its command may run there now")

    def _note(self, silent: SilentNode | None) -> None:
        if silent != self._noted:
            self._noted = silent
            self.note(silent)


# seconds for the last call, on which nothing depends
_FORGET_S: Final = 5.0


class NodeCommand:
    """One command, from its start to its end.

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
        self._keep_locks()
        try:
            self._conversation = self._talk.carry_on(self._conversation)
        finally:
            context.output.close()
            context.error_output.close()
        over = self._conversation.over
        assert over is not None
        return self._conclude(over)

    def _keep_locks(self) -> None:
        try:
            self._context.keep_locks_for(CommandOnNode(self._node.name, self._key))
        except BaseException:
            if not self._context.is_resumed:
                # nothing was sent to the node
                self._context.settle()
            raise

    def _conclude(self, over: ConversationOver) -> dict[str, object]:
        if over.end.is_proof:
            self._context.settle()
            if over.end is not ConversationEnd.NOT_BEGUN:
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
        if over.end is ConversationEnd.KEPT:
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

    def _fail(self, over: ConversationOver) -> NoReturn:
        program, node = self._op.argv[0], self._node.name
        match over.end:
            case ConversationEnd.OUTDATED:
                raise Abandoned(over.text)
            case ConversationEnd.VOID:
                raise not_begun(f"'{program}' was stopped on node '{node}' before it was started")
            case ConversationEnd.NOT_BEGUN:
                raise not_begun(f"'{program}' was not started: {over.text}")
            case ConversationEnd.SILENT:
                raise silence(program, node, over, self._conversation, self._context)
            # with an outcome the first and the last of these are no failures
            case ConversationEnd.ENDED | ConversationEnd.LOST | ConversationEnd.FORGOTTEN | ConversationEnd.KEPT:
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
        if over.end is ConversationEnd.OUTDATED:
            raise Abandoned(over.text)
        if over.end is ConversationEnd.SILENT:
            raise silence(conversation.spec.argv[0], node, over, conversation, self._context)
        self._context.settle()

    def stop(self) -> None:
        # `carry_on` sees the kill by itself
        pass

    def close(self) -> None:
        self._forget()
        self._talk.link.close()


def silence(
    program: str, node: str, over: ConversationOver, conversation: Conversation, context: UnitContext
) -> CommandFailed | JobCanceled:
    """The end of an opcode whose command may run on a node that does not answer. The locks are kept."""
    kept = (
        f"'{program}' may still run on node '{node}', so the job's locks are kept until it is known that it has ended"
    )
    if conversation.is_killed:
        context.feedback(f"{kept}; 'gantry orphaned-locks' lists them: {over.text}")
        return JobCanceled(f"'{program}' was to be killed, and node '{node}' does not answer")
    return CommandFailed(f"{kept}; 'gantry orphaned-locks' lists them: {over.text}", LOST)
