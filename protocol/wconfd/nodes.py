"""Changes of the set of nodes and of their roles; ours.

Source: DESIGN section 13; noded.md 3.
"""

from collections.abc import Mapping

import attrs

from common.objects.kinds import NodeUuid
from common.shapes import JsonObject
from protocol.messages import Request
from protocol.wconfd.changes import Stamp


@attrs.frozen(kw_only=True)
class ChangeNodes(Request[Stamp | None]):
    """Add, replace and remove nodes in one change; the certificates of candidates follow from the roles.

    Nodes that are no candidates afterwards lose their certificates. Returns serial number and time of the configuration
    after the change; null, and nothing is changed, while an owner holds `cluster/config`.
    """

    METHOD = "changeNodes"
    # nodes as they should be: a known one with the serial number of its reading, a new one with 0
    nodes: tuple[JsonObject, ...]
    # uuids of nodes to remove
    removed: tuple[NodeUuid, ...]
    # node -> digest of its certificate; at least for every node that becomes a candidate
    certificates: Mapping[NodeUuid, str]
    # whether fewer candidates may be left than the pool should have
    may_fall_short: bool
    # new size of the candidate pool; null: as it is
    candidate_pool_size: int | None = None
