"""OP_CLUSTER_REDIST_CONF: sends the configuration, and the other files that all nodes share, to the nodes again.

Not sent, though Ganeti does: /etc/hosts, and files of hypervisors.

Source: noded.md 8.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from common.errors import explain_os_error
from common.nodes.epochs import own_epoch
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterRedistConf
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

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


class RedistConfUnit(LogicalUnit[OpClusterRedistConf]):
    """Nodes that are not reached are told of in the job's log, and do not fail the job, as in Ganeti."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterRedistConf

    def run(self, context: UnitContext) -> None:
        # as Ganeti does it: the serial numbers rise
        context.config.update(context.config.cluster)
        has_nodes = context.settings.cluster.has_nodes
        next_step = "wconfd tries again" if has_nodes else "'replication' in '[cluster]' is 'none'"
        for name in context.config.redistribute():
            context.feedback(f"warning: the configuration has not reached node '{name}'; {next_step}")
        if has_nodes:
            for text in _send_files(context):
                context.feedback(f"warning: {text}")


def _send_files(context: UnitContext) -> Iterator[str]:
    """Send the files to all nodes that are online but this one; yields what failed."""
    # imported late: other units call no nodes
    from protocol.noded.clients.blocking import BlockingNodeClient
    from protocol.noded.clients.certificates import CertificateFiles
    from protocol.noded.clients.outcomes import Failed
    from protocol.noded.clients.recipients import online_nodes
    from protocol.noded.files import UploadFile
    from protocol.noded.localfiles import read_upload
    from protocol.noded.virtualpaths import WireNames

    settings = context.settings
    names = WireNames.of_installation(settings.root, os.environ)
    config = context.config.config
    master = config.nodes[config.cluster.master_node].name
    nodes = [node for node in online_nodes(config, settings.noded.port) if node.name != master]
    epoch = own_epoch(settings.paths.epoch_file, settings.cluster.own_name)
    client = BlockingNodeClient(CertificateFiles.of(settings.paths), epoch=epoch)
    for path in _present(settings.paths.data):
        try:
            call = UploadFile(read_upload(path, names.to_wire(path)))
        except OSError as error:
            yield explain_os_error(error)
            continue
        outcomes = client.call_nodes(nodes, call, _LIMIT_S)
        yield from (outcome.text for outcome in outcomes.values() if isinstance(outcome, Failed))


def _present(folder: Path) -> Sequence[Path]:
    return [path for name in _FILES if (path := folder / name).exists()]
