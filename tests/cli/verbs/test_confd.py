"""`gnt-debug confd`: questions by their names, and what comes out."""

import json
from collections.abc import Callable, Iterator

import pytest

from cli.debug.main import group
from cli.program import exit_code
from tests.cli.command import Ended
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.sockets.ports import free_port


@pytest.fixture(scope="module")
def confd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfdCluster]:
    with ConfdCluster(tmp_path_factory.mktemp("confd")) as made:
        for name, content in (
            ("master_candidates_ips", f"{made.peer.host}\n"),
            ("node_primary_ips", f"node1.test {made.peer.host}\n"),
        ):
            made.put(made.paths.ssconf_file(name), content.encode())
        made.start()
        yield made


Ask = Callable[..., Ended]


@pytest.fixture
def ask(confd: ConfdCluster, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the verb in this process: there are many questions."""

    def ask(*words: str) -> Ended:
        code = exit_code(group, "gnt-debug", ["--root", str(confd.cluster.root), "confd", *words])
        return Ended(code, *capsys.readouterr())

    return ask


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("ping",), ["3000000"]),
        (("node-role", "node2"), ["offline"]),
        (("master",), ["node1.test"]),
        (("master", "node-ip", "name"), ["192.0.2.1", "node1.test"]),
        (("node-by-ip", "198.51.100.1"), ["192.0.2.1"]),
        (("--link", "br7", "node-by-ip", "198.51.100.2"), ["192.0.2.1"]),
        (("node-ips",), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        (("config", "/cluster/serial_no"), ["7"]),
        (
            ("node-drbd", "node1"),
            [
                "NODE        MINOR  INSTANCE  DISK    ROLE     PEER",
                "node1.test      0  web.test  disk/1  primary  node2.test",
            ],
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_an_answer_is_shown_alone(ask: Ask, words: tuple[str, ...], lines: list[str]) -> None:
    assert ask(*words) == Ended(0, "".join(f"{line}\n" for line in lines), "")


def test_each_reply_is_shown_of_those_that_are_named(confd: ConfdCluster, ask: Ask) -> None:
    nowhere = f"127.0.0.1:{free_port()}"

    shown = ask("--node", "node1", "--peer", nowhere, "--timeout", "4", "node-role", "node3")

    assert shown.code == 0
    assert shown.out.splitlines()[0].split() == ["PEER", "STATUS", "SERIAL", "ANSWER"]
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        [str(confd.peer), "ok", "7", "drained"],
        [nowhere, "silent", "-", "-"],
    ]


def test_json_has_the_best_reply_and_all_others(confd: ConfdCluster, ask: Ask) -> None:
    told = json.loads(ask("--all", "--output", "json", "master").out)

    best = {"status": "ok", "answer": "node1.test", "serial": 7}
    assert told == {**best, "consistent": True, "replies": {str(confd.peer): best}, "silent": []}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("node-role", "nosuch"), 1, "Node name nosuch not found"),
        (("config", "nosuch"), 1, "the argument is not one of this question"),
        (("--peer", "127.0.0.1:1", "--timeout", "0.2", "ping"), 3, "no confd has replied: 127.0.0.1:1"),
        (("nosuch",), 2, "queries are ping, node-role"),
        (("node-role",), 2, "write: node-role NODE"),
        (("master", "size"), 2, "fields are name, ip, node-ip"),
        (("--node", "node9", "ping"), 1, "there is no node 'node9'"),
        (("--peer", "a:b:c:d", "ping"), 3, "cannot be resolved"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_answered_is_told(ask: Ask, words: tuple[str, ...], code: int, text: str) -> None:
    refused = ask(*words)

    assert refused.code == code
    assert text in refused.err


def test_without_a_query_all_are_listed(ask: Ask) -> None:
    listed = ask()

    assert listed.code == 0
    assert len(listed.out.splitlines()) == 13
