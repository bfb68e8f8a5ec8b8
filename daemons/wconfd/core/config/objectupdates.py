"""Replacing one object, if it is still the one that the caller has read. Pure.

The serial number that comes with the object is the one it had when it was read. A call may be
delivered twice; the second finds what it wanted already there, or is known again by what the first
was told (`core.deliveries`), and is told the same.

Source: wconfd.md 2.3, "Update rule".
"""

from typing import Protocol, TypeVar

import attrs

from common.errors import ConfigurationError
from common.objects.cluster import Cluster
from common.objects.config import Config
from daemons.wconfd.core.config.configstate import advanced, is_same_object
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.objects import touched, with_cluster_touched, with_entry


class Counted(attrs.AttrsInstance, Protocol):
    """An object that counts its changes."""

    @property
    def uuid(self) -> str: ...
    @property
    def serial_no(self) -> int: ...
    @property
    def ctime(self) -> float: ...
    @property
    def mtime(self) -> float: ...


V = TypeVar("V", bound=Counted)


def update_cluster(config: Config, given: Cluster, now: float, told: Stamp | None = None) -> tuple[Config, Stamp]:
    """Replace the cluster's object.

    Args:
        told: what the first delivery of this very call was told, if there was one.
    Raises: ConfigurationError: it was changed since it was read, or is another cluster.
    """
    stored = config.cluster if config.cluster.uuid == given.uuid else None
    if told and _is_built_upon(stored, given):
        return config, told
    after = _updated(stored, given, now)
    if after is stored:
        return config, _stamp(after)
    return advanced(config, attrs.evolve(config, cluster=after), now), _stamp(after)


def update_object(
    config: Config, table: str, given: Counted, now: float, told: Stamp | None = None
) -> tuple[Config, Stamp]:
    """Replace an object of a table; the change of a node counts for the cluster too.

    Args:
        told: as `update_cluster`.
    Raises: ConfigurationError: it was changed since it was read, or there is none of this uuid.
    """
    stored = getattr(config, table).get(given.uuid)
    if told and _is_built_upon(stored, given):
        return config, told
    after = _updated(stored, given, now)
    if after is stored:
        return config, _stamp(after)
    changed = with_entry(config, table, given.uuid, after)
    if table == "nodes":
        changed = with_cluster_touched(changed, now)
    return advanced(config, changed, now), _stamp(after)


def _updated(stored: V | None, given: V, now: float) -> V:
    """The object after its update: the very same as stored if this update was made already."""
    if stored is None:
        raise ConfigurationError(f"there is no object with the uuid '{given.uuid}'", uuid=given.uuid)
    after = touched(given, now)
    replayed = attrs.evolve(after, mtime=stored.mtime)  # type: ignore[misc]  # the plugin does not see through the bound
    if is_same_object(stored, replayed):
        return stored
    if stored.serial_no != given.serial_no:
        raise ConfigurationError(
            f"object '{given.uuid}' was changed since it was read: its serial number is {stored.serial_no}, "
            f"not {given.serial_no}; read it again",
            uuid=given.uuid,
        )
    return after


def _is_built_upon(stored: Counted | None, given: Counted) -> bool:
    """Whether this object is what an update with `given` has become, and none that was made anew since."""
    return stored is not None and stored.serial_no > given.serial_no and stored.ctime == given.ctime


def _stamp(value: Counted) -> Stamp:
    return value.serial_no, value.mtime
