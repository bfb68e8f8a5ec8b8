"""The configuration as wconfd keeps it, and the rules by which writing it counts.

An effective change, one after which the value differs, raises the serial number and sets the time;
anything else changes nothing, so that a call delivered twice counts once.

Source: wconfd.md 2.2, 7.4 and 7.5.
"""

from collections.abc import Mapping

import attrs

from common.errors import ConfigurationError
from common.objects.codec import to_json
from common.objects.config import Config
from common.objects.encoding import EncodedConfig, encode_config
from common.objects.kinds import GroupUuid, NodeUuid
from common.objects.node import Node


@attrs.frozen
class ConfigState:
    """A configuration and its bytes."""

    config: Config
    # bytes of a reply
    encoded: EncodedConfig = attrs.field(repr=False, eq=False)
    # bytes of the file, if another program wrote it: it may order keys otherwise
    _found: bytes | None = attrs.field(default=None, repr=False, eq=False)

    @classmethod
    def of(cls, config: Config, before: "ConfigState | None" = None) -> "ConfigState":
        """Cost: what differs from `before` is encoded."""
        return cls(config, encode_config(config, before.encoded if before else None))

    @classmethod
    def found(cls, config: Config, content: bytes) -> "ConfigState":
        """A configuration that was read. Args: content: of the file."""
        # node daemons need ASCII
        return cls(config, encode_config(config), content if content.isascii() else None)

    @property
    def content(self) -> bytes:
        """The bytes of the file, here and on other nodes."""
        return self.encoded.content if self._found is None else self._found


def advanced(before: Config, after: Config, now: float) -> Config:
    """`after` as a change of `before`: with the serial it has plus one, or `before` itself if nothing differs.

    Args:
        now: seconds since the epoch.
    """
    if after is before or is_same(before, after):
        return before
    return attrs.evolve(after, serial_no=after.serial_no + 1, mtime=now)


def written(before: Config, given: Config, now: float, *, is_change: bool = False) -> Config:
    """What a client's write of the whole configuration leads to; its second delivery leads nowhere.

    Args:
        now: seconds since the epoch.
        is_change: it counts also if the value is the one that it was.
    Raises: ConfigurationError: it was changed since the client has read it.
    """
    if is_same(before, attrs.evolve(given, serial_no=given.serial_no + 1, mtime=before.mtime)):
        return before
    if given.serial_no < before.serial_no:
        raise ConfigurationError(
            f"the configuration was changed since it was read: its serial number is {before.serial_no}, "
            f"not {given.serial_no}; read it again"
        )
    if is_change and is_same(before, given):
        return attrs.evolve(given, serial_no=given.serial_no + 1, mtime=now)
    return advanced(before, given, now)


def lacks_members(value: Mapping[str, object]) -> bool:
    """Whether a node group of a whole configuration comes without its members, as Ganeti's clients send it.

    Ganeti's daemon counts the write of such a value as a change, though it stores the same as before.

    Args:
        value: one that can be read.
    """
    groups = value["nodegroups"]
    return isinstance(groups, dict) and any(group.get("members") is None for group in groups.values())


def reloaded(before: Config, given: Config, now: float) -> Config:
    """What a file changed by another program leads to: its content, with a serial number that no reader has seen.

    Args:
        now: seconds since the epoch.
    """
    if is_same(before, given):
        return before
    return attrs.evolve(given, serial_no=max(before.serial_no, given.serial_no) + 1, mtime=now)


def is_same(one: Config, other: Config) -> bool:
    """Whether these are the same JSON value; to Python alone, true and 1 are equal."""
    return is_same_object(one, other)


def is_same_object(one: attrs.AttrsInstance, other: attrs.AttrsInstance) -> bool:
    """The same for any object of the configuration."""
    return one == other and _same_json(to_json(one), to_json(other))


def _same_json(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same_json, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def is_urgent(before: Config, after: Config) -> bool:
    """Whether the call that makes this change returns only after the nodes were told of it."""
    return _urgent_values(before) != _urgent_values(after)


def nodes_of_group(config: Config, group: GroupUuid) -> frozenset[NodeUuid]:
    """The nodes of a group; none if there is no such group."""
    return frozenset(uuid for uuid, node in config.nodes.items() if node.group == group)


def _urgent_values(config: Config) -> tuple[object, ...]:
    cluster = config.cluster
    candidates: Mapping[NodeUuid, Node] = {
        uuid: node for uuid, node in config.nodes.items() if node.master_candidate or uuid == cluster.master_node
    }
    return (
        cluster.candidate_certs,
        cluster.master_node,
        cluster.enabled_user_shutdown,
        cluster.enabled_hypervisors,
        candidates,
        {uuid: node.vm_capable for uuid, node in config.nodes.items()},
    )
