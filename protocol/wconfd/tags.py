"""Changes of tags; ours.

Source: opcodes.md 4, TAGS_SET and TAGS_DEL.
"""

import attrs

from common.query.kinds import TagKind
from protocol.messages import Request


@attrs.frozen(kw_only=True)
class ChangeTags(Request[bool]):
    """Add tags to an object and remove tags from it; those that it has, or lacks, already are left as they are.

    Returns false, and nothing is changed, while an owner holds `cluster/config`.
    """

    METHOD = "changeTags"
    kind: TagKind
    # of the object; ignored for the cluster, of which there is one
    uuid: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
