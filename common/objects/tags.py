"""The rules of tags: short words that users put on the cluster and its objects.

Source: opcodes.md 4; Ganeti's `gnt-cluster add-tags` (seen).
"""

import re
from collections.abc import Iterable
from typing import Final

from common.errors import TagError

# characters of a tag
LONGEST: Final = 128
# tags of one object
MOST: Final = 4096
_TAG: Final = re.compile(r"[\w.+*/:@-]+", re.ASCII)


def check_tags(tags: Iterable[str]) -> None:
    """Raises: TagError: one is empty, too long, or has other characters than tags may have."""
    for tag in tags:
        if not tag:
            raise TagError("a tag must not be empty")
        if len(tag) > LONGEST:
            raise TagError(f"the tag '{tag:.40}...' has {len(tag)} characters; at most {LONGEST} are allowed")
        if not _TAG.fullmatch(tag):
            raise TagError(f"the tag {tag!r} has other characters than letters, digits and .+*/:@-_")


def check_count(count: int) -> None:
    """Raises: TagError: an object cannot have so many tags."""
    if count > MOST:
        raise TagError(f"the object would have {count} tags; at most {MOST} are allowed")
