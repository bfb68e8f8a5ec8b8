"""`gnt-cluster join-token` and `gantry join`: a machine becomes a node by two commands (DESIGN 13, "Joining")."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.nodes.certificates import fingerprint_of, is_signed_by
from tests.cli.command import run
from tests.cli.ownmachines import OwnMachines
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port

NODE2 = ("--node", "node2.test", "--address", "127.0.0.2")


class Machines(OwnMachines):
    """A master that is up, and machines with roots and addresses of their own."""

    def token(self, *words: object) -> list[str]:
        """Make a token; return the words after `gantry` of the command that was printed."""
        made = self.gantry(1, "cluster", "join-token", *words)
        assert made.code == 0, made
        program, *rest = made.out.split()
        assert program == "gantry"
        return rest

    def tokens(self) -> dict[str, dict[str, object]]:
        """The tokens of the master, as its list has them, by id."""
        rows = json.loads(self.gantry(1, "cluster", "join-token", "--list", "--output", "json").out)
        return {row["id"]: row for row in rows}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("machines"))
    try:
        assert machines.gantry(1, "up", "--detach").code == 0
        yield machines
    finally:
        machines.down()


def test_a_machine_gets_certificates_settings_and_a_node_daemon_and_the_cluster_a_job(machines: Machines) -> None:
    joined = machines.gantry(2, *machines.token(), *NODE2)

    lines = [line.split("  ")[0] for line in joined.out.splitlines()]
    assert lines[:4] == ["admitted", "settings", "noded", "taken in"]
    paths, server_pem = machines.paths(2), machines.paths(1).server_pem.read_bytes()
    assert is_signed_by(paths.client_pem.read_bytes(), server_pem)
    assert fingerprint_of(paths.server_pem.read_bytes()) == fingerprint_of(server_pem)
    text = (machines.root(2) / "gantry.toml").read_text()
    assert 'replication = "nodes"' in text
    assert 'address = "127.0.0.2"' in text
    (row,) = [row for row in machines.tokens().values() if row["used_by"] == "node2.test"]
    info = machines.gantry(1, "--output", "json", "job", "info", row["job"])
    assert "OP_NODE_ADD" in info.out
    assert '"primary_ip":"127.0.0.2"' in info.out.replace(" ", "")


def test_a_machine_of_a_cluster_is_refused_until_its_files_may_be_put_aside(machines: Machines) -> None:
    assert machines.gantry(3, "cluster", "init", "--node", "old.test", "before").code == 0
    command = [*machines.token(), "--node", "node3.test", "--address", "127.0.0.3"]
    config = machines.paths(3).config_data.read_bytes()

    refused = machines.gantry(3, *command)
    assert refused.code == 1
    assert "a node of the cluster 'before' already" in refused.err
    assert "--force" in refused.err
    assert machines.paths(3).config_data.read_bytes() == config

    forced = machines.gantry(3, *command, "--force")
    (aside,) = machines.paths(3).data.glob("before-join-*")
    assert (aside / "config.data").read_bytes() == config
    assert "admitted" in forced.out


def test_settings_that_do_not_fit_are_not_touched_and_the_command_goes_on_when_they_do(machines: Machines) -> None:
    file = machines.root(4) / "gantry.toml"
    machines.root(4).mkdir()
    file.write_text("[luxid]\nmax_queued_jobs = 7\n")
    command = machines.token()

    refused = machines.gantry(4, *command, "--node", "node4.test", "--address", "127.0.0.4")
    assert refused.code == 1
    assert 'let it have these lines: [cluster]; replication = "nodes"; node_name = "node4.test"' in refused.err
    assert file.read_text() == "[luxid]\nmax_queued_jobs = 7\n"
    assert not machines.paths(4).client_pem.exists()

    file.write_text(machines.settings.replace("node1", "node4").replace(HOST, "127.0.0.4"))
    assert "admitted" in machines.gantry(4, *command).out


def test_what_is_wrong_with_a_token_is_told_in_words(machines: Machines) -> None:
    _, place, _, token = machines.token()
    slip = token[:20] + ("0" if token[20] != "0" else "1") + token[21:]

    garbled = machines.gantry(5, "join", place, "--token", slip)
    closed = machines.gantry(5, "join", f"{HOST}:{free_port()}", "--token", token)

    assert garbled.code == 2
    assert "not a whole token" in garbled.err
    assert closed.code == 3
    assert "the master is not reached" in closed.err
    assert "Traceback" not in garbled.err + closed.err


def test_tokens_are_listed_without_their_secrets_and_revoked(machines: Machines) -> None:
    *_, token = machines.token("--expires", "10m")
    made = machines.gantry(1, "cluster", "join-token", "--readd", "node7.test", "--output", "json")
    other, own = json.loads(made.out)["id"], token.split("-")[0]

    assert [(machines.tokens()[each]["state"], machines.tokens()[each]["readd"]) for each in (own, other)] == [
        ("valid", None),
        ("valid", "node7.test"),
    ]
    assert token.split("-")[1] not in machines.gantry(1, "cluster", "join-token", "--list").out

    assert machines.gantry(1, "cluster", "join-token", "--revoke", token).code == 0
    assert own not in machines.tokens()
    assert other in machines.tokens()


def test_a_cluster_of_one_machine_makes_no_tokens(tmp_path: Path) -> None:
    run("gnt-cluster", "--root", tmp_path, "init", "--node", "node1.test", "lab")

    made = run("gnt-cluster", "--root", tmp_path, "join-token")

    assert made.code == 1
    assert 'set replication = "nodes"' in made.err
