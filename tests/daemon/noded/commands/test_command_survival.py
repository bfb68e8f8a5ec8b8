"""Commands live on, and are never started twice, whichever process of the node is killed (DESIGN section 13)."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.jsontext import ascii_json
from common.system.processes import boot_id, descendants, find_process, running_commands
from common.wire import unstructure
from daemons.noded.commands.commandrecords import (
    END,
    LIVE,
    START,
    CommandRecords,
    StartRecord,
    digest_of_command,
)
from protocol.noded.call import request_body
from protocol.noded.commands import CommandPhase, FollowCommand
from tests.cli.command import run
from tests.support.machines.nodecommands import CommandsOf, fork_servers, shell, title
from tests.support.machines.nodes import Node
from tests.support.stopping import stop
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as node:
        node.start()
        yield node
        node.cluster.crash()


@pytest.fixture
def commands(node: Node) -> CommandsOf:
    return CommandsOf(node)


def records_of(node: Node) -> CommandRecords:
    records = CommandRecords(node.paths.node_commands)
    records.make_folders()
    return records


def runner_of(node: Node, key: str) -> int:
    begun = records_of(node).read(key).begun
    assert begun is not None
    return begun.pid


def fork_server_of(node: Node) -> int:
    (pid,) = fork_servers(node)
    return pid


def has_ended(pid: int) -> bool:
    return find_process(pid) is None


def gate(node: Node, name: str) -> tuple[Path, str]:
    """A file, and a script that waits for it."""
    file = node.root / name
    return file, f"while [ ! -e {file} ]; do sleep 0.02; done"


def test_a_killed_node_daemon_finds_its_commands_again(node: Node, commands: CommandsOf) -> None:
    file, wait = gate(node, "go-1")
    tally = node.root / "tally-1"
    command = shell(f"echo x >> {tally}; echo before; {wait}; echo after; exit 4")
    commands.start(command, "1.0.1")
    wait_until(lambda: commands.follow("1.0.1").state.output_bytes, what="the first line")

    node.kill()
    node.start()
    again = commands.start(command, "1.0.1")
    file.touch()
    ended = commands.end_of("1.0.1")

    assert again.phase is CommandPhase.RUNNING
    assert (ended.state.phase, ended.output) == (CommandPhase.ENDED, b"before\nafter\n")
    assert ended.state.outcome is not None
    assert ended.state.outcome.exit_code == 4
    assert tally.read_text() == "x\n"


def test_a_killed_fork_server_is_replaced_and_ends_no_command(node: Node, commands: CommandsOf) -> None:
    file, wait = gate(node, "go-2")
    commands.start(shell(wait), "2.0.1")

    os.kill(fork_server_of(node), signal.SIGKILL)
    commands.start(shell("echo new"), "2.1.1")

    assert commands.end_of("2.1.1").output == b"new\n"
    assert commands.phase("2.0.1") is CommandPhase.RUNNING
    file.touch()
    assert commands.end_of("2.0.1").state.phase is CommandPhase.ENDED


def test_a_command_without_its_runner_runs_on_until_it_is_stopped_and_is_lost_then(
    node: Node, commands: CommandsOf
) -> None:
    command = shell("sleep 1000 & echo ready; sleep 1000")
    commands.start(command, "3.0.1")
    wait_until(lambda: commands.follow("3.0.1").state.output_bytes, what="the processes of the command")
    runner = runner_of(node, "3.0.1")
    # all but the supervisor, which frees the lock and ends then
    below = [process for process in descendants(runner) if "supervisor" not in title(process.pid)]

    os.kill(runner, signal.SIGKILL)
    wait_until(lambda: has_ended(runner), what="the end of the runner")

    assert commands.phase("3.0.1") is CommandPhase.RUNNING
    commands.stop("3.0.1")
    ended = commands.end_of("3.0.1")
    assert ended.state.phase is CommandPhase.LOST
    assert ended.state.outcome is None
    assert len(below) >= 2
    assert all(has_ended(process.pid) for process in below)
    assert commands.start(command, "3.0.1").phase is CommandPhase.LOST


def test_a_restart_of_the_machine_loses_what_ran_and_what_had_not_begun(node: Node, commands: CommandsOf) -> None:
    records = records_of(node)
    command = shell("echo never")
    for key in ("4.0.1", "4.1.1"):
        record = StartRecord(digest=digest_of_command(command), boot="another life", output_base=8)
        records.path(key, START).write_bytes(ascii_json(unstructure(record)))
    records.path("4.0.1", LIVE).write_text("{}")

    states = [commands.start(command, key) for key in ("4.0.1", "4.1.1")]

    assert [state.phase for state in states] == [CommandPhase.LOST] * 2
    assert [state.output_base for state in states] == [8, 8]
    assert {state.key for state in commands.states("3.9")} >= {"4.0.1", "4.1.1"}
    assert not records.path("4.1.1", END).exists()


def accepted(node: Node, key: str, script: str) -> None:
    """Leave the record of a start whose runner was never forked, as a killed noded leaves it."""
    record = StartRecord(digest=digest_of_command(shell(script)), boot=boot_id())
    records_of(node).path(key, START).write_bytes(ascii_json(unstructure(record)))


def test_an_accepted_start_without_a_runner_is_begun_by_the_repeated_start(node: Node, commands: CommandsOf) -> None:
    accepted(node, "5.0.1", "echo late")

    assert commands.phase("5.0.1") is CommandPhase.RUNNING
    commands.start(shell("echo late"), "5.0.1")

    assert commands.end_of("5.0.1").output == b"late\n"


def test_an_accepted_start_without_a_runner_is_never_begun_after_a_stop(node: Node, commands: CommandsOf) -> None:
    accepted(node, "6.0.1", "echo never")

    stopped = commands.stop("6.0.1")
    again = commands.start(shell("echo never"), "6.0.1")

    assert (stopped.phase, again.phase) == (CommandPhase.VOID, CommandPhase.VOID)
    assert records_of(node).read("6.0.1").begun is None


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_an_order_that_outlives_its_node_daemon_starts_nothing_a_second_time(
    node: Node, commands: CommandsOf, verb: str
) -> None:
    key = "7.0.1" if verb == "start" else "7.1.1"
    tally = node.root / f"tally-7-{verb}"
    command = shell(f"echo x >> {tally}")
    commands.start(shell("true"), f"8.{len(verb)}.1")
    commands.end_of(f"8.{len(verb)}.1")
    server = fork_server_of(node)
    with stopped(server):
        # the order is in the socket of the stopped fork server when its noded dies
        connection = node.connection()
        commands.send_start(connection, command, key)
        wait_until(lambda: records_of(node).path(key, START).exists(), what="the start record")
        node.kill()
        connection.close()
        node.start()
        state = commands.start(command, key) if verb == "start" else commands.stop(key)
    wait_until(lambda: has_ended(server), what="the end of the old fork server")
    ended = commands.end_of(key)

    assert state.phase is not CommandPhase.UNKNOWN
    if verb == "start":
        assert (ended.state.phase, tally.read_text()) == (CommandPhase.ENDED, "x\n")
    else:
        assert (ended.state.phase, tally.exists()) == (CommandPhase.VOID, False)


def test_a_stop_does_not_wait_for_a_start_that_is_under_way(node: Node, commands: CommandsOf) -> None:
    file = node.root / "never-9"
    commands.start(shell("true"), "9.0.1")
    commands.end_of("9.0.1")
    connection = node.connection()
    with stopped(fork_server_of(node)):
        commands.send_start(connection, shell(f"touch {file}"), "9.1.1")
        wait_until(lambda: records_of(node).path("9.1.1", START).exists(), what="the start record")

        assert commands.stop("9.1.1").phase is CommandPhase.VOID
    reply = connection.getresponse().read()
    connection.close()

    assert b'"void"' in reply
    assert not file.exists()


def test_a_time_out_is_kept_without_the_node_daemon(node: Node, commands: CommandsOf) -> None:
    commands.start(shell("sleep 1000", timeout=0.5), "10.0.1")

    node.kill()
    wait_until((node.paths.node_commands / "10.0.1.end").exists, what="the end of the command")
    node.start()

    outcome = commands.end_of("10.0.1").state.outcome
    assert outcome is not None
    assert (outcome.timed_out, outcome.was_killed) == (True, False)


def test_followers_are_told_the_state_when_their_node_daemon_stops(node: Node, commands: CommandsOf) -> None:
    commands.start(shell("sleep 1000"), "11.0.1")
    connection = node.connection()
    follow = FollowCommand("11.0.1", 0, 0, CommandPhase.RUNNING, 50.0)
    connection.request("POST", f"/{follow.METHOD}", request_body(follow))
    # another call of the same daemon, after the long poll has begun
    commands.phase("11.0.1")

    node.cluster.kill("noded", signal.SIGTERM)
    reply = connection.getresponse().read()
    connection.close()
    node.start()

    assert b'"running"' in reply
    commands.stop("11.0.1")
    commands.end_of("11.0.1")


def test_a_runner_does_not_outlive_an_installation_that_was_removed(node: Node, commands: CommandsOf) -> None:
    file, wait = gate(node, "go-removed")
    commands.start(shell(wait), "40.0.1")
    runner = runner_of(node, "40.0.1")
    folder = node.paths.node_commands
    removed = folder.with_name("commands-removed")

    folder.rename(removed)
    try:
        file.touch()
        wait_until(lambda: has_ended(runner), what="the end of the runner")
    finally:
        removed.rename(folder)

    assert commands.phase("40.0.1") is CommandPhase.LOST


def test_people_are_told_of_commands_that_run_and_go_on(node: Node, commands: CommandsOf) -> None:
    commands.start(shell("sleep 1000"), "12.0.1")

    status = run("gantry", "--root", node.root, "status")
    counted = run("gantry", "--root", node.root, "--output", "json", "status")
    down = run("gantry", "--root", node.root, "down")
    goes_on = running_commands(node.paths.node_commands)
    node.cluster.kill("noded")
    node.start()

    assert "commands of jobs on this node: 1 runs\n" in status.out
    assert json.loads(counted.out)["commands_here"] == 1
    assert (down.code, down.out) == (0, "down\n")
    assert "1 command of jobs goes on here, found again by" in down.err
    assert goes_on == ["12.0.1"]
    commands.stop("12.0.1")
    assert commands.end_of("12.0.1").state.phase is CommandPhase.ENDED
