"""The values of a network: ranges, gateways, MAC prefixes. Pure.

Source: opcodes.md 4, NETWORK_ADD and NETWORK_SET_PARAMS; wconfd.md 7.3.
"""

import ipaddress
import re
from typing import Final

from common.errors import wrong_input

# prefix lengths that a pool may have, as in Ganeti
WIDEST: Final = 16
NARROWEST: Final = 30
_MAC_PREFIX: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){2}", re.ASCII)


def checked_subnet(text: str) -> ipaddress.IPv4Network:
    """The IPv4 range. Raises: PrerequisiteError: it is none, or has the wrong size."""
    if "/" not in text:
        raise wrong_input(f"network '{text:.60}' has no prefix length; write it as 192.0.2.0/24")
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise wrong_input(f"'{text:.60}' is not an IPv4 network: {_reason(error)}; write it as 192.0.2.0/24") from None
    if not WIDEST <= block.prefixlen <= NARROWEST:
        raise wrong_input(
            f"network {block} has {block.num_addresses} addresses; networks have prefix lengths "
            f"from /{WIDEST} to /{NARROWEST}"
        )
    return block


def checked_address(text: str, what: str) -> str:
    """An IPv4 address. Args: what: beginning of an error's text. Raises: PrerequisiteError: it is none."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise wrong_input(f"{what} '{text:.60}' is not an IPv4 address") from None


def checked_gateway(text: str, block: ipaddress.IPv4Network) -> str:
    """Raises: PrerequisiteError: the gateway is no address, or not one that a host of the network may have."""
    address = ipaddress.IPv4Address(checked_address(text, "gateway"))
    if address not in block:
        raise wrong_input(f"gateway {address} is not in network {block}")
    if address in (block.network_address, block.broadcast_address):
        raise wrong_input(
            f"gateway {address} is the first or the last address of network {block}, which no host may have"
        )
    return str(address)


def checked_subnet6(text: str) -> str:
    """Raises: PrerequisiteError: the text is not an IPv6 network."""
    if "/" not in text:
        raise wrong_input(f"IPv6 network '{text:.60}' has no prefix length; write it as 2001:db8::/64")
    try:
        return str(ipaddress.IPv6Network(text))
    except ValueError as error:
        raise wrong_input(f"'{text:.60}' is not an IPv6 network: {_reason(error)}; write it as 2001:db8::/64") from None


def checked_gateway6(text: str, network6: str | None) -> str:
    """Raises: PrerequisiteError: the gateway is no IPv6 address, or neither in the network nor link-local."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise wrong_input(f"IPv6 gateway '{text:.60}' is not an IPv6 address") from None
    if network6 is not None and not address.is_link_local and address not in ipaddress.IPv6Network(network6):
        raise wrong_input(f"IPv6 gateway {address} is not in network {network6}")
    return str(address)


def checked_mac_prefix(text: str) -> str:
    """Three octets, in small letters. Raises: PrerequisiteError: the text is something else, or for groups of hosts."""
    prefix = text.lower()
    if not _MAC_PREFIX.fullmatch(prefix):
        raise wrong_input(f"MAC prefix '{text:.60}' is not three octets; write it as aa:00:55")
    if int(prefix[:2], 16) & 1:
        raise wrong_input(f"MAC prefix '{text}' is for groups of hosts: its first octet must be even")
    return prefix


def is_inside(address: str, block: ipaddress.IPv4Network) -> bool:
    """Whether an address, which may be one of IPv6, is in the range."""
    return ipaddress.ip_address(address) in block


def _reason(error: ValueError) -> str:
    """The part of the library's text that does not repeat the value."""
    text = str(error)
    return "it has host bits set" if "host bits" in text else "wrong address or prefix length"
