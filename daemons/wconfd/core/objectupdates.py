"""Replacing one object, if it is still the one that the caller has read. Pure.

The serial number that comes with the object is the one it had when it was read. A call may be
delivered twice; the second finds what it wanted already there, and is told the same.

Source: wconfd.md 2.3, "Update rule".
"""

from typing import Protocol, TypeVar

import attrs

from common.errors import ConfigurationError
from common.objects.cluster import Cluster
from common.objects.config import Config
from daemons.wconfd.core.configstate import advanced, is_same_object
from daemons.wconfd.core.objects import touched, with_cluster_touched, with_entry

# serial number and mtime of an object after its change
Stamp = tuple[int, float]


class _Counted(attrs.AttrsInstance, Protocol):
    @property
    def uuid(self) -> str: ...
    @property
    def serial_no(self) -> int: ...
    @property
    def mtime(self) -> float: ...


V = TypeVar("V", bound=_Counted)


def update_cluster(config: Config, given: Cluster, now: float) -> tuple[Config, Stamp]:
    """Raises: ConfigurationError: it was changed since it was read, or is another cluster."""
    stored = config.cluster if config.cluster.uuid == given.uuid else None
    after = _updated(stored, given, now)
    if after is stored:
        return config, _stamp(after)
    return advanced(config, attrs.evolve(config, cluster=after), now), _stamp(after)


def update_object(config: Config, table: str, given: _Counted, now: float) -> tuple[Config, Stamp]:
    """Replace an object of a table; the change of a node counts for the cluster too.

    Raises: ConfigurationError: it was changed since it was read, or there is none of this uuid.
    """
    stored = getattr(config, table).get(given.uuid)
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


def _stamp(value: _Counted) -> Stamp:
    return value.serial_no, value.mtime
