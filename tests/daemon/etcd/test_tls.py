"""TLS to etcd: both sides prove themselves, and certificates are renewed while clients run.

Source: lease.md 5.
"""

import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trustme

from common.errors import InvalidRequest
from daemons.keeperd.renewing.duties import EtcdMember, NoWholeReply, ask_for_lease
from daemons.keeperd.renewing.orders import ResolvedEndpoint, Setup
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.credentials import TlsContexts
from protocol.etcd.kv import EtcdDenied, EtcdUnknown, Get, Put, Transaction
from tests.support.etcds.etcd import HOST, Etcd, EtcdBinary, EtcdTls
from tests.support.wait import PATIENCE_S

pytestmark = pytest.mark.trio


@attrs.frozen
class Secured:
    etcd: Etcd
    tls: EtcdTls
    folder: Path
    authority: trustme.CA

    def address(self, name: str = "client", *, authority: str = "ca", of: Etcd | None = None) -> EtcdAddress:
        """Of a client with the certificate of this name."""
        address = attrs.evolve((of or self.etcd).address(), ca_file=self.file(f"{authority}.pem"))
        return attrs.evolve(address, cert_file=self.file(f"{name}.pem"), key_file=self.file(f"{name}.key"))

    def file(self, name: str) -> str:
        return str(self.folder / name)


def write(folder: Path, name: str, certificate: trustme.LeafCert) -> None:
    certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    certificate.private_key_pem.write_to_path(folder / f"{name}.key")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    write(folder, "server", authority.issue_cert(HOST))
    write(folder, "client", authority.issue_cert("client.test"))
    write(folder, "named", authority.issue_cert("client.test", common_name="someone"))
    write(folder, "forged", stranger.issue_cert("client.test"))
    tls = EtcdTls(*(str(folder / name) for name in ("ca.pem", "server.pem", "server.key")))
    with Etcd(folder / "etcd", binary=etcd_binary, tls=tls) as etcd:
        yield Secured(etcd, tls, folder, authority)


async def test_keys_and_watches_work_under_tls(secured: Secured) -> None:
    async with EtcdClient(secured.address()) as client:
        revision = (await client.get(Get("k"))).header.revision
        async with client.watch("/a/", revision) as events:
            # more than one record of TLS, both ways
            await client.transact(Transaction([], [Put("/a/1", bytes(500_000))]))
            assert (await anext(events)).pair.value == bytes(500_000)


async def test_a_member_of_another_authority_is_not_trusted(secured: Secured) -> None:
    async with EtcdClient(secured.address(authority="stranger")) as client:
        with pytest.raises(EtcdUnknown, match=r"not trusted.*'ca_file'"):
            await client.get(Get("k"), limit_s=6.0)


async def test_a_client_without_a_certificate_is_refused_in_words_about_it(secured: Secured) -> None:
    async with EtcdClient(attrs.evolve(secured.address(), cert_file="", key_file="")) as client:
        with pytest.raises(EtcdUnknown, match="certificate"):
            await client.get(Get("k"), limit_s=6.0)


async def test_a_client_with_a_strange_certificate_is_refused_in_words_about_it(secured: Secured) -> None:
    async with EtcdClient(secured.address("forged")) as client:
        with pytest.raises(EtcdUnknown, match="certificate"):
            await client.get(Get("k"), limit_s=6.0)


async def test_a_certificate_with_a_name_is_no_user_and_keeps_out_the_user(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pass")
    with Etcd(tmp_path, options=("--bcrypt-cost=4",), binary=secured.etcd.binary, tls=secured.tls) as etcd:
        etcd.ask_for_users("pass")
        nameless = attrs.evolve(secured.address(of=etcd), user="root", password_file=str(tmp_path / "password"))
        named = attrs.evolve(nameless, cert_file=secured.file("named.pem"), key_file=secured.file("named.key"))

        async with EtcdClient(nameless) as client:
            await client.get(Get("k"))
        async with EtcdClient(named) as client:
            with pytest.raises(EtcdDenied, match="CommonName"):
                await client.get(Get("k"))


async def test_a_certificate_that_is_replaced_is_used_without_a_restart(secured: Secured, tmp_path: Path) -> None:
    for suffix in (".pem", ".key"):
        shutil.copyfile(secured.file(f"forged{suffix}"), tmp_path / f"mine{suffix}")
    address = secured.address()
    address = attrs.evolve(address, cert_file=str(tmp_path / "mine.pem"), key_file=str(tmp_path / "mine.key"))

    async with EtcdClient(address) as client:
        with pytest.raises(EtcdUnknown):
            await client.get(Get("k"), limit_s=0.2)
        write(tmp_path, "mine", secured.authority.issue_cert("client.test"))

        await client.get(Get("k"))


async def test_a_lease_is_renewed_with_a_certificate_that_is_replaced(secured: Secured, tmp_path: Path) -> None:
    async with EtcdClient(secured.address()) as client:
        lease = (await client.grant(60)).lease
    for suffix in (".pem", ".key"):
        shutil.copyfile(secured.file(f"forged{suffix}"), tmp_path / f"mine{suffix}")
        # of another tick of the kernel's clock than the one that will take its place
        os.utime(tmp_path / f"mine{suffix}", (1.0, 1.0))
    port = secured.etcd.members[0].port
    place = ResolvedEndpoint(socket.AF_INET, (HOST, port), HOST, port, is_tls=True)
    setup = Setup(
        "unused",
        (place,),
        ca_file=secured.file("ca.pem"),
        cert_file=str(tmp_path / "mine.pem"),
        key_file=str(tmp_path / "mine.key"),
    )
    endpoint = EtcdMember(place, TlsContexts(setup))

    with pytest.raises(NoWholeReply):
        ask_for_lease(endpoint, None, lease, PATIENCE_S)
    write(tmp_path, "mine", secured.authority.issue_cert("client.test"))
    # the first try finds that the certificate of before is refused
    with pytest.raises(NoWholeReply):
        ask_for_lease(endpoint, None, lease, PATIENCE_S)

    assert ask_for_lease(endpoint, None, lease, PATIENCE_S) > 0
    endpoint.close()


async def test_a_certificate_that_cannot_be_read_is_told_at_once(secured: Secured) -> None:
    with pytest.raises(InvalidRequest, match="'ca_file', 'cert_file' and 'key_file'"):
        EtcdClient(secured.address("missing"))


async def test_a_certificate_that_is_replaced_while_it_is_read_first_is_used_when_it_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    write(tmp_path, "mine", authority.issue_cert("client.test"))
    load = TlsContexts._load

    def replaced_meanwhile(contexts: TlsContexts) -> ssl.SSLContext:
        loaded = load(contexts)
        monkeypatch.setattr(TlsContexts, "_load", load)
        write(tmp_path, "mine", authority.issue_cert("client.test"))
        # whatever the ticks of the kernel's clock
        os.utime(tmp_path / "mine.pem", (2**31, 2**31))
        return loaded

    monkeypatch.setattr(TlsContexts, "_load", replaced_meanwhile)
    contexts = TlsContexts(
        Setup("unused", (), cert_file=str(tmp_path / "mine.pem"), key_file=str(tmp_path / "mine.key"))
    )
    first = contexts.current

    contexts.refused()

    assert contexts.current is not first
