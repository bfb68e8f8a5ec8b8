"""A conversation with a node, carried out over a link that replies as the test says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from common.commands.output import OutputFile, pieces_of, read_output
from common.commands.spec import CommandOutcome, CommandSpec
from common.system.signals import ProcessSignals
from daemons.jobproc.nodecommands import nodecommand
from daemons.jobproc.nodecommands.conversation import Conversation, ConversationEnd
from daemons.jobproc.nodecommands.nodecommand import NodeLink, NodeTalk, StreamCopy
from protocol.noded.call import Content, Failed, FailureKind, NodeAddress, Replied
from protocol.noded.commands import CommandNews, CommandPhase, CommandState

SILENT = Failed(FailureKind.LOST, "the connection was cut")


class Signals:
    """A process without signals, whose waits are over at once."""

    kill_asked = False
    asked_by_shutdown = False

    def wait(self, timeout_s: float | None) -> tuple[int, ...]:
        return ()


class Link:
    """Replies in the order given."""

    def __init__(self, replies: Iterator[Any]) -> None:
        self.node = NodeAddress("web2", "127.0.0.9")
        self._replies = replies

    def ask(self, call: object, limit_s: float, stop: Callable[[], bool]) -> Any:
        return next(self._replies)


def talk(folder: Path, told: list[str], *replies: Any) -> tuple[NodeTalk, Conversation]:
    output = StreamCopy(OutputFile(folder / "job-1", 1000), 0, 5)
    error = StreamCopy(OutputFile(folder / "job-1.err", 1000), 0, 5)
    link = cast(NodeLink, Link(iter(replies)))
    made = NodeTalk(
        link=link,
        signals=cast(ProcessSignals, Signals()),
        output=output,
        error=error,
        tell=told.append,
        on_kill=lambda: None,
    )
    spec = CommandSpec(argv=("true",))
    conversation = Conversation(
        key="1.0.1", spec=spec, output=output.stream, error=error.stream, lost_s=300.0, may_run=False
    )
    return made, conversation


def state(phase: CommandPhase, output_bytes: int = 0) -> CommandState:
    outcome = CommandOutcome(exit_code=0) if phase is CommandPhase.ENDED else None
    return CommandState(key="1.0.1", phase=phase, output_bytes=output_bytes, outcome=outcome)


def test_a_silence_and_its_end_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodecommand, "TELL_S", 0.0)
    told: list[str] = []
    running, ended = state(CommandPhase.RUNNING), state(CommandPhase.ENDED)
    news = [Replied(CommandNews(state=each)) for each in (running, ended)]
    made, conversation = talk(tmp_path, told, Replied(running), SILENT, SILENT, *news)

    over = made.carry_on(conversation).over

    assert over is not None
    assert over.end is ConversationEnd.ENDED
    assert len(told) == 2
    assert told[0].startswith("node 'web2' does not answer since ")
    assert told[0].endswith("; its command may still run there: the connection was cut")
    assert told[1] == "node 'web2' answers again"


def test_a_command_that_ends_within_its_start_costs_one_call(tmp_path: Path) -> None:
    made, conversation = talk(tmp_path, [], Replied(state(CommandPhase.ENDED)))

    over = made.carry_on(conversation).over

    # a second call would find no reply
    assert over is not None
    assert over.end is ConversationEnd.ENDED
    assert over.outcome == CommandOutcome(exit_code=0)


def test_one_that_has_written_costs_one_more(tmp_path: Path) -> None:
    ended = state(CommandPhase.ENDED, 4)
    news = CommandNews(state=ended, output=Content(b"one\n"))
    made, conversation = talk(tmp_path, [], Replied(ended), Replied(news))

    over = made.carry_on(conversation).over

    assert over is not None
    assert over.end is ConversationEnd.ENDED
    assert made.output.written(4).tail == ["one"]


def test_output_that_the_node_has_dropped_is_a_gap_and_is_counted(tmp_path: Path) -> None:
    late = CommandNews(state=state(CommandPhase.ENDED, 9), output_from=6, output=Content(b"end"))
    first = CommandNews(state=state(CommandPhase.RUNNING, 2), output=Content(b"ab"))
    made, conversation = talk(tmp_path, [], Replied(state(CommandPhase.RUNNING)), Replied(first), Replied(late))

    made.carry_on(conversation)

    assert made.dropped == 4
    base = tmp_path / "job-1"
    assert pieces_of(base) == [0, 6]
    assert [read_output(base, start, 100).content for start in pieces_of(base)] == [b"ab", b"end"]


def test_who_takes_up_a_command_that_was_started_with_other_words_knows_what_was_copied(tmp_path: Path) -> None:
    """The node refuses such a start, and is asked what it knows of the key."""
    file = OutputFile(tmp_path / "job-1", 1000)
    file.append(b"of another opcode\none\n")
    ended = attrs.evolve(state(CommandPhase.ENDED, 8), output_base=18)
    rest = CommandNews(state=ended, output_from=4, output=Content(b"two\n"))
    refused = Failed(FailureKind.REFUSED, "another command was started as 1.0.1 before")
    made, conversation = talk(tmp_path, [], refused, Replied(CommandNews(state=ended)), Replied(rest))
    made.output = StreamCopy(file, file.end, 5)

    made.carry_on(attrs.evolve(conversation, may_run=True, output=made.output.stream))

    assert made.output.written(8).tail == ["one", "two"]


def test_who_takes_up_such_a_command_without_its_files_leaves_its_output_at_its_place(tmp_path: Path) -> None:
    ended = attrs.evolve(state(CommandPhase.ENDED, 4), output_base=18)
    refused = Failed(FailureKind.REFUSED, "another command was started as 1.0.1 before")
    news = CommandNews(state=ended, output=Content(b"one\n"))
    made, conversation = talk(tmp_path, [], refused, Replied(CommandNews(state=ended)), Replied(news))

    made.carry_on(attrs.evolve(conversation, may_run=True))

    assert pieces_of(tmp_path / "job-1") == [18]
