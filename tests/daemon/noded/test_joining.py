"""The door of the master for machines that join (DESIGN 13, "Joining")."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import Denied, RemoteError, Unavailable
from common.nodes.certificates import digest_of, is_signed_by, make_next, make_request, write_certificate
from common.nodes.joining import JoinTokenFiles, JoinTokenText
from common.paths import Paths
from protocol.noded.clients.joining import MasterDoor
from protocol.noded.joining import Admitted, AskNews, JoinProgress, Ready, TakingIn, to_body
from tests.support.machines.joining import PATIENCE_S, Master, asking, stranger
from tests.support.machines.nodes import HOST, NAME
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with Master(tmp_path_factory.mktemp("master")) as master:
        yield master


def test_the_cluster_signs_the_key_of_a_machine_with_a_token(master: Master) -> None:
    token = master.token()

    admitted = master.admit(token, asking(token))

    server_pem = master.paths.server_pem.read_bytes()
    assert is_signed_by(admitted.certificate.encode(), server_pem)
    assert admitted.port == master.port
    assert admitted.cluster_name == "cluster.test"
    assert admitted.ssconf["master_node"] == "node1.test\n"
    assert digest_of(admitted.cluster_certificate.encode()) == digest_of(server_pem)
    assert "PRIVATE" not in admitted.cluster_certificate


def test_another_machine_cannot_use_a_token_again_and_the_same_one_gets_the_same_certificate(master: Master) -> None:
    token = master.token()
    first = asking(token)
    admitted = master.admit(token, first)

    assert master.admit(token, first) == admitted
    with pytest.raises(RemoteError, match=f"used already, by the machine '{NAME}'") as refused:
        master.admit(token, asking(token, node_name="node3.test", address="127.0.0.3"))
    assert refused.value.code == "denied"


def test_an_expired_token_is_refused_and_so_is_a_revoked_one(master: Master) -> None:
    opener, expired, revoked = master.token(), master.token(expires_s=60, age_s=100), master.token()
    master.tokens.revoke(revoked.id)

    with pytest.raises(RemoteError, match=r"has expired, [4-9]\d s ago"):
        master.admit(expired, asking(expired))
    with pytest.raises(RemoteError, match="no such token"):
        master.admit(revoked, asking(revoked))
    assert master.admit(opener, asking(opener))


def test_a_wrong_secret_binds_nothing_and_is_counted(master: Master) -> None:
    token = master.token()

    with pytest.raises(RemoteError, match="no such token"):
        master.admit(token, asking(token, secret="0" * 32))
    with pytest.raises(RemoteError, match="no such token"):
        master.admit(token, asking(token, token_id="../../../etc"))

    found = master.tokens.find(token.id)
    assert found is not None
    assert found.use is None
    assert "join.wrong_token" in master.cluster.log("noded")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_name": "../../etc/passwd"}, "no node can be named"),
        ({"node_name": "node2\nnode9 1.2.3.4"}, "no node can be named"),
        ({"node_name": "node1.test"}, "has a node 'node1.test' already"),
        ({"address": "127.0.0.1", "node_name": "node7.test"}, "has the address 127.0.0.1 already"),
        ({"address": "all"}, "no IP address"),
        ({"now": 1.0}, "the clocks of this machine and of the master differ"),
        ({"version": 2_000_000}, "install the same release"),
        ({"request": "nothing"}, "cannot be read"),
    ],
)
def test_a_machine_that_does_not_fit_is_told_why_and_keeps_its_token(
    master: Master, change: dict[str, object], words: str
) -> None:
    token = master.token()

    with pytest.raises(RemoteError, match=words):
        master.admit(token, asking(token, **change))

    found = master.tokens.find(token.id)
    assert found is not None
    assert found.use is None


def test_only_a_token_for_it_lets_a_node_of_the_cluster_come_back(tmp_path: Path) -> None:
    with Master(tmp_path) as master:
        addresses = master.paths.ssconf_file("node_primary_ips")
        addresses.unlink()
        addresses.write_text("node1.test 127.0.0.1\nnode2.test 127.0.0.2\n")
        plain, own = master.token(), master.token(readd=NAME)

        with pytest.raises(RemoteError, match=f"join-token --readd {NAME}"):
            master.admit(plain, asking(plain))
        with pytest.raises(RemoteError, match=f"is for the node '{NAME}'"):
            master.admit(own, asking(own, node_name="node3.test"))
        assert master.admit(own, asking(own))


def test_a_machine_that_sees_another_certificate_says_nothing(tmp_path: Path, master: Master) -> None:
    token = master.token()
    pem = tmp_path / "other.pem"
    write_certificate(pem, stranger())
    heard: list[bytes] = []
    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=_listen, args=(listener, pem, heard))
        thread.start()
        door = MasterDoor(HOST, listener.getsockname()[1], token.fingerprint)

        with pytest.raises(Denied, match="another certificate than the token names"):
            door.ask(asking(token), Admitted)
        thread.join(PATIENCE_S)

    assert heard == [b""]


def _listen(listener: socket.socket, pem: Path, heard: list[bytes]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    sock, _ = listener.accept()
    with sock, context.wrap_socket(sock, server_side=True) as tls:
        try:
            heard.append(tls.recv(10_000))
        except OSError:
            heard.append(b"")


def test_the_steps_after_the_first_need_the_certificate_of_the_first(tmp_path: Path, master: Master) -> None:
    token, other = master.token(), master.token()
    master.admit(token, asking(token))
    foreign = tmp_path / "other.pem"
    foreign.write_bytes(_machine(master, other))
    door = master.door(token)

    for call, kind in ((Ready(token.id), TakingIn), (AskNews(token.id), JoinProgress)):
        with pytest.raises(RemoteError, match="no such token"):
            door.ask(call, kind)
        with pytest.raises(RemoteError, match="no such token"):
            door.ask(call, kind, certificate=foreign)


def _machine(master: Master, token: JoinTokenText) -> bytes:
    """Key and certificate of a machine that was admitted with this token."""
    made = make_request("node5.test")
    call = asking(token, node_name="node5.test", address="127.0.0.5", request=made.request.decode())
    return made.key + master.admit(token, call).certificate.encode()


def test_a_body_of_eleven_mebibytes_is_refused_and_nothing_is_written(master: Master) -> None:
    token = master.token()
    master.door(token).reach(PATIENCE_S)
    before = _names(master.paths.data)

    with pytest.raises((RemoteError, Unavailable)) as refused:
        master.admit(token, asking(token, request="x" * (11 * 2**20)))

    assert "65536 bytes" in str(refused.value) or "connection" in str(refused.value)
    assert _names(master.paths.data) == before
    assert master.admit(token, asking(token))


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"token_id": 7}', to_body({"error": 1})])
def test_what_is_no_request_gets_an_error_in_words(master: Master, body: bytes) -> None:
    token = master.token()

    with master.door(token)._connected(None, PATIENCE_S) as sock:
        sock.sendall(b"POST /join HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        sock.sendall(body)
        reply = b"".join(iter(lambda: sock.recv(10_000), b""))

    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"invalid"' in reply


def test_the_port_is_open_only_while_a_token_can_be_used(tmp_path: Path) -> None:
    with Master(tmp_path) as master:
        assert not _listens(master)
        token = master.token()
        wait_until(lambda: _listens(master), what="the port is open")
        master.tokens.revoke(token.id)
        wait_until(lambda: not _listens(master), what="the port is closed")
        again = master.token()
        assert master.admit(again, asking(again))


def test_a_folder_of_tokens_that_is_taken_away_closes_the_port_until_the_next_token(
    tmp_path: Path,
) -> None:
    with Master(tmp_path) as master:
        master.token()
        wait_until(lambda: _listens(master), what="the port is open")

        shutil.rmtree(master.paths.join_tokens)
        wait_until(lambda: not _listens(master), what="the port is closed")
        token = master.token()

        assert master.admit(token, asking(token))


def _listens(master: Master) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((HOST, master.join_port)).close()
        return True
    return False


def test_a_reply_that_is_lost_with_its_daemon_is_given_again(tmp_path: Path) -> None:
    with Master(tmp_path) as master:
        token = master.token()
        call = asking(token)
        body = to_body(call)
        with master.door(token)._connected(None, PATIENCE_S) as sock:
            sock.sendall(b"POST /join HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            wait_until(lambda: _use(master, token.id) is not None, what="the token is used")
            master.cluster.kill("noded", signal.SIGKILL)
        master.cluster.start("noded")

        admitted = master.admit(token, call)

        assert admitted.certificate == getattr(_use(master, token.id), "certificate", None)


def _use(master: Master, token_id: str) -> object:
    token = master.tokens.find(token_id)
    return token.use if token else None


def test_a_node_that_is_not_the_master_lets_nobody_in(tmp_path: Path) -> None:
    with Master(tmp_path) as master:
        file = master.paths.ssconf_file("master_node")
        file.unlink()
        file.write_text("node9.test\n")
        token = master.token()

        with pytest.raises(RemoteError, match=r"not the master, that is 'node9\.test'"):
            master.admit(token, asking(token))


def test_nobody_is_let_in_while_the_certificate_of_the_cluster_is_renewed(tmp_path: Path) -> None:
    with Master(tmp_path) as master:
        token = master.token()
        make_next(master.paths)

        with pytest.raises(RemoteError, match="is being renewed") as refused:
            master.admit(token, asking(token))

        assert refused.value.code == "unavailable"
        master.paths.next_server_pem.unlink()
        assert master.admit(token, asking(token))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_owns_nothing_cannot_make_a_token() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        paths = Paths.under_root(Path(folder))
        paths.make_folders()
        paths.data.chmod(0o777)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                JoinTokenFiles(paths).make(60.0, "", 0.0)
            except Denied as error:
                code = 42 if "only root and the owner" in error.message else 2
            finally:
                os._exit(code)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        assert not paths.join_tokens.exists()
