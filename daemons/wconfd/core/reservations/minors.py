"""Minors: the numbers of DRBD devices, unique on each node.

Source: wconfd.md 2.4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from common.errors import ReservationError
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.kinds import DiskTemplate, DiskUuid, NodeUuid
from daemons.wconfd.core.reservations.temporary import Reservations

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
