"""The conversation of a job process with a node about one command: the next step by what was heard so far.

Theory. The job process starts the command under its key, follows it to its end, and stops it if the job is killed. All
calls may be repeated. What counts is the proof that nothing of the command runs, and will not run later: only then may
the job's locks be freed. A node gives it by its word: the command has *ended*, is *lost* or *void*, or is not known to
a node that was asked to follow it. A start proves nothing of the kind unless it certainly was not carried out: if its
reply is lost, it may arrive later. So from then on only the node's word counts, and a refused start is stopped, which
makes the key void.

A node without a word is *silent*, whatever it does instead. It is asked again after growing pauses, as long as the
patience lasts: the time of the settings, also for a start, and a short time for a kill. When it is over a start that no
node got was not carried out; else the conversation ends without proof, and the locks stay.

No I/O, no clock: times are seconds of one clock that does not jump.

Source: DESIGN sections 13 and 14; protocol.noded.commands.
"""

import enum
import math
from typing import Final, Self, assert_never

import attrs

from common.commands.spec import CommandOutcome, CommandSpec
from protocol.noded.call import Failed, FailureKind
from protocol.noded.commands import CommandNews, CommandPhase, CommandState, FollowCommand, StartCommand, StopCommand

# One stream of a command on a node, output or standard error: what of it the job's file has.
#
# Source: protocol.noded.commands.


@attrs.frozen
class CopiedStream:
    """One stream of the command, copied into a file of the job."""

    # bytes that the file had when the conversation began
    file_bytes: int
    # bytes of the node's stream that the file has, or that are gone; None: not known yet
    taken: int | None = None

    def placed(self, base: int) -> Self:
        """Args: base: bytes that the file had before the command."""
        return self if self.taken is not None else attrs.evolve(self, taken=max(self.file_bytes - base, 0))

    def fresh_part(self, begin: int, data: bytes) -> tuple[int, bytes]:
        """Return how many bytes the node has dropped before these, and which of them are new.

        Args: begin: offset of the first byte in the node's stream.
        """
        taken = self.taken or 0
        return max(begin - taken, 0), data[max(taken - begin, 0) :]

    def after(self, begin: int, data: bytes, state: CommandState, whole: int) -> Self:
        """The stream after a reply. Args: whole: bytes that the node's stream has had."""
        taken = max(self.taken or 0, begin + len(data)) if data else self.taken or 0
        if not data and not state.phase.may_run:
            # it has kept nothing of the rest
            taken = max(taken, whole)
        return attrs.evolve(self, taken=taken)


# seconds that one call may take: of a start, and of a stop
START_CALL_S: Final = 30.0
STOP_CALL_S: Final = 8.0
# seconds of a long poll; after a kill; silence is noticed that late
POLL_S: Final = 20.0
KILLED_POLL_S: Final = 4.0
# patience in seconds with a node that has nothing to say to a kill
KILL_PATIENCE_S: Final = 10.0
# pauses between calls to a silent node, seconds
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0
# offset at which no stream has a byte
_BEYOND: Final = 2**62
# statuses of HTTP with which a node daemon refuses a call before it looks at it
_UNREAD: Final = (403, 404, 413)


class ConversationEnd(enum.Enum):
    """How a conversation ends."""

    # the command has ended; the outcome tells how
    ENDED = "ended"
    # the program has ended, processes that it left keep the locks
    KEPT = "kept"
    # it was not started, and will not be
    NOT_BEGUN = "not begun"
    # it was stopped before it was started, and will not be
    VOID = "void"
    # nothing of it runs, and the node does not know how it ended
    LOST = "lost"
    # the node does not know it any more
    FORGOTTEN = "forgotten"
    # patience is over; it may run
    SILENT = "silent"
    # another node has become the master, and its job processes follow the command
    OUTDATED = "outdated"

    @property
    def is_proof(self) -> bool:
        """Whether nothing of the command runs, and nothing of it will."""
        return self not in (ConversationEnd.KEPT, ConversationEnd.SILENT, ConversationEnd.OUTDATED)


