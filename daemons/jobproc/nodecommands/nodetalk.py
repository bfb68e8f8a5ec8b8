"""A conversation with a node, carried out: calls are sent, output is copied, the user is told of a silence.

At the end of a shutdown of this machine the conversation breaks off: the command on the node goes on, and another
process of the job takes it up by its key after the next start.

Source: DESIGN section 13.
"""

import math
import time
from collections.abc import Callable
from typing import Final, assert_never

import attrs

from common.queue.explanation import SilentNode
from common.system.log import get_log
from common.system.signals import ProcessSignals
from daemons.jobproc.context import Abandoned
from daemons.jobproc.nodecommands.conversation import Ask, Conversation, Over, Rest
from daemons.jobproc.nodecommands.nodelink import NodeLink
from daemons.jobproc.nodecommands.streamcopy import StreamCopy
from protocol.noded.clients.outcomes import Failed, FailureKind, Replied, Skipped
from protocol.noded.commands import CommandNews, CommandPhase, CommandState, FollowCommand

# seconds of silence after which the user is told: a node daemon that is only started again is not worth a line
TELL_S: Final = 3.0
_log = get_log(__name__)


def _never() -> bool:
    return False


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
                case Over():
                    self._note(None)
                    return attrs.evolve(conversation, over=step)
                case Rest():
                    self.signals.wait(step.seconds)
                case Ask():
                    conversation = self._ask(conversation, step, stop)
                case _:
                    assert_never(step)
            if conversation.over is None and stop():
                return conversation

    def _ask(self, conversation: Conversation, step: Ask, stop: Callable[[], bool]) -> Conversation:
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
        """Args: outcome: None: the call was given up."""
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
