"""Networks and the notes of addresses: what carrying out notes makes of the pools.

Source: wconfd.md 2.4.
"""

from collections.abc import Iterable

import attrs

from common.errors import ReservationError
from common.objects.config import Config
from common.objects.kinds import NetworkUuid
from common.objects.networks.addresspool import Pool
from common.objects.networks.network import Network
from daemons.wconfd.core.reservations.ipnotes import IpAction, IpNote


def network_of(config: Config, uuid: str) -> Network:
    """Raises: ReservationError: there is no such network."""
    try:
        return config.networks[NetworkUuid(uuid)]
    except KeyError:
        raise ReservationError(f"there is no network '{uuid[:80]}'", network=uuid[:80]) from None


def with_notes(config: Config, notes: Iterable[IpNote]) -> Config:
    """The configuration after notes were carried out in its pools, releases first; all or nothing.

    Networks keep their serial numbers. The very same configuration if there are no notes.

    Raises: ReservationError: one would change nothing, or its address or network does not exist.
    """
    pools: dict[NetworkUuid, Pool] = {}
    for note in sorted(notes, key=lambda note: (note.action is IpAction.RESERVE, note.sort_key())):
        pool = pools.get(note.network) or Pool.of(network_of(config, note.network))
        pools[note.network] = pool.marked(note.address, used=note.action is IpAction.RESERVE)
    if not pools:
        return config
    changed = {uuid: attrs.evolve(config.networks[uuid], reservations=pool.used) for uuid, pool in pools.items()}
    return attrs.evolve(config, networks={**config.networks, **changed})
