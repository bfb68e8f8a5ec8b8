"""The files of a machine that is joining a cluster, from its new key to a complete node.

Theory. Each step is durable before the next, so a command that was killed goes on when it is repeated: the key and the
machine's plan first, in a folder of their own; then what the cluster has signed; at last the folder goes. A machine
that has files of a cluster and no such folder is, or was, a node: nothing of it is overwritten, but all of it can be
put aside.

Source: DESIGN section 13, "Joining".
"""

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.clusterinit import ssconf_writes
from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.folders import sync_folders
from common.durable.moves import remove_files
from common.errors import Conflict, InvalidRequest
from common.nodes.certificates.nodecertificates import PRIVATE_MODE, CertificateRequest, is_signed_by, make_request
from common.paths import Paths
from common.wire import structure, unstructure

_FOLDER_MODE: Final = 0o700
_MODE: Final = 0o600
_PLAN: Final = "plan"
_KEY: Final = "key.pem"
_FORCE: Final = "to put its files aside and join, repeat the command with --force"


@attrs.frozen
class JoiningPlan:
    """What the machine is about to become."""

    token_id: str
    node_name: str


class JoiningFiles:
    """The files of one machine. Raises, all: OSError."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._folder = paths.joining

    def plan(self) -> JoiningPlan | None:
        """What an earlier command has begun and not finished; None: nothing, or it cannot be read."""
        try:
            return structure(orjson.loads((self._folder / _PLAN).read_bytes()), JoiningPlan, "plan")
        except (FileNotFoundError, InvalidRequest, orjson.JSONDecodeError):
            return None

    def refuse_member(self) -> None:
        """Raises: Conflict: this machine is, or was, a node."""
        cluster = self._paths.ssconf_file("cluster_name")
        for path in (self._paths.config_data, cluster, self._paths.server_pem, self._paths.client_pem):
            if path.exists():
                name = cluster.read_text("utf-8", "replace").strip() if cluster.exists() else ""
                known = f"of the cluster '{name}' " if name else ""
                raise Conflict(f"this machine is, or was, a node {known}already: there is '{path}'; {_FORCE}")

    def put_aside(self) -> Path | None:
        """Move all files of the installation's data into a new folder there; return it, or None: there were none.

        Durability: on return they survive a loss of power in their new place.
        """
        entries = [entry for entry in self._paths.data.iterdir() if not entry.name.startswith("before-join-")]
        if not any(entry.is_file() for entry in entries):
            return None
        target = self._paths.data / f"before-join-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        target.mkdir(_FOLDER_MODE)
        for entry in entries:
            os.rename(entry, target / entry.name)
        durably(lambda: sync_folders([target, self._paths.data]))
        return target

    def begin(self, plan: JoiningPlan) -> CertificateRequest:
        """Note the plan, and make the key, unless it was made before; return it with the request to sign it.

        Durability: on return both survive a loss of power.
        """
        self._folder.mkdir(_FOLDER_MODE, exist_ok=True)
        key = self._key()
        made = make_request(plan.node_name, key)
        content = orjson.dumps(unstructure(plan))
        writes = [FileWrite(self._folder / _PLAN, content, _MODE)]
        if key is None:
            writes.append(FileWrite(self._folder / _KEY, made.key, _MODE))
        durably(lambda: write_files(writes))
        durably(lambda: sync_folders([self._paths.data]))
        return made

    def install(self, certificate: str, cluster_certificate: str, ssconf: Mapping[str, str]) -> None:
        """Write what the cluster has given, if an earlier command has not: the node may have got newer files since.

        Raises: InvalidRequest: the certificate is not signed by the cluster, or a value of ssconf is none.
        Durability: on return it survives a loss of power.
        """
        key = self._key()
        if key is None or not is_signed_by(certificate.encode(), cluster_certificate.encode()):
            raise InvalidRequest("the master has sent a certificate that its cluster has not signed; nothing was kept")
        if any(not name.replace("-", "").replace("_", "").isalnum() for name in ssconf):
            raise InvalidRequest("the master has sent a name that no value of ssconf has; nothing was kept")
        if self._has(key + certificate.encode()):
            return
        writes = [
            *ssconf_writes(self._paths, {name: text.encode() for name, text in ssconf.items()}),
            FileWrite(self._paths.server_pem, cluster_certificate.encode(), PRIVATE_MODE),
            FileWrite(self._paths.client_pem, key + certificate.encode(), PRIVATE_MODE),
        ]
        durably(lambda: write_files(self._owned(writes)))

    @property
    def certificate(self) -> Path:
        """The file of this node's key and certificate."""
        return self._paths.client_pem

    def finish(self) -> None:
        """The machine is a node: remove what only the way to it needed."""
        # the plan first: without it a command begins anew
        durably(lambda: remove_files([self._folder / _PLAN]))
        shutil.rmtree(self._folder, ignore_errors=True)
        durably(lambda: sync_folders([self._paths.data]))

    def _owned(self, writes: list[FileWrite]) -> list[FileWrite]:
        """The writes, for the owner of the data: root may run this, and another user the daemons."""
        status = self._paths.data.stat()
        owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else None
        return [attrs.evolve(write, owner=owner) for write in writes]

    def _has(self, client_pem: bytes) -> bool:
        """Whether the node's certificate is in place, which comes last."""
        return self.certificate.exists() and self.certificate.read_bytes() == client_pem

    def _key(self) -> bytes | None:
        try:
            return (self._folder / _KEY).read_bytes()
        except FileNotFoundError:
            return None
