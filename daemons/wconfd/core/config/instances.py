"""Adding, deleting and setting instances: pure functions of the configuration.

All return the configuration with its own serial number and time raised, or the very same one if nothing changed.
`now` is in seconds since the epoch.

Source: wconfd.md 2.3 and 11.
"""

from collections.abc import Iterable

import attrs

from common.errors import ConfigurationError
from common.objects.config import Config
from common.objects.instance import AnyInstance
from common.objects.kinds import AdminState, AdminStateSource, InstanceUuid, NodeUuid
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import (
    check_presence,
    instance_of,
    touched,
    with_cluster_touched,
    with_entry,
    without_entry,
)
from daemons.wconfd.core.config.ports import with_free_port
from daemons.wconfd.core.reservations.ipnotes import IpAction, IpNote
from daemons.wconfd.core.reservations.ippools import with_notes


def add_instance(config: Config, given: AnyInstance, notes: Iterable[IpNote], now: float, *, replace: bool) -> Config:
    """Add an instance, or put it in the place of the one with its uuid, and carry out notes on addresses.

    Raises:
        ConfigurationError: another instance has one of its MACs, or its uuid is taken, or not there to replace.
        ReservationError: a note cannot be carried out.
    """
    _check_macs(config, given)
    check_presence(config, given.uuid, is_wanted=replace)
    after = with_entry(config, "instances", given.uuid, attrs.evolve(given, ctime=now, mtime=now))
    return advanced(config, with_notes(after, notes), now)


def remove_instance(config: Config, uuid: str, now: float) -> Config:
    """Delete an instance, and free its port and addresses; nothing if there is none. Its disks stay.

    Raises: ReservationError: one of its addresses is not marked as taken.
    """
    instance = config.instances.get(InstanceUuid(uuid))
    if instance is None:
        return config
    after = without_entry(config, "instances", uuid)
    after = with_notes(
        after, (IpNote(IpAction.RELEASE, nic.network, nic.ip) for nic in instance.nics if nic.network and nic.ip)
    )
    if instance.network_port is not None:
        after = with_free_port(after, instance.network_port)
    return advanced(config, with_cluster_touched(after, now), now)


def set_instance_status(
    config: Config,
    uuid: str,
    admin_state: AdminState | None,
    disks_active: bool | None,
    admin_state_source: AdminStateSource | None,
    now: float,
) -> tuple[Config, AnyInstance]:
    """Set what is not None; returns the instance.

    Raises: ConfigurationError: there is no such instance.
    """
    before = instance_of(config, uuid)
    wanted = {"admin_state": admin_state, "disks_active": disks_active, "admin_state_source": admin_state_source}
    after: AnyInstance = attrs.evolve(before, **{name: value for name, value in wanted.items() if value is not None})  # type: ignore[arg-type]
    if after == before:
        return config, before
    after = touched(after, now)
    return advanced(config, with_entry(config, "instances", uuid, after), now), after


def set_primary_node(config: Config, uuid: str, node: str, now: float) -> Config:
    """Say where an instance runs. Neither is the node looked up nor does the instance's serial number grow.

    Raises: ConfigurationError: there is no such instance.
    """
    instance = attrs.evolve(instance_of(config, uuid), primary_node=NodeUuid(node))
    return advanced(config, with_entry(config, "instances", uuid, instance), now)


def _check_macs(config: Config, given: AnyInstance) -> None:
    own = {nic.mac.lower() for nic in given.nics}
    for uuid, other in config.instances.items():
        if uuid != given.uuid and (common := own.intersection(nic.mac.lower() for nic in other.nics)):
            raise ConfigurationError(
                f"instance '{given.name}' cannot be added: instance '{other.name}' has its MAC {min(common)}"
            )
