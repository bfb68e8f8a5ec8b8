"""The conversation of a job process with a node, against a naive node and a network that does its worst.

DESIGN section 13: starting twice is one start; the locks of a job are not free before what it started has ended.
"""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.commands.spec import CommandOutcome, CommandSpec
from daemons.jobproc.nodecommands.conversation import (
    KILL_PATIENCE_S,
    Conversation,
    ConversationEnd,
    ConversationOver,
    CopiedStream,
    NextCall,
    Rest,
)
from protocol.noded.call import Content, Failed, FailureKind
from protocol.noded.commands import (
    CommandNews,
    CommandPhase,
    CommandState,
    FollowCommand,
    StartCommand,
    StopCommand,
)

KEY = "7.0.1"
# bytes that the job's file had before
BASE = 5
CERTAIN = (FailureKind.UNREACHABLE, FailureKind.UNSENT, FailureKind.UNTRUSTED)
UNCERTAIN = (FailureKind.TIMEOUT, FailureKind.LOST, FailureKind.GARBLED)


@attrs.define
class NaiveNode:
    """One key, as `protocol.noded.commands` tells it."""

    phase: CommandPhase = CommandPhase.UNKNOWN
    runs: int = 0
    base: int = 0
    output: bytes = b""
    is_killed: bool = False

    def deliver(self, call: StartCommand | FollowCommand | StopCommand) -> CommandState | CommandNews:
        match call:
            case StartCommand():
                if self.phase is CommandPhase.UNKNOWN:
                    self.phase, self.base = CommandPhase.RUNNING, call.output_base
                    self.runs += 1
            case StopCommand():
                if self.phase is CommandPhase.UNKNOWN:
                    self.phase = CommandPhase.VOID
                elif self.phase.may_run:
                    self.is_killed = True
            case FollowCommand():
                return CommandNews(
                    state=self.state, output_from=call.output_from, output=Content(self.output[call.output_from :][:3])
                )
        return self.state

    @property
    def state(self) -> CommandState:
        outcome = CommandOutcome(exit_code=0, was_killed=self.is_killed)
        return CommandState(
            key=KEY,
            phase=self.phase,
            output_base=self.base,
            output_bytes=len(self.output),
            outcome=outcome if self.phase in (CommandPhase.ENDED, CommandPhase.KEPT) else None,
        )

    def work(self, printed: bytes, next_phase: CommandPhase | None) -> None:
        """The program prints, and perhaps ends."""
        if self.phase is CommandPhase.RUNNING:
            self.output += printed
        if self.phase.may_run and (self.is_killed or next_phase is not None):
            self.phase = CommandPhase.ENDED if self.is_killed else next_phase or self.phase


PHASES = st.sampled_from([None, None, None, CommandPhase.ENDED, CommandPhase.KEPT, CommandPhase.LOST])


def begin(file: bytes, *, may_run: bool, lost_s: float) -> Conversation:
    spec = CommandSpec(argv=("true",))
    return Conversation(
        key=KEY, spec=spec, output=CopiedStream(len(file)), error=CopiedStream(0), lost_s=lost_s, may_run=may_run
    )


@given(st.data())
def test_a_proof_is_one_and_the_output_is_whole(data: st.DataObject) -> None:
    """Whatever is lost, late, refused or repeated, also when a job process dies and another one goes on."""
    node, file, now = NaiveNode(), b"x" * BASE, 0.0
    lost_s = data.draw(st.sampled_from([0.0, 20.0]))
    late: list[StartCommand] = []
    talk = begin(file, may_run=False, lost_s=lost_s)
    kill_at: float | None = None
    over: ConversationOver | None = None
    # the network is cut for a while from this turn on
    cut = data.draw(st.integers(0, 50), "cut at")
    for turn in range(400):
        is_quiet = turn > 60
        now += 0.1
        if late and (is_quiet or data.draw(st.booleans(), "a late start arrives")):
            node.deliver(late.pop())
        node.work(
            b"" if is_quiet else data.draw(st.binary(max_size=4)), CommandPhase.ENDED if is_quiet else data.draw(PHASES)
        )
        if not is_quiet and kill_at is None and data.draw(st.integers(0, 9)) == 0:
            talk, kill_at = talk.kill(now), now
        step = talk.next_step(now)
        if isinstance(step, ConversationOver):
            over = step
            break
        if isinstance(step, Rest):
            now += step.seconds
            continue
        assert not (talk.is_killed and isinstance(step.call, StartCommand))
        if not is_quiet and data.draw(st.integers(0, 12)) == 0:
            # the job process dies with the call under way, and another one goes on
            if data.draw(st.booleans()):
                node.deliver(step.call)
            talk, kill_at = begin(file, may_run=True, lost_s=lost_s), None
            continue
        is_cut = cut <= turn < cut + 10
        fate = 0 if is_quiet else 4 if is_cut else data.draw(st.integers(0, 5), "fate")
        if fate <= 1:
            talk, file = hear(talk, step, node, file, now)
            continue
        now += 9.0 if is_cut else data.draw(st.sampled_from([0.0, 1.0, 9.0]))
        if fate == 2:
            talk = talk.hear_failure(Failed(data.draw(st.sampled_from(CERTAIN)), "no"), now)
            continue
        if fate == 3 and isinstance(step.call, StartCommand):
            # refused, half of the way
            late += [step.call] if data.draw(st.booleans()) else []
            talk = talk.hear_failure(Failed(FailureKind.REFUSED, "refused"), now)
            continue
        if isinstance(step.call, StartCommand) and data.draw(st.booleans()):
            late.append(step.call)
        elif data.draw(st.booleans()):
            node.deliver(step.call)
        if kill_at is None and data.draw(st.integers(0, 3)) == 0:
            # the kill comes while the call is under way
            talk, kill_at = talk.give_up().kill(now), now
            continue
        talk = talk.hear_failure(Failed(data.draw(st.sampled_from(UNCERTAIN)), "no"), now)

    assert over is not None, "with a healthy node and an ended program it must end"
    for call in late:
        node.deliver(call)
    assert node.runs <= 1
    if over.end.is_proof:
        assert not node.phase.may_run, over
    if over.end is ConversationEnd.ENDED:
        assert file[BASE:] == node.output
    if over.end is ConversationEnd.SILENT:
        assert kill_at is not None or lost_s or over.text == "refused"


