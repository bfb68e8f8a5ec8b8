"""The calls for temporary reservations: each is a function of the core, carried out by the store.

A reservation is compared with the configuration at the moment of the step. That contains the owner's own
finished changes: the configuration's writer makes them visible before it replies to their caller.

Source: wconfd.md 2.4.
"""

from collections.abc import Callable
from typing import Final

import attrs

from common.locks import Owner
from common.objects.config import Config
from common.objects.kinds import NetworkUuid
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core import reservations
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.reservations import (
    IpAction,
    IpNote,
    Reservations,
    allocate_minors,
    drbd_map,
    in_order,
    read_address,
    with_notes,
)
from daemons.wconfd.filestores import ReservationStore
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.locks import Unit
from protocol.wconfd.reservations import (
    AllocateDrbdMinor,
    CommitReleaseTemporaryIp,
    CommitTemporaryIps,
    ComputeDrbdMap,
    DrbdMap,
    DropAllReservations,
    GenerateDrbdSecret,
    GenerateIp,
    GenerateMac,
    ListReservedIps,
    ReleaseDrbdMinors,
    ReleaseIp,
    ReserveIp,
    ReserveLv,
    ReserveMac,
)

_log: Final = get_log(__name__)


@attrs.frozen
class ReservationHandlers:
    _store: ReservationStore
    _config: ConfigStore
    _short_lock: ShortLock
    _random_bytes: reservations.RandomBytes

    async def drop_all(self, call: DropAllReservations, _: Peer) -> Unit:
        await self._store.drop_owner(call.owner)
        return ()

    async def compute_drbd_map(self, _: ComputeDrbdMap, __: Peer) -> DrbdMap:
        found = drbd_map(self._config.config, self._store.state)
        return tuple((node, tuple(minors.items())) for node, minors in found.items())

    async def allocate_drbd_minor(self, call: AllocateDrbdMinor, _: Peer) -> tuple[int, ...]:
        return await self._store.change(
            lambda state: allocate_minors(self._config.config, state, call.disk, call.nodes)
        )

    async def release_drbd_minors(self, call: ReleaseDrbdMinors, _: Peer) -> Unit:
        await self._store.release_minors(call.disk)
        return ()

    async def generate_mac(self, call: GenerateMac, _: Peer) -> str:
        return await self._store.change_of(
            call.owner,
            lambda state: reservations.generate_mac(
                state, self._config.config, call.owner, call.network, self._random_bytes
            ),
        )

    async def reserve_mac(self, call: ReserveMac, _: Peer) -> Unit:
        return await self._reserve(
            call.owner, lambda state, config: reservations.reserve_mac(state, config, call.owner, call.mac)
        )

    async def generate_drbd_secret(self, call: GenerateDrbdSecret, _: Peer) -> str:
        return await self._store.change_of(
            call.owner,
            lambda state: reservations.generate_secret(state, self._config.config, call.owner, self._random_bytes),
        )

    async def reserve_lv(self, call: ReserveLv, _: Peer) -> Unit:
        volume = reservations.read_volume(call.volume)
        return await self._reserve(
            call.owner, lambda state, config: reservations.reserve_volume(state, config, call.owner, volume)
        )

    async def reserve_ip(self, call: ReserveIp, _: Peer) -> Unit:
        address = read_address(call.address)
        return await self._reserve(
            call.owner,
            lambda state, config: reservations.reserve_ip(
                state, config, call.owner, call.network, address, check_external=call.check_external
            ),
        )

    async def release_ip(self, call: ReleaseIp, _: Peer) -> Unit:
        address = read_address(call.address)
        return await self._reserve(
            call.owner, lambda state, _: reservations.release_ip(state, call.owner, call.network, address)
        )

    async def generate_ip(self, call: GenerateIp, _: Peer) -> str:
        return await self._store.change_of(
            call.owner,
            lambda state: reservations.generate_ip(state, self._config.config, call.owner, call.network),
        )

    async def list_reserved_ips(self, call: ListReservedIps, _: Peer) -> tuple[tuple[str, str, str], ...]:
        notes = in_order(self._store.state.ips.of(call.owner))
        return tuple((note.action.value, note.address, note.network) for note in notes)

    async def commit_temporary_ips(self, call: CommitTemporaryIps, peer: Peer) -> Unit:
        return await self._commit(call.owner, peer, lambda: self._store.state.ips.of(call.owner))

    async def commit_release_temporary_ip(self, call: CommitReleaseTemporaryIp, peer: Peer) -> Unit:
        note = IpNote(IpAction.RELEASE, NetworkUuid(call.network), read_address(call.address))
        return await self._commit(None, peer, lambda: frozenset({note}))

    async def _reserve(self, owner: Owner, reserve: Callable[[Reservations, Config], Reservations]) -> Unit:
        await self._store.change_of(owner, lambda state: (reserve(state, self._config.config), None))
        return ()

    async def _commit(self, caller: Owner | None, peer: Peer, notes: Callable[[], frozenset[IpNote]]) -> Unit:
        def step(config: Config, now: float) -> tuple[Config, int]:
            wanted = notes()
            return advanced(config, with_notes(config, wanted), now), len(wanted)

        count = await self._short_lock.wait_and_change(caller, step)
        _log.info("addresses.committed", owner=caller, by=peer, count=count)
        return ()
