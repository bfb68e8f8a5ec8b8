"""Commands on a node: started once, followed, stopped, forgotten (DESIGN section 13)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.commands.spec import Leave
from common.system.processes import find_process, going_on_words, running_commands
from protocol.noded.commands import CommandPhase
from tests.support.fakes.disks import no_room, small_disk
from tests.support.machines.nodecommands import CommandsOf, Refused, shell, spec_of
from tests.support.machines.nodes import Node
from tests.support.wait import wait_until

# idle connections are cut off soon, output is bounded
SETTINGS = "idle_timeout_s = 5.0\nbody_timeout_s = 5\n[jobproc]\noutput_max_bytes = 20000\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        node.start()
        yield node
        node.cluster.crash()


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


def test_a_stop_ends_all_processes_also_those_that_do_not_listen(commands: CommandsOf, node: Node) -> None:
    pids = node.root / "pids"
    script = f"trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; while :; do sleep 1; done') & sleep 1000"
    commands.start(shell(script, grace_s=0.1), "4.0.1")
    wait_until(lambda: pids.exists() and pids.read_text(), what="the process in a session of its own")

    commands.stop("4.0.1")
    ended = commands.end_of("4.0.1")

    assert ended.state.outcome is not None
    assert ended.state.outcome.was_killed
    assert find_process(int(pids.read_text())) is None
    assert commands.stop("4.0.1").phase is CommandPhase.ENDED


def test_processes_that_keep_the_locks_are_told_until_they_end(commands: CommandsOf) -> None:
    commands.start(shell("sleep 1000 & echo done", leave=Leave.KEEP_LOCKS), "6.0.1")

    kept = commands.follow("6.0.1", output_from=5, wait=20)
    commands.stop("6.0.1")
    ended = commands.follow("6.0.1", output_from=5, known=CommandPhase.KEPT, wait=20)

    assert kept.state.phase is CommandPhase.KEPT
    assert kept.state.outcome is not None
    assert kept.state.outcome.exit_code == 0
    assert ended.state.phase is CommandPhase.ENDED
    assert ended.state.outcome == kept.state.outcome


def test_a_key_that_was_stopped_before_its_start_starts_nothing(commands: CommandsOf, node: Node) -> None:
    file = node.root / "never"

    assert commands.stop("7.0.1").phase is CommandPhase.VOID
    assert commands.start(shell(f"touch {file}"), "7.0.1").phase is CommandPhase.VOID
    assert commands.phase("7.0.1") is CommandPhase.VOID
    assert not file.exists()


def test_a_forgotten_command_is_gone_but_for_a_note_and_is_not_started_again(commands: CommandsOf, node: Node) -> None:
    command = shell("echo once")
    commands.start(command, "8.0.1")
    commands.start(shell("sleep 1000"), "8.1.1")
    commands.end_of("8.0.1")
    commands.stop("8.2.1")

    commands.forget("8.0.1", "8.1.1", "8.2.1", "8.3.1")
    again = [commands.start(command, key).phase for key in ("8.0.1", "8.2.1")]

    assert again == [CommandPhase.UNKNOWN] * 2
    assert commands.phase("8.1.1") is CommandPhase.RUNNING
    names = sorted(path.name for path in node.paths.node_commands.rglob("8.*"))
    assert names == ["8.0.1.gone", "8.1.1.live", "8.1.1.start", "8.2.1.gone"]
    assert {state.key for state in commands.states("8")} >= {"8.1.1"}
    commands.stop("8.1.1")
    commands.end_of("8.1.1")


def test_only_the_end_of_much_output_is_kept_and_that_is_told(commands: CommandsOf) -> None:
    commands.start(shell("seq 100000 200000"), "9.0.1")
    wait_until(lambda: commands.phase("9.0.1") is CommandPhase.ENDED, what="the end of the command")

    news = commands.follow("9.0.1")

    whole = b"".join(b"%d\n" % number for number in range(100000, 200001))
    assert news.state.output_bytes == len(whole)
    assert len(whole) - 20000 <= news.output_from < len(whole)
    assert news.output.data
    assert whole[news.output_from :].startswith(news.output.data)


def test_a_command_with_a_damaged_record_is_stopped_and_counts_as_running(commands: CommandsOf, node: Node) -> None:
    commands.start(shell("sleep 1000"), "13.0.1")
    record = node.paths.node_commands / "13.0.1.start"
    whole = record.read_bytes()
    record.write_bytes(b"foreign")

    stopped = commands.stop("13.0.1")

    assert stopped.phase is CommandPhase.RUNNING
    record.write_bytes(whole)
    assert commands.end_of("13.0.1").state.phase is CommandPhase.ENDED


def test_a_command_that_writes_again_and_again_costs_few_calls(commands: CommandsOf) -> None:
    began = time.monotonic()
    commands.start(shell("for i in $(seq 200); do echo $i; sleep 0.005; done"), "10.0.1")

    ended = commands.end_of("10.0.1")

    assert ended.output == b"".join(b"%d\n" % number for number in range(1, 201))
    # output alone is held back for 0.03 s; besides it there are the end, and what came between that and the last look
    assert ended.follows <= (time.monotonic() - began) / 0.03 + 2


def test_a_full_disk_refuses_a_start_with_its_reason_and_holds_an_outcome_back(tmp_path: Path) -> None:
    file, go = tmp_path / "ran", tmp_path / "go"
    with small_disk(tmp_path / "root" / "lib"), Node(tmp_path / "root") as node:
        node.start()
        commands = CommandsOf(node)
        commands.start(shell(f"while [ ! -e {go} ]; do sleep 0.02; done"), "1.0.1")

        with no_room(node.paths.data):
            with pytest.raises(Refused, match="no space left"):
                commands.start(shell(f"touch {file}"), "1.1.1")
            go.touch()
            wait_until(lambda: "outcome.not_written" in node.log(), what="the refusal of the disk")
            held, ran = commands.phase("1.0.1"), file.exists()
        commands.start(shell(f"touch {file}"), "1.1.1")

        assert (held, ran) == (CommandPhase.RUNNING, False)
        assert {commands.end_of(key).state.phase for key in ("1.0.1", "1.1.1")} == {CommandPhase.ENDED}
        assert file.exists()


@pytest.mark.parametrize("key", ["", "1.0", "1.0.1.2", "../1.0.1", "a.b.c", "1.0.1\n"])
def test_what_is_no_key_is_refused(commands: CommandsOf, key: str) -> None:
    for call in (lambda: commands.start(shell("true"), key), lambda: commands.stop(key), lambda: commands.forget(key)):
        with pytest.raises(Refused, match="is no key of a command"):
            call()


def test_a_follower_may_wait_longer_than_an_idle_connection_may_be_silent(commands: CommandsOf) -> None:
    commands.start(shell("sleep 6; echo at last"), "11.0.1")

    news = commands.follow("11.0.1", wait=50)

    assert news.output.data == b"at last\n"
    commands.end_of("11.0.1")


def test_running_commands_are_counted_on_their_node_which_does_not_leave_then(own: Node) -> None:
    folder = own.paths.node_commands
    before = (running_commands(folder), going_on_words(folder))
    commands = CommandsOf(own)
    commands.start(shell("sleep 1000"), "1.0.1")
    commands.start(shell("true"), "1.1.1")
    commands.end_of("1.1.1")

    during = (running_commands(folder), going_on_words(folder))
    refused = own.call("node_leave_cluster", [False])
    commands.stop("1.0.1")
    commands.end_of("1.0.1")
    left = own.call("node_leave_cluster", [False])

    assert before == ([], None)
    assert during == (["1.0.1"], "1 command of jobs goes on here")
    assert refused[0] is False
    assert "commands of jobs run on this node: 1.0.1" in str(refused[1])
    assert left[0] is True
    assert not folder.exists()
