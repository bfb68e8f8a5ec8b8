"""The address at which the other nodes reach this one.

Source: DESIGN sections 12 and 13.
"""

import ipaddress
import socket
from typing import Final

from common.settings import Settings

LOCAL: Final = "127.0.0.1"
# no packet is sent there; the address is for documentation (RFC 5737)
_ELSEWHERE: Final = ("192.0.2.1", 9)


def own_address(settings: Settings) -> str:
    """That of the settings; else of this node's name; else the one from which it would call others; else `LOCAL`."""
    if settings.noded.address or not settings.cluster.has_nodes:
        return settings.noded.address or LOCAL
    found = _address_of(settings.cluster.own_name) or _calling_address()
    return found if found and not is_local(found) else LOCAL


def is_local(address: str) -> bool:
    """Whether only this machine reaches it. Raises: ValueError: it is no address."""
    return ipaddress.ip_address(address).is_loopback


def _address_of(name: str) -> str | None:
    try:
        found = [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except OSError:
        return None
    # addresses of one link say which in a way of their own
    return next((address for address in found if "%" not in address and not is_local(address)), None)


def _calling_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return None
        return str(probe.getsockname()[0])
