"""The new certificate of the cluster that waits on the master until a renewal has taken it into use.

Source: DESIGN section 13.
"""

import datetime
import os

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.errors import Denied
from common.nodes.certificates.nodecertificates import PRIVATE_MODE, make_cluster_certificate
from common.paths import Paths


def make_next(paths: Paths) -> bool:
    """Make the new certificate; one that is waiting already, of an unfinished renewal, stays. Return whether it is new.

    Raises: Denied: this user is neither root nor the owner of the installation. OSError.
    Durability: on return it survives a loss of power.
    """
    status = os.stat(paths.data)
    if os.geteuid() not in (0, status.st_uid):
        raise Denied(f"only root and the owner of '{paths.data}' may make a new certificate for the cluster")
    if paths.next_server_pem.exists():
        return False
    now = datetime.datetime.now(datetime.UTC)
    content = make_cluster_certificate(now, mark=now.strftime("%Y%m%dT%H%M%SZ"))
    owner = (status.st_uid, status.st_gid)
    durably(lambda: write_files([FileWrite(paths.next_server_pem, content, PRIVATE_MODE, owner=owner)]))
    return True