@attrs.frozen
class ConversationOver:
    """The conversation has ended."""

    end: ConversationEnd
    outcome: CommandOutcome | None = None
    # reason, in words, of a command that was not begun, or of a silence
    text: str = ""


@attrs.frozen
class NextCall:
    """Send this call; tell what it came to by one of the `hear` methods."""

    call: StartCommand | FollowCommand | StopCommand
    limit_s: float


@attrs.frozen
class Rest:
    """Wait so long, or until a kill."""

    seconds: float


Step = NextCall | Rest | ConversationOver


@attrs.frozen
class NodeSilence:
    """A node that has no word for us."""

    since: float
    # when it is asked again
    until: float
    failures: int
    # text of the last failure
    text: str


class _Aim(enum.Enum):
    START = "start"
    FOLLOW = "follow"
    STOP = "stop"


@attrs.frozen(kw_only=True)
class Conversation:
    key: str
    spec: CommandSpec
    output: CopiedStream
    error: CopiedStream
    # seconds of silence of a node; 0: without end
    lost_s: float
    # whether an earlier process of the job may have started it
    may_run: bool
    # whether processes that the program leaves are waited for
    until_gone: bool = False
    # last that the node told; None: nothing yet
    state: CommandState | None = None
    silence: NodeSilence | None = None
    killed_at: float | None = None
    heard_at: float = -math.inf
    # words of the refusal of the start
    refusal: str | None = None
    over: ConversationOver | None = None
    _aim: _Aim = _Aim.START

    @classmethod
    def about_left(cls, other: "Conversation") -> "Conversation":
        """A conversation about the processes that the program of an ended one has left."""
        return attrs.evolve(other, until_gone=True, over=None, silence=None, aim=_Aim.FOLLOW)

    @property
    def is_killed(self) -> bool:
        return self.killed_at is not None

    def next_step(self, now: float) -> Step:
        if self.over is not None:
            return self.over
        if self.is_killed and not self.may_run:
            return ConversationOver(ConversationEnd.VOID)
        ends_at = self.ends_at
        if self.silence is not None:
            if now >= ends_at:
                end = ConversationEnd.SILENT if self.may_run else ConversationEnd.NOT_BEGUN
                return ConversationOver(end, text=self.refusal or self.silence.text)
            if now < self.silence.until:
                return Rest(min(self.silence.until, ends_at) - now)
        ask = self._ask()
        return attrs.evolve(ask, limit_s=max(min(ask.limit_s, ends_at - now), 0.1)) if self.is_killed else ask

    def kill(self, now: float) -> Self:
        """The job is killed; a call that is under way may be given up."""
        if self.is_killed:
            return self
        # the node is asked at once
        silence = self.silence and attrs.evolve(self.silence, until=now)
        return attrs.evolve(self, killed_at=now, aim=_Aim.STOP, silence=silence)

    def hear(self, state: CommandState, now: float) -> Self:
        """The reply to a start or a stop."""
        if self.refusal is not None and self._aim is _Aim.FOLLOW and state.phase is CommandPhase.UNKNOWN:
            # the start was refused, and may be delivered once more
            return attrs.evolve(self, heard_at=now, silence=None, aim=_Aim.STOP)
        found = attrs.evolve(
            self,
            state=state,
            may_run=True,
            silence=None,
            heard_at=now,
            refusal=self.refusal if state.phase is CommandPhase.VOID else None,
            aim=_Aim.FOLLOW,
            output=self.output.placed(state.output_base),
            error=self.error.placed(state.error_base),
        )
        return attrs.evolve(found, over=found._judge(state))

    def hear_news(self, news: CommandNews, now: float) -> Self:
        """The reply to a long poll, whose output was taken."""
        state = news.state
        if self.state is None:
            # it was only asked what it knows
            return self.hear(state, now)
        output = self.output.after(news.output_from, news.output.data, state, state.output_bytes)
        error = self.error.after(news.error_from, news.error.data, state, state.error_bytes)
        return attrs.evolve(self, output=output, error=error).hear(state, now)

    def give_up(self) -> Self:
        """The call was given up after it was sent and before a reply. A start may be carried out all the same."""
        return attrs.evolve(self, may_run=True) if self._aim is _Aim.START else self

    def hear_failure(self, failed: Failed, now: float) -> Self:
        """The call has failed."""
        if failed.kind is FailureKind.OUTDATED:
            return attrs.evolve(self, over=ConversationOver(ConversationEnd.OUTDATED, text=failed.text))
        is_unacted = not failed.kind.may_have_acted or failed.status in _UNREAD
        found = self._hear_failed_start(failed, is_unacted) if self._aim is _Aim.START else self
        if found.over is not None or found._aim is not self._aim:
            return found
        # what it was told before may have been lost with a node daemon that has ended
        return attrs.evolve(found, aim=_Aim.STOP if self.is_killed else found._aim, silence=_next(self, failed, now))

    def _hear_failed_start(self, failed: Failed, is_unacted: bool) -> Self:
        if is_unacted:
            is_pointless = failed.kind is FailureKind.UNKNOWN and not self.may_run
            return (
                attrs.evolve(self, over=ConversationOver(ConversationEnd.NOT_BEGUN, text=failed.text))
                if is_pointless
                else self
            )
        if failed.kind is FailureKind.REFUSED:
            # it may have gone half of the way; or it runs, and an earlier process had other words for it
            aim = _Aim.FOLLOW if self.may_run else _Aim.STOP
            return attrs.evolve(self, may_run=True, refusal=failed.text, aim=aim)
        return attrs.evolve(self, may_run=True)

    def _judge(self, state: CommandState) -> ConversationOver | None:
        has_all = self._has_all(state)
        match state.phase:
            case CommandPhase.RUNNING:
                return None
            case CommandPhase.KEPT:
                is_enough = has_all and not (self.until_gone or self.is_killed)
                return ConversationOver(ConversationEnd.KEPT, state.outcome) if is_enough else None
            case CommandPhase.ENDED:
                return ConversationOver(ConversationEnd.ENDED, state.outcome) if has_all else None
            case CommandPhase.LOST:
                return ConversationOver(ConversationEnd.LOST) if has_all else None
            case CommandPhase.VOID:
                return (
                    ConversationOver(ConversationEnd.VOID)
                    if self.refusal is None
                    else ConversationOver(ConversationEnd.NOT_BEGUN, text=self.refusal)
                )
            case CommandPhase.UNKNOWN:
                return ConversationOver(ConversationEnd.FORGOTTEN)
            case _:
                assert_never(state.phase)

    def _has_all(self, state: CommandState) -> bool:
        return (self.output.taken or 0) >= state.output_bytes and (self.error.taken or 0) >= state.error_bytes

    @property
    def ends_at(self) -> float:
        """When the patience is over; infinite: never, or the node is not silent."""
        if self.killed_at is not None:
            return max(self.killed_at, self.heard_at) + KILL_PATIENCE_S
        if self.silence is None:
            return math.inf
        return self.silence.since + (self.lost_s or math.inf)

    def _ask(self) -> NextCall:
        match self._aim:
            case _Aim.START:
                call = StartCommand(self.key, self.spec, self.output.file_bytes, self.error.file_bytes)
                return NextCall(call, START_CALL_S)
            case _Aim.STOP:
                return NextCall(StopCommand(self.key), STOP_CALL_S)
            case _Aim.FOLLOW:
                follow = self._follow()
                return NextCall(follow, follow.limit_s)
            case _:
                assert_never(self._aim)

    def _follow(self) -> FollowCommand:
        if self.state is None:
            return FollowCommand(self.key, _BEYOND, _BEYOND, CommandPhase.UNKNOWN, 0.0)
        phase = self.state.phase
        wait_s = 0.0 if not phase.may_run else KILLED_POLL_S if self.is_killed else POLL_S
        return FollowCommand(self.key, self.output.taken or 0, self.error.taken or 0, phase, wait_s)


def _next(before: Conversation, failed: Failed, now: float) -> NodeSilence:
    silence = before.silence
    failures = 1 if silence is None else silence.failures + 1
    # the exponent is bounded: floats are not without end
    pause_s = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE_S)
    return NodeSilence(now if silence is None else silence.since, now + pause_s, failures, failed.text)
