"""Whether a machine that has a valid token may become the node that it wants to be. Pure.

Raises, all: InvalidRequest: a name or an address that no node can have. Conflict: it does not fit this cluster.

Source: DESIGN section 13, "Joining".
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final

from common.errors import Conflict, InvalidRequest
from common.nodes.ownaddress import is_local
from common.objects.config import CONFIG_VERSION
from protocol.noded.joining import MAX_SKEW_S, Join

# names of hosts; they lead out of no folder and fit into a line of ssconf
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_NAME_MAX: Final = 253


def check_machine(call: Join, now: float) -> None:
    """Judge the machine by itself. Args: now: the master's clock, seconds since the epoch."""
    _check_name(call.node_name)
    _check_address(call.address)
    if call.version != CONFIG_VERSION:
        raise Conflict(
            f"this machine has version {call.version} of the formats, and the cluster has {CONFIG_VERSION}; install "
            "the same release"
        )
    # this form refuses nan as well
    if not abs(call.now - now) <= MAX_SKEW_S:
        raise Conflict(
            f"the clocks of this machine and of the master differ by {abs(call.now - now):.0f} s, and at most "
            f"{MAX_SKEW_S:.0f} s are possible; set the clock of this machine"
        )


def check_place(call: Join, readd: str, addresses: Mapping[str, str]) -> None:
    """Judge the machine among the nodes.

    Args:
        readd: name of the node that the token is for; empty: it is for a new one.
        addresses: name -> primary address of all nodes.
    """
    name = call.node_name
    if readd and name != readd:
        raise Conflict(
            f"the token is for the node '{readd}' that comes back, and this machine asks as '{name}'; repeat the "
            f"command with --node {readd}"
        )
    if readd and readd not in addresses:
        raise Conflict(f"the cluster has no node '{readd}' any more; make a token without --readd")
    if not readd and name in addresses:
        raise Conflict(
            f"the cluster has a node '{name}' already; choose another name with --node, or let that node come back, "
            f"with a token of: gnt-cluster join-token --readd {name}"
        )
    for other, address in addresses.items():
        if is_local(address) and not is_local(call.address):
            raise Conflict(
                f"the node '{other}' has the address {address} in the configuration, and other machines do not reach "
                "it there; stop the daemons of the master, set primary_ip and secondary_ip of that node in config.data "
                "to an address that all machines reach, and start them"
            )
        if address == call.address and other != name:
            raise Conflict(f"the node '{other}' has the address {address} already; choose another with --address")


def _check_name(name: str) -> None:
    if len(name) > _NAME_MAX or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"no node can be named {name!r:.80}; a name is that of a host: letters, digits and '-', with '.' between "
            "its parts"
        )


def _check_address(address: str) -> None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidRequest(f"{address!r:.80} is no IP address") from None
    if found.is_unspecified or found.is_multicast:
        raise InvalidRequest(f"no node has the address {address}; name one of this machine with --address")
