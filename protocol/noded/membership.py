"""A node's place in the cluster: joining, leaving, certificates, and its daemons.

Source: noded.md section 6.
"""

from typing import Final

import attrs

from common.shapes import JsonObject, Lenient, Row
from protocol.noded.call import FAST_S, SLOW_S, URGENT_S, Failed, FailureKind, NodeCall, Outcome, Replied


@attrs.frozen
class NodeVersion(NodeCall[int]):
    """The version of the protocol: major times 1,000,000 and minor times 10,000."""

    METHOD = "version"
    LIMIT_S = URGENT_S
    ASKS_OFFLINE = True


@attrs.frozen
class NodeLeaveCluster(NodeCall[str | None]):
    """Remove the cluster's files from the node; its daemon replies, then ends."""

    METHOD = "node_leave_cluster"
    REPEATABLE = False
    modify_ssh_setup: bool


@attrs.frozen
class NodeDemoteFromMc(NodeCall[None]):
    """Remove config.data from a node that is no longer a candidate; its queue stays."""

    METHOD = "node_demote_from_mc"
    LIMIT_S = FAST_S


@attrs.frozen
class TokenRequest(Row):
    """`[type, action, options]`."""

    # ssl_digest
    type: str
    # get or create
    action: str
    options: JsonObject | None


@attrs.frozen
class CryptoToken(Row):
    """`[type, token]`."""

    type: str
    # digest of client.pem: upper-case pairs of hexadecimal digits, joined by colons
    token: str


@attrs.frozen
class NodeCryptoTokens(NodeCall[tuple[CryptoToken, ...]]):
    METHOD = "node_crypto_tokens"
    LIMIT_S = SLOW_S
    token_request: tuple[TokenRequest, ...]


@attrs.frozen
class NodeEnsureDaemon(NodeCall[bool]):
    """Start or stop a daemon of the node; false for an unknown one."""

    METHOD = "node_ensure_daemon"
    LIMIT_S = URGENT_S
    daemon: str
    run: bool


# Calls of ours that renew certificates: keys are made on their nodes, and the master signs.
#
# Source: DESIGN section 13; noded.md 3.


@attrs.frozen
class RequestCertificate(NodeCall[str]):
    """Make a new key beside the one in use; return the PEM of the request to sign it. Twice, it is the same key."""

    METHOD = "gantry_request_certificate"
    LIMIT_S = URGENT_S


@attrs.frozen
class InstallCertificate(NodeCall[None]):
    """Use the new key with this certificate from now on."""

    METHOD = "gantry_install_certificate"
    LIMIT_S = URGENT_S
    # PEM
    certificate: str


@attrs.frozen
class PutClusterCertificate(NodeCall[None]):
    """Replace the cluster's certificate, `server.pem`, as this node has it."""

    METHOD = "gantry_put_cluster_certificate"
    LIMIT_S = URGENT_S
    # PEM: its key, for master candidates alone; the certificate; others that are trusted as well
    content: str = attrs.field(repr=False)


# The role of the master: its name for voting, its daemons, its address; and our epochs.
#
# Source: noded.md section 6; masterfailover.md; DESIGN section 12. `gantry_claim_epoch` and `gantry_standing` are ours.


# what a node that has not heard of a master refuses with, among other words
NO_MASTER: Final = "this node has not heard of a master"


@attrs.frozen
class MasterNodeName(NodeCall[str]):
    """The name of the master, as the node's ssconf has it: its vote; it fails where there is no such file."""

    METHOD = "master_node_name"
    LIMIT_S = URGENT_S
    ASKS_OFFLINE = True

    @staticmethod
    def named_by(outcome: Outcome[str]) -> str | None:
        """The master that a node names; empty: it has not heard of one; None: its vote is not known."""
        if isinstance(outcome, Replied):
            return outcome.value
        has_none = isinstance(outcome, Failed) and outcome.kind is FailureKind.REFUSED and NO_MASTER in outcome.text
        return "" if has_none else None


@attrs.frozen
class NodeStartMasterDaemons(NodeCall[None]):
    METHOD = "node_start_master_daemons"
    LIMIT_S = FAST_S
    no_voting: bool


@attrs.frozen
class NodeStopMaster(NodeCall[None]):
    """Stop the master's daemons; its address stays."""

    METHOD = "node_stop_master"
    LIMIT_S = FAST_S


@attrs.frozen
class ClaimEpoch(NodeCall[None]):
    """Let a node be the master under this epoch; refused if the node has seen a higher one, or granted it to another.

    Nothing is carried out under lower epochs once the reply is there.
    """

    METHOD = "gantry_claim_epoch"
    LIMIT_S = URGENT_S
    epoch: int
    # name of the node that is becoming the master
    master: str


@attrs.frozen(kw_only=True)
class NodeProgress(Lenient):
    """How far a node has come: the epoch that it has seen, and its copies."""

    # 0: none
    epoch: int
    # name of the node that has claimed it there; empty: not known
    epoch_master: str
    # serial number of the configuration; 0: it has no copy
    config_serial: int
    # last job id of the queue; 0: it has no copy
    queue_serial: int


@attrs.frozen
class ReadNodeProgress(NodeCall[NodeProgress]):
    METHOD = "gantry_standing"
    LIMIT_S = URGENT_S


@attrs.frozen
class MasterAddress(Lenient):
    """The address of the master."""

    # of the master's node
    uuid: str
    ip: str
    # bits
    netmask: int
    netdev: str
    # number of the address family: 2 or 10
    ip_family: int


@attrs.frozen
class NodeActivateMasterIp(NodeCall[None]):
    METHOD = "node_activate_master_ip"
    LIMIT_S = FAST_S
    master_params: MasterAddress
    use_external_mip_script: bool


@attrs.frozen
class NodeDeactivateMasterIp(NodeCall[None]):
    METHOD = "node_deactivate_master_ip"
    LIMIT_S = FAST_S
    master_params: MasterAddress
    use_external_mip_script: bool


@attrs.frozen
class NodeChangeMasterNetmask(NodeCall[None]):
    METHOD = "node_change_master_netmask"
    LIMIT_S = FAST_S
    old_netmask: int
    netmask: int
    master_ip: str
    master_netdev: str
