"""The files that all nodes share, besides configuration, ssconf and queue: sent to nodes.

Not sent, though Ganeti does: /etc/hosts, and files of hypervisors.

Source: noded.md 8.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from common.errors import explain_os_error
from daemons.jobproc.context import UnitContext

# below the folder for data
_FILES: Final = (
    "known_hosts",
    "hmac.key",
    "cluster-domain-secret",
    "spice.pem",
    "spice-ca.pem",
    "rapi.pem",
    "rapi/users",
    # ours
    "rapi/tokens",
)
# limit for one file and all nodes together
_LIMIT_S: Final = 60.0


def send_shared_files(context: UnitContext, nodes: Collection[str] | None = None) -> Iterator[str]:
    """Send the files to all nodes that are online but this one; yields what failed.

    Args: nodes: names of the only ones that need them.
    """
    # imported late: other units call no nodes
    from daemons.jobproc.units.nodecalls import master_client
    from protocol.noded.call import Failed
    from protocol.noded.clients.recipients import online_nodes
    from protocol.noded.files import UploadFile, WireNames, read_upload

    settings = context.settings
    names = WireNames.of_installation(settings.root, os.environ)
    config = context.config.config
    master = config.nodes[config.cluster.master_node].name
    online = [node for node in online_nodes(config, settings.noded.port) if node.name != master]
    wanted = [node for node in online if nodes is None or node.name in nodes]
    client = master_client(settings)
    for path in shared_files(settings.paths.data):
        try:
            call = UploadFile(read_upload(path, names.to_wire(path)))
        except OSError as error:
            yield explain_os_error(error)
            continue
        outcomes = client.call_nodes(wanted, call, _LIMIT_S)
        yield from (outcome.text for outcome in outcomes.values() if isinstance(outcome, Failed))


def shared_files(folder: Path) -> Sequence[Path]:
    """The files that are there. Args: folder: that for data."""
    return [path for name in _FILES if (path := folder / name).exists()]
