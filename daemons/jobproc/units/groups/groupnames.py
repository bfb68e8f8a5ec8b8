"""Finding the group that an opcode names, and the names that groups may have.

Source: opcodes.md 4.
"""

from collections.abc import Sequence
from typing import Final

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import GroupUuid
from common.objects.nodegroup import NodeGroup

_MOST_NAMES: Final = 10


def group_of(config: ConfigIndex, name: str) -> NodeGroup:
    """The group with this uuid or name. Raises: PrerequisiteError: there is none."""
    known = config.config.nodegroups.get(GroupUuid(name))
    return known or find_named(config.groups, [name], "node group", is_host=False)[0]


def current_group(config: ConfigIndex, uuid: GroupUuid, name: str) -> NodeGroup:
    """The group as it is now, with its lock held. Raises: PrerequisiteError: it was removed before the lock was."""
    found = config.config.nodegroups.get(uuid)
    if found is None:
        raise PrerequisiteError(f"node group '{name}' was removed meanwhile", "unknown_entity")
    return found


def shown_names(names: Sequence[str]) -> str:
    """Names in a text: the first ones, and how many there are beside them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def check_new_name(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: a group has this name or uuid, or nobody could write it."""
    if name != name.strip() or not name.isprintable():
        raise PrerequisiteError(
            f"a node group cannot be called {name!r:.80}: blanks at an end and control characters are refused",
            "wrong_input",
        )
    for group in config.groups:
        if name in (group.name, group.uuid):
            raise PrerequisiteError(f"there is a node group '{name}' already (uuid {group.uuid})", "already_exists")
