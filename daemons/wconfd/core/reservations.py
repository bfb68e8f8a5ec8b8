"""Temporary reservations: what is taken although the configuration does not say so yet."""

import enum
import ipaddress
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, Generic, TypeVar

import attrs
import orjson
from immutables import Map

from common.errors import DamagedFile, GantryError, InvalidRequest, ReservationError
from common.jsontext import ascii_json
from common.locks import Owner
from common.objects.addresspool import AddressPool
from common.objects.config import AnyDisk, Config, Network
from common.objects.kinds import DiskTemplate, DiskUuid, NetworkUuid, NodeUuid

# Claims: resources of one kind that owners have taken, each by one owner at most.


R = TypeVar("R")


@attrs.frozen
class Claims(Generic[R]):
    """A value; start from `Claims()`. All costs are O(1), but where it says more."""

    # resources of each owner; no empty set
    _of: Map[Owner, frozenset[R]] = attrs.field(factory=Map)
    # owner of each resource; derived
    _owners: Map[R, Owner] = attrs.field(factory=Map, eq=False, repr=False)

    def __contains__(self, resource: object) -> bool:
        return resource in self._owners

    def of(self, owner: Owner) -> frozenset[R]:
        return self._of.get(owner, frozenset())

    def owners(self) -> frozenset[Owner]:
        """Cost: O(owners)."""
        return frozenset(self._of)

    def rows(self) -> Iterator[tuple[Owner, frozenset[R]]]:
        """Every owner with what it has, in owner order."""
        return iter(sorted(self._of.items(), key=lambda row: row[0].sort_key()))

    def with_claim(self, owner: Owner, resource: R) -> "Claims[R]":
        """Raises: ReservationError: it is reserved, maybe by this very owner."""
        if (holder := self._owners.get(resource)) is not None:
            raise ReservationError(
                f"'{resource}' is reserved by {holder}; choose another, or wait until it is dropped",
                owner=str(holder),
            )
        return Claims(self._of.set(owner, self.of(owner) | {resource}), self._owners.set(resource, owner))

    def without(self, owner: Owner) -> "Claims[R]":
        """Without all of an owner's. Cost: O(what it has)."""
        if owner not in self._of:
            return self
        owners = self._owners
        for resource in self._of[owner]:
            owners = owners.delete(resource)
        return Claims(self._of.delete(owner), owners)


# Notes on addresses: what an owner means to do to a network's pool once its operation succeeds.


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


# Networks and the notes of addresses: what carrying out notes makes of the pools.
#
# Source: wconfd.md 2.4.


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
    pools: dict[NetworkUuid, AddressPool] = {}
    for note in sorted(notes, key=lambda note: (note.action is IpAction.RESERVE, note.sort_key())):
        pool = pools.get(note.network) or AddressPool.of(network_of(config, note.network))
        pools[note.network] = pool.marked(note.address, used=note.action is IpAction.RESERVE)
    if not pools:
        return config
    changed = {uuid: attrs.evolve(config.networks[uuid], reservations=pool.used) for uuid, pool in pools.items()}
    return attrs.evolve(config, networks={**config.networks, **changed})


# Temporary reservations: what is taken although the configuration does not say so yet.
#
# A job that makes an instance takes its MACs, addresses, volumes, secrets and minors one by one,
# and writes the instance at the end. Till then a reservation keeps others away; after it the
# configuration does. So a new thing must be free in both. All but minors have an owner, and are
# dropped at the end of its opcode, or at its death; minors belong to a disk.
#
# Source: wconfd.md 2.4.


Minors = Map[NodeUuid, Map[int, DiskUuid]]
_NO_MINORS: Final[Map[int, DiskUuid]] = Map()


@attrs.frozen
class Reservations:
    """A value; start from `Reservations()`."""

    # MACs in lower case
    macs: Claims[str] = attrs.field(factory=Claims)
    secrets: Claims[str] = attrs.field(factory=Claims)
    # volumes as "volume group/volume"
    volumes: Claims[str] = attrs.field(factory=Claims)
    ips: Claims[IpNote] = attrs.field(factory=Claims)
    # minors by node; no empty table
    minors: Minors = attrs.field(factory=Map)

    def owners(self) -> frozenset[Owner]:
        """All owners that have reserved anything. Cost: O(owners)."""
        return frozenset().union(*(claims.owners() for claims in self._claims()))

    def has(self, owner: Owner) -> bool:
        return any(claims.of(owner) for claims in self._claims())

    def without_owner(self, owner: Owner) -> "Reservations":
        """Without all that an owner has reserved; the very same if that is nothing."""
        if not self.has(owner):
            return self
        return attrs.evolve(
            self,
            macs=self.macs.without(owner),
            secrets=self.secrets.without(owner),
            volumes=self.volumes.without(owner),
            ips=self.ips.without(owner),
        )

    def with_minor(self, node: NodeUuid, minor: int, disk: DiskUuid) -> "Reservations":
        """The caller guarantees that the minor is free."""
        taken = self.minors.get(node, _NO_MINORS)
        return attrs.evolve(self, minors=self.minors.set(node, taken.set(minor, disk)))

    def without_minors(self, *disks: str) -> "Reservations":
        """Without the minors of these disks; the very same if there are none. Cost: O(minors)."""
        return self.with_minors_that(lambda _, __, disk: disk not in disks)

    def with_minors_that(self, may_stay: Callable[[NodeUuid, int, DiskUuid], bool]) -> "Reservations":
        """With only some of the minors; the very same if these are all. Cost: O(minors)."""
        minors = self.minors
        for node, taken in self.minors.items():
            kept = Map((minor, disk) for minor, disk in taken.items() if may_stay(node, minor, disk))
            if len(kept) != len(taken):
                minors = minors.set(node, kept) if kept else minors.delete(node)
        return self if minors is self.minors else attrs.evolve(self, minors=minors)

    def _claims(self) -> tuple[Claims[str] | Claims[IpNote], ...]:
        return (self.macs, self.secrets, self.volumes, self.ips)


