"""Things that must be unique in the cluster: MACs, DRBD secrets, volumes.

What is random comes in as `random_bytes(count)`.

Source: wconfd.md 2.4.
"""

import re
from collections.abc import Callable, Container, Iterator
from typing import Final

import attrs

from common.errors import InvalidRequest, ReservationError
from common.locks import Owner
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.kinds import DiskTemplate
from daemons.wconfd.core.reservations.ippools import network_of
from daemons.wconfd.core.reservations.minors import nested
from daemons.wconfd.core.reservations.temporary import Reservations

RandomBytes = Callable[[int], bytes]

_TRIES: Final = 64
_PART: Final = re.compile(r"(?!-)[A-Za-z0-9+_.-]+", re.ASCII)
_NO_GROUPS: Final = frozenset({".", ".."})
_NO_VOLUMES: Final = frozenset({".", "..", "snapshot", "pvmove"})


def generate_mac(
    state: Reservations, config: Config, owner: Owner, network: str | None, random_bytes: RandomBytes
) -> tuple[Reservations, str]:
    """Raises: ReservationError: no such network, or none of 64 was free."""
    prefix = (network_of(config, network).mac_prefix if network is not None else None) or config.cluster.mac_prefix

    def make() -> str:
        return f"{prefix}:{random_bytes(3).hex(':')}".lower()

    mac = _unique(make, frozenset(macs_of(config)), state.macs, f"MAC with the prefix {prefix}")
    return attrs.evolve(state, macs=state.macs.with_claim(owner, mac)), mac


def reserve_mac(state: Reservations, config: Config, owner: Owner, mac: str) -> Reservations:
    """Raises: ReservationError: an instance has it, or anyone reserved it."""
    mac = mac.lower()
    if mac in macs_of(config):
        raise ReservationError(f"MAC {mac} is in use by an instance; choose another")
    return attrs.evolve(state, macs=state.macs.with_claim(owner, mac))


def generate_secret(
    state: Reservations, config: Config, owner: Owner, random_bytes: RandomBytes
) -> tuple[Reservations, str]:
    """40 hex digits. Raises: ReservationError: none of 64 was free."""
    secret = _unique(lambda: random_bytes(20).hex(), frozenset(_secrets_of(config)), state.secrets, "DRBD secret")
    return attrs.evolve(state, secrets=state.secrets.with_claim(owner, secret)), secret


def reserve_volume(state: Reservations, config: Config, owner: Owner, volume: str) -> Reservations:
    """Raises: ReservationError: an attached disk is on it, or anyone reserved it."""
    attached = (config.disks[uuid] for one in config.instances.values() for uuid in one.disks if uuid in config.disks)
    if volume in volumes_of(nested(attached)):
        raise ReservationError(f"volume '{volume}' is in use by a disk; choose another")
    return attrs.evolve(state, volumes=state.volumes.with_claim(owner, volume))


def read_volume(text: str) -> str:
    """Check the name of a volume: `volume group/volume`. Raises: InvalidRequest."""
    group, _, volume = text.partition("/")
    if (
        _PART.fullmatch(group)
        and _PART.fullmatch(volume)
        and group not in _NO_GROUPS
        and volume not in _NO_VOLUMES
        and "_mlog" not in volume
        and "_mimage" not in volume
    ):
        return text
    raise InvalidRequest(
        f"expected a volume as GROUP/NAME of letters, digits and +_.-, and no name that LVM reserves, got {text[:80]!r}"
    )


def macs_of(config: Config) -> Iterator[str]:
    """The MACs of all instances, lower case."""
    return (nic.mac.lower() for instance in config.instances.values() for nic in instance.nics)


def volumes_of(disks: Iterator[AnyDisk]) -> Iterator[str]:
    """The volumes on which these very disks are, not those below them."""
    return ("/".join(disk.logical_id) for disk in disks if disk.dev_type is DiskTemplate.PLAIN and disk.logical_id)


def _secrets_of(config: Config) -> Iterator[str]:
    disks = nested(config.disks.values())
    return (disk.logical_id[5] for disk in disks if disk.dev_type is DiskTemplate.DRBD and disk.logical_id)


def _unique(make: Callable[[], str], used: Container[str], reserved: Container[str], what: str) -> str:
    for _ in range(_TRIES):
        if (found := make()) not in used and found not in reserved:
            return found
    raise ReservationError(f"no free {what} was found in {_TRIES} tries; repeat the call, or choose another prefix")
