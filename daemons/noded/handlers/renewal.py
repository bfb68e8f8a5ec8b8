"""This node's certificates: new ones, while they are renewed.

Source: DESIGN section 13.
"""

from common.nodes.certificates.renewalfiles import RenewalFiles
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.files.owners import owner_of_files_in
from protocol.noded.renewal import InstallCertificate, PutClusterCertificate, RequestCertificate

_log = get_log(__name__)


class RenewalHandlers:
    """Raises, all: Conflict, InvalidRequest: the certificate does not fit this node. DamagedFile. OSError."""

    def __init__(self, paths: Paths, own_name: str) -> None:
        self._paths = paths
        self._own_name = own_name

    async def request_certificate(self, _: RequestCertificate) -> str:
        return await in_thread(lambda: self._files().request())

    async def install_certificate(self, call: InstallCertificate) -> None:
        await in_thread(lambda: self._files().install(call.certificate))
        _log.info("certificate.installed")

    async def put_cluster_certificate(self, call: PutClusterCertificate) -> None:
        await in_thread(lambda: self._files().put_cluster(call.content))
        _log.info("certificate.cluster_changed")

    def _files(self) -> RenewalFiles:
        return RenewalFiles(self._paths, self._own_name, owner_of_files_in(self._paths.data))
