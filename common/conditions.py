"""Changes that are made only if a thing is still what its reader saw.

Theory. The tag of a thing is made from its content, so that no counter has to be kept: the same content has the same
tag in every daemon and after every restart. Who changes a thing says which tag it must have then. The daemon that makes
the change compares, in the same step; so of two callers that read the same, one is refused, and no change is lost.

Source: RFC 9110, sections 8.8.3 and 13.1.
"""

import hashlib
import json
from typing import Final

import attrs

from common.errors import PreconditionFailed
from common.shapes import Lenient
from common.wire import unstructure

# hex digits of a tag
_DIGITS: Final = 32


@attrs.frozen
class Condition(Lenient):
    """What must hold of a thing when it is changed; all parts of it."""

    # it has one of these tags; null: whichever it has
    tags: tuple[str, ...] | None = None
    # whether it must be there; null: either
    is_there: bool | None = None
    # it has none of these tags
    other_than: tuple[str, ...] = ()

    def holds(self, tag: str | None) -> bool:
        """Args: tag: that of the thing now; None: there is no such thing."""
        if self.is_there is not None and self.is_there is (tag is None):
            return False
        return (self.tags is None or tag in self.tags) and tag not in self.other_than


def tag_of(content: object) -> str:
    """The tag of a content: equal contents have equal tags.

    Args: content: typed, or JSON values.
    Cost: linear in its JSON.
    """
    # the slow encoder takes all that an opcode may have: numbers beyond 64 bits, lone surrogates
    text = json.dumps(unstructure(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def check_condition(condition: Condition | None, thing: str, tag: str | None) -> None:
    """Make sure that a thing may be changed under this condition.

    Args:
        condition: None: there is none.
        thing: for people: "schedule 'nightly'".
        tag: that of the thing now; None: there is no such thing.
    Raises: PreconditionFailed: it may not; the field `current_tag` has the tag.
    """
    if condition is not None and not condition.holds(tag):
        raise PreconditionFailed(_refusal(condition, thing, tag), current_tag=tag)


def _refusal(condition: Condition, thing: str, tag: str | None) -> str:
    if tag is None:
        return f"there is no {thing}, so it has no tag that was asked for; to add it, send no condition on its tag"
    if condition.is_there is False:
        return f"{thing} is there already, with the tag '{tag}'; choose another name, or change it"
    return (
        f"{thing} was changed meanwhile: its tag is '{tag}' now; read it again, and send your change of what it is now "
        "under its new tag"
    )
