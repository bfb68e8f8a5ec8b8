"""The certificates of candidates while they change: the configuration has the old digest beside the new one. Pure.

Theory. Nodes obey those digests that their ssconf has. A candidate may begin to show a new certificate only when all
nodes have its digest, and the old digest may go only when nobody shows that certificate any more. So the old one stands
there meanwhile, under the node's uuid with a suffix, which is Ganeti's.

Source: noded.md 3.
"""

from collections.abc import Mapping
from typing import Final

from common.objects.kinds import NodeUuid

_OLD: Final = "-OLDMASTER"

# uuid, perhaps with the suffix -> digest
Digests = Mapping[NodeUuid, str]


def holder_of(key: NodeUuid) -> NodeUuid:
    """The node of an entry."""
    return NodeUuid(key.removesuffix(_OLD))


def with_both(known: Digests, in_use: Digests, new: Digests) -> Digests:
    """The digests with the new ones, and with those in use beside them; other entries stay.

    Args: in_use: what these nodes show now: what an unfinished renewal has written before may be otherwise.
    """
    old = {NodeUuid(f"{uuid}{_OLD}"): digest for uuid, digest in in_use.items() if digest != new.get(uuid)}
    return {**known, **new, **old}


def without_old(known: Digests) -> Digests:
    return {key: digest for key, digest in known.items() if holder_of(key) == key}
