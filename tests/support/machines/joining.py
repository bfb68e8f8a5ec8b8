"""A master whose door is open, and machines that come to it."""

import time
from pathlib import Path
from typing import Final

from common.nodes.certificates import fingerprint_of, make_cluster_certificate, make_missing, make_request
from common.nodes.joining import JoinTokenFiles, JoinTokenText
from common.objects.config import CONFIG_VERSION
from protocol.noded.clients.joining import MasterDoor
from protocol.noded.joining import Admitted, Join
from tests.support.cluster import Cluster
from tests.support.machines.nodes import HOST, NOW
from tests.support.sockets.ports import free_port

PATIENCE_S: Final = 30.0


class Master:
    """The node daemon of a master, alone; a context manager that leaves no process behind."""

    def __init__(self, root: Path) -> None:
        self.port, self.join_port = free_port(), free_port()
        own = '[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n'
        noded = f'[noded]\naddress = "{HOST}"\nport = {self.port}\njoin_port = {self.join_port}\n'
        self.cluster = Cluster(root, settings=own + noded)
        self.paths = self.cluster.paths
        make_missing(self.paths, "node1.test")
        self.tokens = JoinTokenFiles(self.paths)

    def __enter__(self) -> "Master":
        self.cluster.start("noded")
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def token(self, *, expires_s: float = 3600.0, readd: str = "", age_s: float = 0.0) -> JoinTokenText:
        """Make a token. Args: age_s: how long ago."""
        token, secret = self.tokens.make(expires_s, readd, time.time() - age_s)
        return JoinTokenText(token.id, secret, fingerprint_of(self.paths.server_pem.read_bytes()))

    def door(self, token: JoinTokenText) -> MasterDoor:
        return MasterDoor(HOST, self.join_port, token.fingerprint)

    def admit(self, token: JoinTokenText, call: Join) -> Admitted:
        return self.door(token).ask(call, Admitted, patience_s=PATIENCE_S)


def asking(token: JoinTokenText, **changes: object) -> Join:
    """The request of a new machine, with a key of its own."""
    values = {
        "token_id": token.id,
        "secret": token.secret,
        "request": make_request("node2.test").request.decode(),
        "node_name": "node2.test",
        "address": "127.0.0.2",
        "version": CONFIG_VERSION,
        "now": time.time(),
    }
    return Join(**{**values, **changes})  # type: ignore[arg-type]  # tests also send what is wrong


def stranger() -> bytes:
    """Key and certificate of another cluster."""
    return make_cluster_certificate(NOW)