# Reserving addresses: notes on free addresses that no other owner has noted.
#
# Source: wconfd.md 2.4.


def reserve_ip(
    state: Reservations, config: Config, owner: Owner, network: str, address: str, *, check_external: bool
) -> Reservations:
    """Note that an address is to be taken.

    Raises: ReservationError: it is outside, taken, noted by anyone, or (if asked) taken from outside.
    """
    pool = AddressPool.of(network_of(config, network))
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
    address = AddressPool.of(network_of(config, network)).lowest_free(noted)
    return _noted(state, owner, IpNote(IpAction.RESERVE, NetworkUuid(network), address)), address


def _noted(state: Reservations, owner: Owner, note: IpNote) -> Reservations:
    return attrs.evolve(state, ips=state.ips.with_claim(owner, note))


# Minors: the numbers of DRBD devices, unique on each node.
#
# Source: wconfd.md 2.4.


# node -> minor -> disk
DrbdMap = Mapping[NodeUuid, Mapping[int, DiskUuid]]


def nested(disks: Iterable[AnyDisk]) -> Iterator[AnyDisk]:
    """The disks and all below them."""
    for disk in disks:
        yield disk
        yield from nested(disk.children)


def drbd_map(config: Config, state: Reservations) -> DrbdMap:
    """Every node with its minors, those of the configuration and the temporary ones, in order.

    Raises: ReservationError: two disks have one minor on a node.
    """
    found: dict[NodeUuid, dict[int, DiskUuid]] = {node: {} for node in sorted({*config.nodes, *state.minors})}
    for node, minor, disk in (*_in_config(config), *_in_reservations(state)):
        other = found.setdefault(node, {}).setdefault(minor, disk)
        if other != disk:
            raise ReservationError(
                f"minor {minor} on node '{node}' is used by disks '{other}' and '{disk}'; give one of them another"
            )
    return {node: dict(sorted(minors.items())) for node, minors in found.items()}


def allocate_minors(
    config: Config, state: Reservations, disk: str, nodes: Sequence[str]
) -> tuple[Reservations, tuple[int, ...]]:
    """The lowest free minor on each node, in their order; asked again, further ones.

    Raises: ReservationError: a node is listed twice.
    """
    if len(set(nodes)) != len(nodes):
        raise ReservationError(f"a node is listed twice in {', '.join(repr(node) for node in nodes)}")
    # a minor that two disks have is taken, whichever is right
    taken = {(node, minor) for node, minor, _ in _in_config(config)}
    minors = []
    for node in map(NodeUuid, nodes):
        own: Mapping[int, DiskUuid] = state.minors.get(node, {})
        minors.append(next(minor for minor in count() if minor not in own and (node, minor) not in taken))
        state = state.with_minor(node, minors[-1], DiskUuid(disk))
    return state, tuple(minors)


def without_written(config: Config, state: Reservations) -> Reservations:
    """Without the minors that the configuration has for the same disk: they are no longer temporary."""
    written = {(node, minor, disk) for node, minor, disk in _in_config(config)}
    return state.with_minors_that(lambda node, minor, disk: (node, minor, disk) not in written)


def _in_config(config: Config) -> Iterator[tuple[NodeUuid, int, DiskUuid]]:
    for disk in nested(config.disks.values()):
        if disk.dev_type is DiskTemplate.DRBD and disk.logical_id:
            node_a, node_b, _, minor_a, minor_b, _ = disk.logical_id
            yield node_a, minor_a, DiskUuid(disk.uuid)
            yield node_b, minor_b, DiskUuid(disk.uuid)


def _in_reservations(state: Reservations) -> Iterator[tuple[NodeUuid, int, DiskUuid]]:
    for node, minors in state.minors.items():
        for minor, disk in minors.items():
            yield node, minor, disk


