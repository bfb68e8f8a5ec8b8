"""A node's place in the cluster: joining, leaving, certificates, and its daemons.

Source: noded.md section 6.
"""

import attrs

from common.shapes import JsonObject, Row
from protocol.noded.call import FAST_S, SLOW_S, URGENT_S, NodeCall


@attrs.frozen
class Version(NodeCall[int]):
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
class Token(Row):
    """`[type, token]`."""

    type: str
    # digest of client.pem: upper-case pairs of hexadecimal digits, joined by colons
    token: str


@attrs.frozen
class NodeCryptoTokens(NodeCall[tuple[Token, ...]]):
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
