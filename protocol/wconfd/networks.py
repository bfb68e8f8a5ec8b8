"""Changes of the set of networks and of their values; ours.

Source: wconfd.md 2.4; opcodes.md 4.
"""

import attrs

from common.objects.kinds import NetworkUuid
from common.shapes import JsonObject
from protocol.messages import Request
from protocol.wconfd.changes import Stamp


@attrs.frozen(kw_only=True)
class ChangeNetworks(Request[Stamp | None]):
    """Add, replace and remove networks in one change.

    What instances have taken of a known network's pool stays as it is, whatever is given: it changes with instances
    alone. Returns serial number and time of the configuration after the change; null, and nothing is changed, while an
    owner holds `cluster/config`.
    """

    METHOD = "changeNetworks"
    # networks as they should be: a known one with the serial number of its reading, a new one with 0
    networks: tuple[JsonObject, ...]
    # uuids of networks to remove
    removed: tuple[NetworkUuid, ...]
