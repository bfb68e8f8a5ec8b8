"""Reserving addresses: notes on free addresses that no other owner has noted.

Source: wconfd.md 2.4.
"""

import attrs

from common.errors import ReservationError
from common.locks import Owner
from common.objects.config import Config
from common.objects.kinds import NetworkUuid
from common.objects.networks.addresspool import Pool
from daemons.wconfd.core.reservations.ipnotes import IpAction, IpNote
from daemons.wconfd.core.reservations.ippools import network_of
from daemons.wconfd.core.reservations.temporary import Reservations


def reserve_ip(
    state: Reservations, config: Config, owner: Owner, network: str, address: str, *, check_external: bool
) -> Reservations:
    """Note that an address is to be taken.

    Raises: ReservationError: it is outside, taken, noted by anyone, or (if asked) taken from outside.
    """
    pool = Pool.of(network_of(config, network))
    place = pool.place(address)
    if pool.is_used(place):
        raise ReservationError(f"address {address} is taken by an instance")
    if check_external and pool.is_external(place):
        raise ReservationError(f"address {address} is taken from outside of the cluster")
    return _noted(state, owner, IpNote(IpAction.RESERVE, NetworkUuid(network), address))


def release_ip(state: Reservations, owner: Owner, network: str, address: str) -> Reservations:
    """Note that an address is to be freed; whether it can be is seen when it is.

    Raises: ReservationError: that is noted already.
    """
    return _noted(state, owner, IpNote(IpAction.RELEASE, NetworkUuid(network), address))


def generate_ip(state: Reservations, config: Config, owner: Owner, network: str) -> tuple[Reservations, str]:
    """Note that the lowest free address is to be taken; one that any owner has noted, for whatever, is not free.

    Raises: ReservationError: no such network, or it is full.
    """
    noted = {note.address for _, notes in state.ips.rows() for note in notes if note.network == network}
    address = Pool.of(network_of(config, network)).lowest_free(noted)
    return _noted(state, owner, IpNote(IpAction.RESERVE, NetworkUuid(network), address)), address


def _noted(state: Reservations, owner: Owner, note: IpNote) -> Reservations:
    return attrs.evolve(state, ips=state.ips.with_claim(owner, note))
