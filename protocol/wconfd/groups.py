"""Changes of the set of node groups; ours.

Source: opcodes.md 4, GROUP_ADD to GROUP_RENAME.
"""

import attrs

from common.objects.kinds import GroupUuid
from common.shapes import JsonObject
from protocol.messages import Request
from protocol.wconfd.changes import Stamp


@attrs.frozen(kw_only=True)
class ChangeGroups(Request[Stamp | None]):
    """Add, replace and remove node groups in one change; nodes are put into groups by `ChangeNodes`.

    Returns serial number and time of the configuration after the change; null, and nothing is changed, while an owner
    holds `cluster/config`.
    """

    METHOD = "changeGroups"
    # groups as they should be: a known one with the serial number of its reading, a new one with 0
    groups: tuple[JsonObject, ...]
    # uuids of groups to remove
    removed: tuple[GroupUuid, ...]
