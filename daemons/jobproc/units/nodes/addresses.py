"""The addresses of a node that joins.

Source: opcodes.md 4, NODE_ADD.
"""

import ipaddress
import socket
from collections.abc import Iterable

from common.errors import PrerequisiteError
from common.objects.node import Node


def primary_address(name: str, given: str | None, family: int) -> str:
    """The address given, or else the one that the name has.

    Args: family: number of the address family of the cluster.
    Raises: PrerequisiteError: that is no address, or the name has none.
    """
    if given is not None:
        return checked_address(given)
    try:
        found = socket.getaddrinfo(name, None, family=family, type=socket.SOCK_STREAM)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        text = f"the address of node '{name}' is not known: {reason}; name it with --primary-ip"
        raise PrerequisiteError(text, "resolver_error") from error
    return str(found[0][4][0])


def checked_address(text: str) -> str:
    """Raises: PrerequisiteError: the text is not an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise PrerequisiteError(f"'{text:.60}' is not an IP address", "wrong_input") from None


def check_homes(master: Node, name: str, primary_ip: str, secondary_ip: str) -> None:
    """Check that a node has one address if the master has one, and two if it has two.

    Raises: PrerequisiteError: it is otherwise.
    """
    is_single = master.primary_ip == master.secondary_ip
    if is_single == (primary_ip == secondary_ip):
        return
    have = "one address" if is_single else "a secondary address each"
    wrong = "must not have a secondary one" if is_single else "needs one as well (--secondary-ip)"
    raise PrerequisiteError(f"the nodes of this cluster have {have}, so node '{name}' {wrong}", "wrong_input")


def check_free(addresses: Iterable[str], others: Iterable[Node]) -> None:
    """Raises: PrerequisiteError: a node has one of the addresses."""
    wanted = set(addresses)
    for node in others:
        if taken := wanted & {node.primary_ip, node.secondary_ip}:
            raise PrerequisiteError(f"node '{node.name}' has the address {min(taken)} already", "resource_not_unique")