# Things that must be unique in the cluster: MACs, DRBD secrets, volumes.
#
# What is random comes in as `random_bytes(count)`.
#
# Source: wconfd.md 2.4.


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


# The reservations as the bytes of `tempres.data`, and back.
#
# Every table is a list of pairs; an owner that has reserved nothing of a kind is not in its list.
#
# Source: wconfd.md 6.2.


# names of the tables, with the capitals of the file
_MINORS: Final = "dRBD"
_KEYS: Final[Mapping[str, str]] = {"macs": "mACs", "secrets": "dRBDSecrets", "volumes": "lVs", "ips": "iPv4s"}


def encode(state: Reservations) -> bytes:
    """Compact JSON in pure ASCII. Cost: O(reservations)."""
    minors = [[node, sorted(map(list, taken.items()))] for node, taken in sorted(state.minors.items())]
    notes = [[owner.to_wire(), [_to_wire(note) for note in in_order(notes)]] for owner, notes in state.ips.rows()]
    value = {
        _MINORS: minors,
        **{_KEYS[name]: _rows(getattr(state, name)) for name in ("macs", "secrets", "volumes")},
        _KEYS["ips"]: notes,
    }
    return ascii_json(value)


def in_order(notes: frozenset[IpNote]) -> list[IpNote]:
    """As they are stored and shown: what is to be taken first, then by network and address."""
    return sorted(notes, key=IpNote.sort_key)


def decode(content: bytes) -> Reservations:
    """Rebuild the reservations that were encoded.

    Raises: DamagedFile: not such a file, or a thing is reserved twice; `where` is the place:
        `byte 17`, or `$.mACs[3]` for the fourth owner of MACs.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
    keys = {_MINORS, *_KEYS.values()}
    if not isinstance(value, dict) or value.keys() != keys:
        raise _damaged("$", f"expected an object with the keys {', '.join(sorted(keys))}")
    return Reservations(
        macs=_claims(value, "macs", lambda text: _text(text).lower()),
        secrets=_claims(value, "secrets", _text),
        volumes=_claims(value, "volumes", _text),
        ips=_claims(value, "ips", _from_wire),
        minors=_minors(value[_MINORS]),
    )


def _rows(claims: Claims[str]) -> list[object]:
    return [[owner.to_wire(), sorted(resources)] for owner, resources in claims.rows()]


def _to_wire(note: IpNote) -> list[str]:
    return [note.action.value, note.address, note.network]


def _claims(value: Mapping[str, object], name: str, read: Callable[[object], R]) -> Claims[R]:
    key = _KEYS[name]
    claims = Claims[R]()
    for index, row in enumerate(_list(value[key], f"$.{key}")):
        try:
            claims = _with_row(claims, row, read)
        except GantryError as error:
            raise _damaged(f"$.{key}[{index}]", error.message) from error
    return claims


def _with_row(claims: Claims[R], row: object, read: Callable[[object], R]) -> Claims[R]:
    match row:
        case [wire_owner, [_, *_] as resources]:
            owner = Owner.from_wire(wire_owner)
        case _:
            raise InvalidRequest(f"expected an owner and its reservations, at least one; got {row!r}")
    if claims.of(owner):
        raise InvalidRequest(f"owner {owner} is listed twice")
    for resource in resources:
        claims = claims.with_claim(owner, read(resource))
    return claims


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"expected text, got {value!r}")
    return value


def _from_wire(value: object) -> IpNote:
    match value:
        case ["reserve" | "release" as action, str() as address, str() as network]:
            return IpNote(IpAction(action), NetworkUuid(network), read_address(address))
        case _:
            raise InvalidRequest(f"expected ['reserve' or 'release', address, network], got {value!r}")


def _minors(rows: object) -> Minors:
    minors: Minors = Map()
    for index, row in enumerate(_list(rows, f"$.{_MINORS}")):
        where = f"$.{_MINORS}[{index}]"
        match row:
            case [str() as node, list() as pairs] if node not in minors:
                if pairs:
                    minors = minors.set(NodeUuid(node), _read_pairs(pairs, where))
            case _:
                raise _damaged(where, f"expected a node, not listed before, and its minors; got {row!r}")
    return minors


def _read_pairs(pairs: list[object], where: str) -> Map[int, DiskUuid]:
    taken: Map[int, DiskUuid] = Map()
    for index, pair in enumerate(pairs):
        match pair:
            case [int() as minor, str() as disk] if not isinstance(minor, bool) and minor >= 0 and minor not in taken:
                taken = taken.set(minor, DiskUuid(disk))
            case _:
                raise _damaged(
                    f"{where}[1][{index}]", f"expected a minor, not listed before, and its disk; got {pair!r}"
                )
    return taken


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise _damaged(where, f"expected a list, got {value!r}")
    return value


def _damaged(where: str, what: str) -> DamagedFile:
    return DamagedFile(f"the reservations are damaged at {where}: {what}", where=where)
