"""A real node daemon under a folder of its own, with the certificates of a cluster, and callers of any kind.

with Node(tmp_path) as node:          # certificates are made, its caller is a candidate
    node.start()
    node.call("version", [])          # -> [True, 3000000]
"""

import datetime
import http.client
import json
import os
import signal
import ssl
from pathlib import Path
from typing import Any, Final, Self

from common.ids import JobId
from common.nodes.certificates import digest_of, make_cluster_certificate, make_node_certificate, write_certificate
from common.paths import Paths
from tests.support.cluster import Cluster
from tests.support.sockets.ports import free_port
from tests.support.wait import PATIENCE_S

HOST: Final = "127.0.0.1"
NAME: Final = "node2.test"
# settings of a node that runs no more than it needs: ports of these daemons are the same on all nodes
LEAN: Final = '[confd]\nenabled = "no"\n[mond]\nenabled = "no"\n'
# what names of files begin with, see noded.md 7
VIRTUAL: Final = "/###-VIRTUAL-PATH-###,"
NOW: Final = datetime.datetime.now(datetime.UTC)


class Node:
    """One node of a cluster; a context manager that leaves no process behind.

    Args: settings: more of them, as TOML; lines before the first table belong to [noded].
    """

    def __init__(self, root: Path, settings: str = "", *, server_pem: bytes | None = None) -> None:
        self.port = free_port()
        # time that a caller waits for anything
        self.patience_s = PATIENCE_S
        self.root = root
        text = f'{LEAN}[cluster]\nreplication = "nodes"\nnode_name = "{NAME}"\n'
        self.cluster = Cluster(root, settings=f'{text}[noded]\naddress = "{HOST}"\nport = {self.port}\n{settings}')
        self.paths: Paths = self.cluster.paths
        self.server_pem = server_pem or make_cluster_certificate(NOW)
        self.client_pem = make_node_certificate(self.server_pem, NAME, NOW)
        write_certificate(self.paths.server_pem, self.server_pem)
        write_certificate(self.paths.client_pem, self.client_pem)
        self.set_candidates(self.client_pem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def set_candidates(self, *certificates: bytes) -> None:
        """Let the holders of these certificates be master candidates."""
        lines = [f"uuid{number}={digest_of(pem)}\n" for number, pem in enumerate(certificates)]
        file = self.paths.ssconf_file("master_candidates_certs")
        file.unlink(missing_ok=True)
        file.write_text("".join(lines))

    def start(self) -> None:
        self.cluster.start("noded")

    def kill(self) -> None:
        self.cluster.kill("noded", signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self.cluster.daemons["noded"].pid

    def log(self) -> str:
        return self.cluster.log("noded")

    def name(self, path: Path) -> str:
        """The name of a file on the wire."""
        return f"{VIRTUAL}/{path.relative_to(self.root)}"

    def job_name(self, job_id: int) -> str:
        return self.name(self.paths.job_file(JobId(job_id)))

    def connection(self, pem: bytes | None = None) -> http.client.HTTPSConnection:
        """A connection of a caller. Args: pem: its key and certificate; None: the candidate's."""
        context = self.context(pem or self.client_pem)
        return http.client.HTTPSConnection(HOST, self.port, context=context, timeout=self.patience_s)

    def context(self, pem: bytes | None) -> ssl.SSLContext:
        """Args: pem: b"" or None: a caller without a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.paths.server_pem)
        if pem:
            file = self.root / f"caller-{os.urandom(6).hex()}.pem"
            file.write_bytes(pem)
            context.load_cert_chain(file)
            file.unlink()
        return context

    def send(
        self, procedure: str, body: bytes, *, pem: bytes | None = None, epoch: object = None, method: str = "POST"
    ) -> tuple[int, bytes]:
        """One request on a connection of its own; returns status and body."""
        connection = self.connection(pem)
        try:
            headers = {} if epoch is None else {"X-Gantry-Epoch": str(epoch)}
            connection.request(method, f"/{procedure}", body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def call(self, procedure: str, arguments: object, *, pem: bytes | None = None, epoch: object = None) -> Any:
        """Call a procedure; returns `[is_done, payload]`."""
        status, body = self.send(procedure, json.dumps(arguments).encode(), pem=pem, epoch=epoch)
        assert status == 200, (status, body)
        return json.loads(body)
