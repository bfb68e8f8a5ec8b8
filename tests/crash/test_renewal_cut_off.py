"""A renewal of certificates that dies between any two of its steps locks nobody out, and a second one finishes it.

Source: DESIGN section 13; noded.md 3.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from common.ids import JobId
from common.locks import Owner
from common.nodes.certificates import RenewalFiles, certificates_in, digest_of, has_key, is_signed_by, make_next
from common.opcodes.cluster import OpClusterRenewCrypto
from common.settingsfile import load_settings
from daemons.jobproc.configuration import UnitConfig, Wconfd
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.cluster.renewcrypto import RenewCryptoUnit
from daemons.jobproc.units.renewal import RenewalCalls
from protocol.blocking import BlockingClient
from protocol.noded.call import Failed, FailureKind, NodeAddress, Replied
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.membership import NodeVersion
from tests.support.machines.fleet import Fleet

KILLED = 99
# a slow node had not got the configuration in time: the same is to be repeated
BEHIND = 98


class JobContext:
    """What the unit needs of its job process."""

    def __init__(self, root: Path) -> None:
        self.settings = load_settings(root)
        self._config: UnitConfig | None = None

    @property
    def config(self) -> UnitConfig:
        if self._config is None:
            owner = Owner(JobId(1), "/nowhere")
            self._config = UnitConfig.read(Wconfd(self._connect, owner, lambda _: False, self.forget_config))
        return self._config

    def forget_config(self) -> None:
        self._config = None

    def feedback(self, text: str) -> None:
        pass

    def _connect(self) -> BlockingClient:
        return BlockingClient(self.settings.paths.wconfd_socket)


def renew(root: Path, steps: int | None = None, *, are_theirs: bool = False) -> int:
    """Renew in a process of its own, which dies after so many steps; returns how it ended, 0: it has finished.

    Args: are_theirs: whether the node daemons know no calls of ours, as Ganeti's.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if steps is not None:
                _die_after(steps)
            if are_theirs:
                _forget_our_calls()
            unit = RenewCryptoUnit(OpClusterRenewCrypto(node_certificates=True))
            unit.check_prereq(cast(UnitContext, JobContext(root)))
            unit.run(cast(UnitContext, JobContext(root)))
            code = 0
        except BaseException as error:
            code = BEHIND if "are not yet known to" in str(error) else 1
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die_after(steps: int) -> None:
    """Let this process end when it has made so many changes here, in the configuration, or on nodes."""
    left = steps

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                os._exit(KILLED)
            left -= 1
            return original(*args, **kwargs)

        return call

    patch = pytest.MonkeyPatch()
    for owner, names in (
        (RenewalFiles, ("request", "install", "put_cluster")),
        (UnitConfig, ("update", "redistribute")),
        (RenewalCalls, ("ask",)),
    ):
        for name in names:
            patch.setattr(owner, name, counted(getattr(owner, name)))


def _forget_our_calls() -> None:
    original = RenewalCalls.ask

    def ask(self: RenewalCalls, calls: Any) -> Any:
        theirs = {name: call for name, call in calls.items() if not call.METHOD.startswith("gantry_")}
        unknown = {name: Failed(FailureKind.UNKNOWN, "HTTP 404") for name in calls if name not in theirs}
        return {**original(self, theirs), **unknown}

    pytest.MonkeyPatch().setattr(RenewalCalls, "ask", ask)


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    # a short path, as sockets need
    with Fleet(tmp_path_factory.mktemp("f"), 1) as fleet:
        fleet.start()
        fleet.until_same(*fleet.nodes)
        yield fleet


def _is_obeyed(fleet: Fleet) -> bool:
    """Whether the master's certificate of this moment opens the door of the node."""
    paths, node = fleet.master.paths, fleet.nodes[0]
    port = load_settings(fleet.master.root).noded.port
    client = BlockingNodeClient(CertificateFiles.of(paths))
    outcome = client.call_nodes([NodeAddress(node.name, node.ip, port)], NodeVersion(), 30.0)[node.name]
    return isinstance(outcome, Replied)


@pytest.mark.parametrize("is_cluster", [False, True])
def test_the_master_is_obeyed_after_each_step_and_the_next_renewal_finishes(fleet: Fleet, is_cluster: bool) -> None:
    paths, node = fleet.master.paths, fleet.nodes[0].paths
    before = paths.server_pem.read_bytes()
    if is_cluster:
        make_next(paths)

    steps = 0
    while (code := renew(fleet.master.root, steps)) in (KILLED, BEHIND):
        assert _is_obeyed(fleet), steps
        steps += code == KILLED

    assert code == 0
    assert steps > 10
    assert _is_obeyed(fleet)
    assert not paths.next_server_pem.exists()
    assert not paths.next_key.exists()
    assert not node.next_key.exists()
    after = paths.server_pem.read_bytes()
    assert (after != before) is is_cluster
    assert has_key(after)
    assert certificates_in(after) == certificates_in(node.server_pem.read_bytes())
    assert len(certificates_in(after)) == 1
    for at in (paths, node):
        assert is_signed_by(at.client_pem.read_bytes(), after)
    fleet.until_same(*fleet.nodes)
    lines = paths.ssconf_file("master_candidates_certs").read_text().splitlines()
    digests = {digest_of(at.client_pem.read_bytes()) for at in (paths, node)}
    assert {line.split("=")[1] for line in lines} == digests


def test_a_node_that_is_down_stops_the_renewal_before_anything_is_used(fleet: Fleet) -> None:
    paths = fleet.master.paths
    before = paths.client_pem.read_bytes(), paths.server_pem.read_bytes()
    make_next(paths)
    fleet.nodes[0].kill()

    assert renew(fleet.master.root) == 1
    assert (paths.client_pem.read_bytes(), paths.server_pem.read_bytes()) == before

    fleet.nodes[0].start()
    while (code := renew(fleet.master.root)) == BEHIND:
        pass
    assert code == 0
    assert _is_obeyed(fleet)


def test_a_node_daemon_of_ganeti_makes_its_certificate_itself_and_is_known_by_it(fleet: Fleet) -> None:
    paths, node = fleet.master.paths, fleet.nodes[0].paths
    before = digest_of(node.client_pem.read_bytes())

    while (code := renew(fleet.master.root, are_theirs=True)) == BEHIND:
        pass

    assert code == 0
    own, theirs = digest_of(paths.client_pem.read_bytes()), digest_of(node.client_pem.read_bytes())
    assert theirs != before
    assert _is_obeyed(fleet)
    fleet.until_same(*fleet.nodes)
    lines = paths.ssconf_file("master_candidates_certs").read_text().splitlines()
    assert {line.split("=")[1] for line in lines} == {own, theirs}


def test_a_new_certificate_of_the_cluster_is_refused_where_ganeti_has_nodes(fleet: Fleet) -> None:
    make_next(fleet.master.paths)
    before = fleet.master.paths.server_pem.read_bytes()

    assert renew(fleet.master.root, are_theirs=True) == 1

    assert fleet.master.paths.server_pem.read_bytes() == before
    assert not fleet.master.paths.next_server_pem.exists()
