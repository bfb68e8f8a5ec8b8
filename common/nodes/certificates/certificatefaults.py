"""What is wrong with the certificates in a file.

Source: noded.md 3 and 6.
"""

import datetime
from collections.abc import Iterator
from pathlib import Path

from common.errors import DamagedFile, explain_os_error
from common.nodes.certificates.certificatechecks import fault_of
from common.nodes.certificates.nodecertificates import read_certificate
from common.nodes.certificates.pemcontent import certificates_in


def faults_in_file(path: Path) -> Iterator[str]:
    """All faults, each with what to do; none if the certificates are good for more than 30 days.

    Raises: PermissionError: this user may not read the file.
    """
    option = "--new-cluster-certificate" if path.name == "server.pem" else "--new-node-certificates"
    now = datetime.datetime.now(datetime.UTC)
    try:
        content = path.read_bytes()
        found = [read_certificate(each) for each in certificates_in(content)] or [read_certificate(content)]
    except PermissionError:
        raise
    except OSError as error:
        yield explain_os_error(error)
        return
    except DamagedFile as error:
        yield f"'{path}': {error.message}"
        return
    for certificate in found:
        if (fault := fault_of(certificate, now)) is not None:
            yield f"'{path}' {fault}; renew it with: gnt-cluster renew-crypto {option}"
