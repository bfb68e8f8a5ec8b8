"""Settings of an installation on more than one machine.

Source: DESIGN sections 12 and 13; common/settings.py.
"""

import os
from typing import Final

import attrs

from common.settingwords.settingchecks import not_negative, port, positive, switch
from common.validation import Checked

# one machine; copies of files on the candidates; acknowledged by a majority of etcd, and copied
NO_REPLICATION: Final = "none"
BY_NODES: Final = "nodes"
BY_ETCD: Final = "etcd"
# moments of the reply to a change: after an attempt to copy it, after it is durable here
AFTER_ATTEMPT: Final = "attempt"
AFTER_LOCAL: Final = "local"


def is_on(enabled: str, *, has_nodes: bool) -> bool:
    """Whether a daemon runs. Args: enabled: its switch, see `common.settingwords.settingchecks.SWITCHES`."""
    return has_nodes if enabled == "auto" else enabled == "yes"


def _way_to_replicate(_: object, field: Checked, value: str) -> None:
    if value not in (NO_REPLICATION, BY_NODES, BY_ETCD):
        raise ValueError(f"{field.name} must be one of {NO_REPLICATION}, {BY_NODES}, {BY_ETCD}")


def _moment_of_reply(_: object, field: Checked, value: str) -> None:
    if value not in (AFTER_ATTEMPT, AFTER_LOCAL):
        raise ValueError(f"{field.name} must be one of {AFTER_ATTEMPT}, {AFTER_LOCAL}")


@attrs.frozen
class ClusterSettings:
    # way in which changes reach the other nodes
    replication: str = attrs.field(default=NO_REPLICATION, validator=_way_to_replicate)
    # name of this node in the configuration; empty: the host's
    node_name: str = ""
    # what a change waits for before it counts, if `replication` is by nodes
    answer_after: str = attrs.field(default=AFTER_ATTEMPT, validator=_moment_of_reply)

    @property
    def has_nodes(self) -> bool:
        """Whether there may be more than one machine, so that noded runs here."""
        return self.replication != NO_REPLICATION

    @property
    def has_lease(self) -> bool:
        """Whether the mastership is held under a lease in etcd, so that keeperd runs on the candidates."""
        return self.replication == BY_ETCD

    @property
    def own_name(self) -> str:
        """The name of this node."""
        return self.node_name or os.uname().nodename


@attrs.frozen
class NodedSettings:
    # address to listen at; empty: all
    address: str = ""
    # port of the master for machines that join; it is open only while a token is valid
    join_port: int = attrs.field(default=1812, validator=port)
    port: int = attrs.field(default=1811, validator=port)
    # connections at once, also those whose handshake is not over; each command that is followed has one
    max_clients: int = attrs.field(default=2000, validator=positive)
    # bytes of a request's body
    max_body_bytes: int = attrs.field(default=10 * 2**20, validator=positive)
    # time within which a body must be here
    body_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # time for the TLS handshake
    handshake_timeout_s: float = attrs.field(default=5.0, validator=positive)
    # time without a request after which a connection is closed
    idle_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # time for calls under way when the daemon is told to stop
    stop_timeout_s: float = attrs.field(default=5.0, validator=not_negative)
    # days after which ended commands that no master has had removed are forgotten
    keep_commands_days: float = attrs.field(default=7.0, validator=positive)


@attrs.frozen
class ConfdSettings:
    # whether it runs; automatically: where there may be more than one machine
    enabled: str = attrs.field(default="auto", validator=switch)
    # address to listen at; empty: that of noded
    address: str = ""
    port: int = attrs.field(default=1814, validator=port)


@attrs.frozen
class MondSettings:
    # whether it runs; automatically: where there may be more than one machine
    enabled: str = attrs.field(default="auto", validator=switch)
    # address to listen at; empty: that of noded
    address: str = ""
    port: int = attrs.field(default=1815, validator=port)
