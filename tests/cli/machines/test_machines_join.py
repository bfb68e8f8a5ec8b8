"""Three machines become one cluster by two commands each, and one comes back after it has missed a renewal.

Source: DESIGN section 13, "Joining".
"""

import datetime
import os
import signal
from collections.abc import Iterator

import pytest

from common.nodes.certificates import VALIDITY, certificates_in, has_key, make_request, sign_request, write_certificate
from common.system.running import find_daemon
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryNodes
from tests.cli.command import Background, Ended, run
from tests.cli.ownmachines import OwnMachines
from tests.support.machines.nodes import NOW
from tests.support.wait import wait_until


class Machines(OwnMachines):
    """A master that is up, and machines with roots and addresses of their own."""

    def command(self, number: int, *words: object) -> list[str]:
        """The command with which this machine joins, without its program."""
        made = self.gantry(1, "cluster", "join-token", *words)
        assert made.code == 0, made
        own = [] if words else ["--node", f"node{number}.test"]
        return [*made.out.split()[1:], *own, "--address", f"127.0.0.{number}"]

    def join(self, number: int, *words: object) -> None:
        joined = self.gantry(number, *self.command(number, *words))
        assert joined.code == 0, joined

    def roles(self) -> dict[str, str]:
        with BlockingClient(self.paths(1).query_socket) as client:
            return {str(name): str(role) for name, role in client.call_retrying(QueryNodes((), ("name", "role")))}

    def submit_and_wait(self, **op: object) -> None:
        with BlockingClient(self.paths(1).query_socket) as client:
            job_id = client.call(SubmitJob((op,)))
        ended = self.gantry(1, "job", "wait", job_id)
        assert ended.code == 0, ended

    def until_same(self, *numbers: int) -> None:
        """Wait until these nodes have the master's config.data, byte for byte."""

        def contents() -> list[bytes]:
            return [path.read_bytes() if (path := self.paths(n).config_data).exists() else b"" for n in (1, *numbers)]

        wait_until(lambda: len(set(contents())) == 1, what="config.data is the same on all candidates")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """One master for all tests; each has machines of its own."""
    machines = Machines(tmp_path_factory.mktemp("machines"))
    try:
        assert machines.gantry(1, "up", "--detach").code == 0
        yield machines
    finally:
        machines.down()


def test_a_command_that_was_killed_is_repeated_and_the_cluster_has_three_candidates(machines: Machines) -> None:
    machines.join(2)
    command = machines.command(3)
    death = "import os; from cli.gantry import join; join._start_daemons = lambda *_: os.kill(os.getpid(), 9)"
    killed = run("gantry", "--root", machines.root(3), *command, prelude=death)
    assert (killed.code, killed.out.split()[0]) == (-signal.SIGKILL, "admitted"), killed
    assert machines.paths(3).joining.exists()

    repeated = machines.gantry(3, *command)

    assert repeated.code == 0, repeated
    assert repeated.out.splitlines()[-1] == "joined      'node3.test' is a node of the cluster 'gantry'"
    assert not machines.paths(3).joining.exists()
    assert list(machines.roles().items())[:3] == [("node1.test", "M"), ("node2.test", "C"), ("node3.test", "C")]
    machines.until_same(2, 3)
    assert all(has_key(machines.paths(number).server_pem.read_bytes()) for number in (1, 2, 3))
    # what only redist-conf would send otherwise
    assert len({machines.paths(number).hmac_key.read_bytes() for number in (1, 2, 3)}) == 1
    again = machines.gantry(3, *command)
    assert again.code == 1
    assert "a node of the cluster 'gantry' already" in again.err


def test_a_node_that_has_missed_a_renewal_comes_back_with_a_token_of_its_own(machines: Machines) -> None:
    machines.join(4)
    before = machines.paths(1).server_pem.read_bytes()
    assert machines.gantry(4, "down").code == 0
    refused = machines.gantry(1, "cluster", "renew-crypto", "--new-cluster-certificate", "--wait")
    assert refused.code == 1
    assert "gnt-node modify --offline=yes NODE" in refused.out + refused.err
    assert machines.paths(1).server_pem.read_bytes() == before

    def verify() -> Ended:
        return machines.gantry(1, "cluster", "verify")

    machines.submit_and_wait(OP_ID="OP_NODE_SET_PARAMS", node_name="node4.test", offline=True, force=True)
    renewed = machines.gantry(1, "cluster", "renew-crypto", "--wait")
    assert renewed.code == 0, renewed
    after = certificates_in(machines.paths(1).server_pem.read_bytes())
    assert after != certificates_in(before)
    # a node that was slow meanwhile is left alone for a moment, which is told
    wait_until(lambda: verify().code == 0, what="all to be well", state=verify)

    machines.join(4, "--readd", "node4.test")

    assert machines.roles()["node4.test"] == "C"
    assert certificates_in(machines.paths(4).server_pem.read_bytes()) == after
    machines.until_same(4)


def test_verify_tells_of_certificates_that_end_soon_here_and_on_nodes(machines: Machines) -> None:
    machines.join(5)
    server_pem, good = machines.paths(1).server_pem.read_bytes(), machines.paths(5).client_pem.read_bytes()
    almost_over = NOW - VALIDITY + datetime.timedelta(days=7)
    request = make_request("node5.test", good)
    old = sign_request(server_pem, request.request, "node5.test", almost_over)
    write_certificate(machines.paths(5).client_pem, request.key + old)

    verified = machines.gantry(1, "cluster", "verify")
    # for the tests after it, whichever they are
    write_certificate(machines.paths(5).client_pem, good)

    assert verified.code == 1
    (line,) = [line for line in verified.out.splitlines() if line.startswith("certificates")]
    assert "node 'node5.test'" in line
    assert "expires at" in line
    assert "gnt-cluster renew-crypto --new-node-certificates" in line


def test_a_machine_that_was_removed_joins_again(machines: Machines) -> None:
    machines.join(6)
    machines.submit_and_wait(OP_ID="OP_NODE_REMOVE", node_name="node6.test")
    # in any order, and last
    certificates = (machines.paths(6).client_pem, machines.paths(6).server_pem)
    wait_until(lambda: not any(path.exists() for path in certificates), what="node6 has left")

    machines.join(6)

    assert machines.roles()["node6.test"] == "C"
    machines.until_same(6)


@pytest.mark.parametrize(("daemon", "number"), [("noded", 7), ("luxid", 8)])
def test_a_machine_waits_on_when_a_daemon_of_the_master_is_killed(machines: Machines, daemon: str, number: int) -> None:
    with Background("gantry", "--root", machines.root(number), *machines.command(number)) as joining:
        while not (line := joining.read_line()).startswith("taken in"):
            assert line, joining.end()
        running = find_daemon(machines.paths(1), daemon)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)

        ended = joining.end()

    assert ended.code == 0, ended
    assert machines.roles()[f"node{number}.test"] == "C"
