"""Running confds, and what asks them.

with ConfdCluster(tmp_path) as confd:     # the recorded key, and a configuration with all that can be asked
    confd.start()
"""

from pathlib import Path
from typing import Any, Self

import orjson

from common.durable.atomicfile import FileWrite, write_files
from protocol.confd.gathering import ConfdPeer
from tests.support.cluster import Cluster
from tests.support.machines.confds import KEY, rich_document
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port


class ConfdCluster:
    """A candidate; a context manager that leaves no process behind. Args: port: 0: a free one."""

    def __init__(self, root: Path, host: str = HOST, port: int = 0) -> None:
        self.peer = ConfdPeer(host, port or free_port(host))
        self.cluster = Cluster(root, settings=f'[confd]\naddress = "{host}"\nport = {self.peer.port}\n')
        self.paths = self.cluster.paths
        self.document: dict[str, Any] = rich_document()
        self.write_key(KEY)
        self.write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def start(self) -> None:
        self.cluster.start("confd")

    def write(self) -> None:
        """Replace the configuration by `document`."""
        self.put(self.paths.config_data, orjson.dumps(self.document))

    def write_key(self, key: bytes) -> None:
        self.put(self.paths.hmac_key, key)

    def put(self, path: Path, content: bytes) -> None:
        write_files([FileWrite(path, content, 0o640)])
