"""This node as a member of the cluster: its certificate and new ones, demotion, leaving.

Source: noded.md 6; DESIGN section 13.
"""

import datetime
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from common.daemons import MASTER_DAEMONS
from common.durable.atomicfile import remove_files
from common.durable.durably import durably
from common.errors import Conflict, InvalidRequest
from common.nodes.certificates import RenewalFiles, digest_of, has_key, make_node_certificate, write_certificate
from common.nodes.nodeplace import master_name
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.running import find_daemon
from daemons.noded.files.places import owner_of_files_in, put_file
from daemons.noded.files.queuefiles import QueueFileCopies
from protocol.noded.membership import (
    CryptoToken,
    InstallCertificate,
    NodeCryptoTokens,
    NodeDemoteFromMc,
    NodeEnsureDaemon,
    NodeLeaveCluster,
    PutClusterCertificate,
    RequestCertificate,
    TokenRequest,
)

_TOKEN_TYPES: Final = ("ssl", "ssl_digest")
_BACKUP_MODE: Final = 0o600
_LEFT: Final = "this node has left the cluster; its node daemon ends"
_log: Final = get_log(__name__)


class MembershipHandlers:
    """The node and its cluster.

    Args:
        own_name: the name of this node.
        end: ends this daemon, after its replies.
        leave_commands: removes what is kept of commands. Raises: Conflict: one may run.
    Raises, of certificates: Conflict, InvalidRequest: the certificate does not fit this node. DamagedFile. OSError.
    """

    def __init__(
        self,
        paths: Paths,
        queue: QueueFileCopies,
        own_name: str,
        end: Callable[[], None],
        leave_commands: Callable[[], Awaitable[None]],
    ) -> None:
        self._paths = paths
        self._queue = queue
        self._own_name = own_name
        self._end = end
        self._leave_commands = leave_commands

    async def demote(self, _: NodeDemoteFromMc) -> None:
        """Put config.data aside; the queue stays. Raises: Conflict: this node is the master. OSError."""
        await in_thread(self._demote)

    async def leave_cluster(self, _: NodeLeaveCluster) -> str:
        """Remove the files of the cluster, jobs and what lies beside them included, and end.

        Raises: Conflict: this node is the master, or a command may run here. OSError: some are left; the call can be
            repeated.
        """
        await in_thread(self._refuse_master)
        await self._leave_commands()
        await self._queue.purge()
        await in_thread(self._remove_files)
        # without certificates no caller is obeyed any more, but one that was heard before may have brought a job
        await self._queue.purge()
        _log.info("cluster.left")
        self._end()
        return _LEFT

    async def crypto_tokens(self, call: NodeCryptoTokens) -> tuple[CryptoToken, ...]:
        """Digests of this node's certificate, some after it was made anew. Raises: InvalidRequest, OSError."""
        return await in_thread(lambda: tuple(self._token(request) for request in call.token_request))

    async def request_certificate(self, _: RequestCertificate) -> str:
        return await in_thread(lambda: self._renewal().request())

    async def install_certificate(self, call: InstallCertificate) -> None:
        await in_thread(lambda: self._renewal().install(call.certificate))
        _log.info("certificate.installed")

    async def put_cluster_certificate(self, call: PutClusterCertificate) -> None:
        await in_thread(lambda: self._renewal().put_cluster(call.content))
        _log.info("certificate.cluster_changed")

    async def ensure_daemon(self, _: NodeEnsureDaemon) -> bool:
        # the only daemon that Ganeti starts so belongs to a hypervisor
        return False

    def _demote(self) -> None:
        self._refuse_master()
        config = self._paths.config_data
        try:
            content = config.read_bytes()
        except FileNotFoundError:
            return
        backup = config.with_name(f"{config.name}.backup-{time.time_ns()}")
        put_file(backup, content, _BACKUP_MODE)
        durably(lambda: remove_files([config]))
        _log.info("node.demoted", backup=backup)

    def _refuse_master(self) -> None:
        if master_name(self._paths) == self._own_name:
            raise Conflict(f"'{self._own_name}' is the master; move the master to another node first")
        for name in MASTER_DAEMONS:
            if find_daemon(self._paths, name) is not None:
                raise Conflict(f"{name} runs on this node, as on a master; stop it first")

    def _remove_files(self) -> None:
        # the certificates last: until then the call can be repeated
        certificates = {self._paths.server_pem, self._paths.client_pem}
        others = [path for path in _plain_files(self._paths.data) if path not in certificates]
        for folder in self._folders_of_the_cluster():
            shutil.rmtree(folder)
        durably(lambda: remove_files(others))
        durably(lambda: remove_files(certificates))

    def _folders_of_the_cluster(self) -> Sequence[Path]:
        """The folders with archived jobs, with what lies beside jobs or was set aside, and with keys."""
        paths = self._paths
        beside = [paths.submissions, paths.waits, paths.job_logs, paths.output, paths.damaged, paths.set_aside]
        keys = [paths.join_tokens, paths.joining, paths.data / "crypto"]
        archived = paths.archive.iterdir() if paths.archive.is_dir() else ()
        return [path for path in (*beside, *keys, *archived) if path.is_dir() and not path.is_symlink()]

    def _token(self, request: TokenRequest) -> CryptoToken:
        if request.type not in _TOKEN_TYPES:
            raise InvalidRequest(f"there are no tokens of type '{request.type}'; known is ssl")
        match request.action:
            case "get":
                content = self._paths.client_pem.read_bytes()
            case "create":
                content = self._make_certificate()
            case _:
                raise InvalidRequest(f"'{request.action}' is no action of a token; known are get, create")
        return CryptoToken(request.type, digest_of(content))

    def _make_certificate(self) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        server_pem = self._paths.server_pem.read_bytes()
        if not has_key(server_pem):
            raise Conflict("the key of the cluster is on master candidates only; renew by: gnt-cluster renew-crypto")
        content = make_node_certificate(server_pem, self._own_name, now)
        owner = owner_of_files_in(self._paths.data)
        durably(lambda: write_certificate(self._paths.client_pem, content, owner))
        return content

    def _renewal(self) -> RenewalFiles:
        return RenewalFiles(self._paths, self._own_name, owner_of_files_in(self._paths.data))


def _plain_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if stat.S_ISREG(path.lstat().st_mode))
