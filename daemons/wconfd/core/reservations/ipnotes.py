"""Notes on addresses: what an owner means to do to a network's pool once its operation succeeds."""

import enum
import ipaddress

import attrs

from common.errors import InvalidRequest
from common.objects.kinds import NetworkUuid


class IpAction(enum.Enum):
    RESERVE = "reserve"
    RELEASE = "release"


@attrs.frozen(cache_hash=True)
class IpNote:
    action: IpAction
    network: NetworkUuid
    # address in the usual form
    address: str

    def __str__(self) -> str:
        return f"{self.action.value} {self.address} in network {self.network}"

    def sort_key(self) -> tuple[bool, str, int]:
        return (self.action is IpAction.RELEASE, self.network, int(ipaddress.IPv4Address(self.address)))


def read_address(text: str) -> str:
    """Check an IPv4 address, strictly: four numbers up to 255, without leading zeros.

    Raises: InvalidRequest.
    """
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise InvalidRequest(f"expected an IPv4 address such as '192.0.2.1', got {text[:40]!r}") from None
