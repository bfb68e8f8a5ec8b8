"""Commands on a node: started once, followed, stopped, forgotten (DESIGN section 13)."""

import pytest

from protocol.noded.commands import CommandPhase
from tests.support.machines.nodecommands import CommandsOf, Refused, shell, spec_of
from tests.support.machines.nodes import Node


@pytest.fixture
def commands(node: Node) -> CommandsOf:
    return CommandsOf(node)


def test_a_command_runs_and_its_output_and_outcome_are_told(commands: CommandsOf) -> None:
    started = commands.start(shell("echo one; echo two >&2; exit 3", stderr_apart=True), "1.0.1", base=5)

    ended = commands.end_of("1.0.1")

    assert started.begun_at > 0
    assert started.output_base == 5
    assert (ended.state.phase, ended.output, ended.errors) == (CommandPhase.ENDED, b"one\n", b"two\n")
    assert ended.state.outcome is not None
    assert ended.state.outcome.exit_code == 3
    assert ended.state.outcome.not_begun is None
    assert ended.state.begun_at == started.begun_at


def test_a_second_start_is_none_and_another_command_is_refused(commands: CommandsOf, node: Node) -> None:
    tally = node.root / "tally-2"
    command = shell(f"echo x >> {tally}")
    for _ in range(3):
        commands.start(command, "2.0.1")
    commands.end_of("2.0.1")

    again = commands.start(command, "2.0.1")

    assert again.phase is CommandPhase.ENDED
    assert tally.read_text() == "x\n"
    with pytest.raises(Refused, match=r"another command was started as 2\.0\.1"):
        commands.start(shell("echo y"), "2.0.1")


def test_what_is_missing_on_the_node_is_said_with_its_name(commands: CommandsOf) -> None:
    cases = {
        "3.0.1": (spec_of("true", user="nobody-has-this-name"), "no user 'nobody-has-this-name'"),
        "3.1.1": (spec_of("true", cwd="/no/such/folder"), "does not exist"),
        "3.2.1": (spec_of("no-such-program"), "there is no program 'no-such-program'"),
    }
    for key, (spec, reason) in cases.items():
        state = commands.start(spec, key)

        assert state.phase is CommandPhase.ENDED
        assert state.outcome is not None
        assert reason in (state.outcome.not_begun or "")
        assert "node2.test" in (state.outcome.not_begun or "")
