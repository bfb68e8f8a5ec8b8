"""A real cluster with rapid, and HTTP clients for it.

with Web(tmp_path) as web:            # a one-node cluster; starts nothing
    web.start()                       # wconfd, forkserver, luxid, rapid
    web.local.get("/3/health").json() # over the Unix socket, as the user of the test, who may do everything
    web.remote(auth=("jack", "abc123")).get("/2/jobs")

A reply with a status that the OpenAPI document does not tell of is an error.
"""

import ssl
from pathlib import Path
from typing import Final, Self

import httpx2

from common.paths import Paths
from tests.support.cluster import Cluster
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import PATIENCE_S
from tests.support.web.jsonschemas import document_of_calls

DAEMONS: Final = ("wconfd", "forkserver", "luxid", "rapid")


class Web:
    """A cluster with rapid; a context manager that leaves no process behind.

    Args: settings: more of them, as TOML; lines before the first table belong to [rapid]. port: None: a free one.
    """

    def __init__(
        self, root: Path, settings: str = "", *, descriptors: int | None = None, port: int | None = None
    ) -> None:
        self.port: Final = port or free_port()
        self._head = f'[rapid]\nenabled = true\naddress = "{HOST}"\nport = {self.port}\n'
        self.cluster: Final = Cluster(root, settings=self._head + settings, descriptors=descriptors)
        self.paths: Final[Paths] = self.cluster.paths
        self._clients: list[httpx2.Client] = []
        self._local: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self.cluster.stop()

    def configure(self, settings: str) -> None:
        """Write the settings file, for the daemons that are started from now on. Args: settings: as of the class."""
        self.cluster.configure(self._head + settings)

    def put_users(self, lines: str) -> None:
        """Let these users call, and nobody else. Args: lines: as of Ganeti's users file."""
        self.paths.rapi_users.parent.mkdir(parents=True, exist_ok=True)
        self.paths.rapi_users.write_text(lines)

    def start(self, *names: str) -> None:
        """Start daemons, without names all that a job needs, and rapid."""
        self.cluster.start(*(names or DAEMONS))

    @property
    def pid(self) -> int:
        """The process of rapid."""
        return self.cluster.daemons["rapid"].pid

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    def log(self) -> str:
        return self.cluster.log("rapid")

    @property
    def local(self) -> httpx2.Client:
        """A client over the Unix socket."""
        if self._local is None:
            transport = httpx2.HTTPTransport(uds=str(self.paths.rapid_socket))
            self._local = self._keep(httpx2.Client(transport=transport, base_url="http://rapid", timeout=PATIENCE_S))
        return self._local

    def remote(self, auth: tuple[str, str] | None = None, token: str | None = None) -> httpx2.Client:
        """A new client over the network, which trusts the certificate of rapid only.

        Args: auth: user and password. token: instead of them.
        """
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self._keep(
            httpx2.Client(base_url=self.url, auth=auth, headers=headers, verify=self.tls(), timeout=PATIENCE_S)
        )

    def tls(self) -> ssl.SSLContext:
        """The context of a client that trusts the certificate of rapid only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.paths.rapi_pem)
        return context

    def _keep(self, client: httpx2.Client) -> httpx2.Client:
        client.event_hooks = {"response": [document_of_calls().check_status]}
        self._clients.append(client)
        return client
