"""`gantry up` and `status` with confd and mond, and `gnt-debug mond`."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.debug.main import group
from cli.program import exit_code
from common.settingsfile import load_settings
from tests.cli.command import Ended, run
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One machine with both daemons; those of the queue are not needed here, and are there."""
    root = tmp_path_factory.mktemp("node")
    # mond has no address of its own
    tables = [("confd", f'address = "{HOST}"\n', free_port()), ("mond", "", free_port())]
    lines = [f'[{name}]\nenabled = "yes"\n{address}port = {port}\n' for name, address, port in tables]
    (root / "gantry.toml").write_text(f'[cluster]\nnode_name = "node1.test"\n{"".join(lines)}')
    started = run("gantry", "--root", root, "up", "--detach")
    assert started.code == 0, started
    yield root
    run("gantry", "--root", root, "down")


def debug(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    code = exit_code(group, "gnt-debug", ["--root", str(root), *words])
    return Ended(code, *capsys.readouterr())


def test_both_run_and_are_told(root: Path) -> None:
    status = json.loads(run("gantry", "--root", root, "status", "--output", "json").out)

    assert {name: each["state"] for name, each in status["daemons"].items()} == dict.fromkeys(
        ["wconfd", "forkserver", "luxid", "confd", "mond"], "ready"
    )


def test_a_new_cluster_has_a_key_and_its_confd_answers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert debug(root, capsys, "confd", "master") == Ended(0, "node1.test\n", "")


def test_collectors_of_this_node_are_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> list[list[str]]:
        return [line.split() for line in debug(root, capsys, "mond").out.splitlines()]

    # a slow collector has its first report later
    wanted = {"memory", "lag", "node-role"}
    wait_until(lambda: wanted <= {row[0] for row in rows()}, what="the first reports", state=rows)
    assert rows()[0] == ["COLLECTOR", "CATEGORY", "AT", "STATUS", "MESSAGE"]


def test_only_this_machine_can_ask_where_the_settings_say_nothing(root: Path) -> None:
    port = load_settings(root).mond.port

    socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port))


def test_a_collector_is_shown_whole_of_a_node_by_its_name(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = debug(root, capsys, "mond", "node1", "node-facts")
    told = json.loads(debug(root, capsys, "mond", "node1", "node-role", "--output", "json").out)

    assert shown.code == 0
    assert json.loads(shown.out)["node"] == "node1.test"
    assert [(each["name"], each["category"], each["data"]["role"]) for each in told] == [
        ("node-role", "daemon", "master")
    ]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("node9",), 1, "there is no node 'node9'"),
        (("node1", "nosuch"), 1, "no collector 'nosuch' is active there"),
    ],
)
def test_what_is_not_there_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, text: str
) -> None:
    refused = debug(root, capsys, "mond", *words)

    assert refused.code == code
    assert text in refused.err
