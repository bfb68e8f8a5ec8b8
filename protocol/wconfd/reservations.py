"""Temporary reservations: names, addresses and numbers that are taken before the configuration says so.

They last until the owner drops them or dies; minors, which belong to a disk, last until they are released.

Source: wconfd.md 2.4.
"""

import attrs

from common.locks import Owner
from protocol.messages import Request
from protocol.wconfd.locks import Unit

# node -> minor -> disk, as lists of pairs
DrbdMap = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]


@attrs.frozen
class DropAllReservations(Request[Unit]):
    """Drop all of an owner's reservations."""

    METHOD = "dropAllReservations"
    owner: Owner


@attrs.frozen
class ComputeDrbdMap(Request[DrbdMap]):
    """Every node with its minors, from the configuration and from temporary reservations."""

    METHOD = "computeDRBDMap"


@attrs.frozen
class AllocateDrbdMinor(Request[tuple[int, ...]]):
    """The lowest free minor on each of these nodes, in their order."""

    METHOD = "allocateDRBDMinor"
    disk: str
    nodes: tuple[str, ...]


@attrs.frozen
class ReleaseDrbdMinors(Request[Unit]):
    METHOD = "releaseDRBDMinors"
    disk: str


@attrs.frozen
class GenerateMac(Request[str]):
    """An unused MAC with the prefix of the network or else of the cluster."""

    METHOD = "generateMAC"
    owner: Owner
    network: str | None


@attrs.frozen
class ReserveMac(Request[Unit]):
    METHOD = "reserveMAC"
    owner: Owner
    mac: str


@attrs.frozen
class GenerateDrbdSecret(Request[str]):
    METHOD = "generateDRBDSecret"
    owner: Owner


@attrs.frozen
class ReserveLv(Request[Unit]):
    METHOD = "reserveLV"
    owner: Owner
    # "volume group/volume"
    volume: str


@attrs.frozen
class ReserveIp(Request[Unit]):
    """Note that an address will be taken."""

    METHOD = "reserveIp"
    owner: Owner
    network: str
    address: str
    check_external: bool


@attrs.frozen
class ReleaseIp(Request[Unit]):
    """Note that an address will be freed."""

    METHOD = "releaseIp"
    owner: Owner
    network: str
    address: str


@attrs.frozen
class GenerateIp(Request[str]):
    """Note that the lowest free address will be taken."""

    METHOD = "generateIp"
    owner: Owner
    network: str


@attrs.frozen
class ListReservedIps(Request[tuple[tuple[str, str, str], ...]]):
    """The owner's notes: `reserve` or `release`, address, network."""

    METHOD = "listReservedIps"
    owner: Owner


@attrs.frozen
class CommitTemporaryIps(Request[Unit]):
    """Carry out the owner's notes in the networks' pools."""

    METHOD = "commitTemporaryIps"
    owner: Owner


@attrs.frozen
class CommitReleaseTemporaryIp(Request[Unit]):
    """Free an address in the network's pool now."""

    METHOD = "commitReleaseTemporaryIp"
    network: str
    address: str
