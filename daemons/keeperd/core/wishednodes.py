"""Which candidate an operator means by a name.

Source: DESIGN section 14.
"""

from collections.abc import Sequence

from common.errors import Conflict
from common.objects.naming import natural_key, short_names


def living_node(word: str, living: Sequence[str]) -> str:
    """Return the whole name of a candidate whose keeperd runs, for its name or a short form that no other one has.

    Args: word: empty, and then returned: any node is meant.
    Raises: Conflict: there is no such candidate; with the names of those that there are.
    """
    if not word or word in living:
        return word
    found = [name for name in living if word in short_names(name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"'{name}'" for name in sorted(living, key=natural_key)) or "none"
    which = "is the short name of several candidates" if found else "is no candidate whose keeperd runs"
    raise Conflict(f"'{word}' {which}; those are: {names}")