def hear(talk: Conversation, step: NextCall, node: NaiveNode, file: bytes, now: float) -> tuple[Conversation, bytes]:
    reply = node.deliver(step.call)
    if isinstance(reply, CommandState):
        return talk.hear(reply, now), file
    if talk.state is not None:
        dropped, fresh = talk.output.fresh_part(reply.output_from, reply.output.data)
        assert dropped == 0
        file += fresh
    return talk.hear_news(reply, now), file


def test_a_killed_job_waits_for_a_silent_node_no_longer_than_it_may() -> None:
    talk = begin(b"", may_run=True, lost_s=0.0).kill(100.0)
    now = 100.0
    while not isinstance(step := talk.next_step(now), ConversationOver):
        now += step.limit_s if isinstance(step, NextCall) else step.seconds
        if isinstance(step, NextCall):
            talk = talk.hear_failure(Failed(FailureKind.TIMEOUT, "silent"), now)

    assert step.end is ConversationEnd.SILENT
    assert now <= 100.0 + KILL_PATIENCE_S


def test_a_start_that_is_given_up_for_a_kill_is_stopped() -> None:
    """It may arrive later, so its key must become void before the locks are free."""
    talk = begin(b"", may_run=False, lost_s=300.0)
    assert isinstance(talk.next_step(0.0), NextCall)

    step = talk.give_up().kill(0.1).next_step(0.1)

    assert isinstance(step, NextCall)
    assert step.call == StopCommand(talk.key)


def test_a_start_that_no_node_got_waits_as_long_as_for_a_lost_node_and_ends_without_a_trace() -> None:
    talk, now, count = begin(b"", may_run=False, lost_s=300.0), 0.0, 0
    while not isinstance(step := talk.next_step(now), ConversationOver):
        if isinstance(step, NextCall):
            assert isinstance(step.call, StartCommand)
            talk, count = talk.hear_failure(Failed(FailureKind.UNREACHABLE, "refused"), now), count + 1
        else:
            now += step.seconds

    assert (step.end, step.text) == (ConversationEnd.NOT_BEGUN, "refused")
    assert now == 300.0
    assert 30 < count < 45


def test_a_start_that_may_have_arrived_is_repeated_until_the_time_for_lost_nodes_is_over() -> None:
    talk, now = begin(b"", may_run=False, lost_s=300.0), 0.0
    talk = talk.hear_failure(Failed(FailureKind.LOST, "cut"), now)
    while not isinstance(step := talk.next_step(now), ConversationOver):
        if isinstance(step, NextCall):
            assert isinstance(step.call, StartCommand)
            talk = talk.hear_failure(Failed(FailureKind.UNREACHABLE, "refused"), now)
        else:
            assert step.seconds < 10.01
            now += step.seconds

    assert step.end is ConversationEnd.SILENT
    assert now == 300.0


def test_a_refusal_by_an_older_node_daemon_is_final_at_once() -> None:
    talk = begin(b"", may_run=False, lost_s=300.0).hear_failure(Failed(FailureKind.UNKNOWN, "404", 404), 0.0)

    assert talk.next_step(0.0) == ConversationOver(ConversationEnd.NOT_BEGUN, text="404")


def test_a_refused_start_counts_as_not_begun_only_when_its_key_is_void() -> None:
    talk = begin(b"", may_run=False, lost_s=300.0).hear_failure(Failed(FailureKind.REFUSED, "no room"), 0.0)
    step = talk.next_step(0.0)

    assert isinstance(step, NextCall)
    assert isinstance(step.call, StopCommand)
    talk = talk.hear(CommandState(key=KEY, phase=CommandPhase.VOID), 0.0)
    assert talk.next_step(0.0) == ConversationOver(ConversationEnd.NOT_BEGUN, text="no room")


def test_a_command_that_runs_under_other_words_is_followed_when_it_is_taken_up() -> None:
    """The settings of two masters may differ; the command must not be stopped for that."""
    talk = begin(b"x" * 9, may_run=True, lost_s=300.0).hear_failure(Failed(FailureKind.REFUSED, "another"), 0.0)
    step = talk.next_step(0.0)
    assert isinstance(step, NextCall)
    assert isinstance(step.call, FollowCommand)

    state = CommandState(key=KEY, phase=CommandPhase.RUNNING, output_base=BASE, output_bytes=6)
    talk = talk.hear_news(CommandNews(state=state, output_from=step.call.output_from), 0.0)

    following = talk.next_step(0.0)
    assert isinstance(following, NextCall)
    assert isinstance(following.call, FollowCommand)
    assert following.call.output_from == 9 - BASE


def test_output_that_the_node_has_dropped_leaves_a_gap_of_its_size() -> None:
    stream = CopiedStream(10, 4)

    assert stream.fresh_part(9, b"abc") == (5, b"abc")
    assert stream.fresh_part(2, b"abcd") == (0, b"cd")
