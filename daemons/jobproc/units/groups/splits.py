"""Instances whose nodes are in several groups. Pure.

Source: opcodes.md 4, GROUP_ASSIGN_NODES.
"""

from collections.abc import Mapping, Sequence

import attrs

from common.objects.index import ConfigIndex
from common.objects.kinds import GroupUuid, NodeUuid


@attrs.frozen
class Splits:
    """Names of instances that are split after a change."""

    # whose nodes were in one group before
    new: Sequence[str]
    # whose nodes were in several before
    old: Sequence[str]


def splits_after(config: ConfigIndex, moved: Mapping[NodeUuid, GroupUuid]) -> Splits:
    """The instances that are split when these nodes are in these groups.

    Cost: O(instances).
    """
    before = {NodeUuid(node.uuid): node.group for node in config.nodes}
    after = {**before, **moved}
    new: list[str] = []
    old: list[str] = []
    for instance in config.instances:
        nodes = [node for node in (instance.primary_node, *config.secondary_nodes(instance)) if node in before]
        if instance.name is not None and len({after[node] for node in nodes}) > 1:
            was_split = len({before[node] for node in nodes}) > 1
            (old if was_split else new).append(instance.name)
    return Splits(new, old)
