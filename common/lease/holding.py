"""Whether this node holds the mastership now, by what keeperd has left for its daemons.

Theory. Two files must agree: the grant, which keeperd removes before it gives the mastership up, and the deadline,
which passes by itself when keeperd renews it no more. Neither alone is proof.

Source: DESIGN section 14; lease.md 7.
"""

import attrs

from common.lease.deadline import Deadline
from common.lease.grant import Grant, read_grant
from common.places.runpaths import RunPaths


@attrs.frozen
class Held:
    """The mastership that this node holds, unless its deadline passes."""

    grant: Grant
    # of the keeperd that has won it; close it, or keep it for the life of the process
    deadline: Deadline


def read_held(paths: RunPaths) -> Held | None:
    """Return this node's mastership; None: it holds none now. Raises: DamagedFile, OSError."""
    try:
        # opened first: a later keeperd's deadline must not prolong an earlier one's grant
        deadline = Deadline(paths.deadline_file)
    except FileNotFoundError:
        return None
    grant = read_grant(paths.grant_file)
    if grant is not None and not deadline.has_passed:
        return Held(grant, deadline)
    deadline.close()
    return None


def is_held(paths: RunPaths) -> bool:
    """Whether this node holds the mastership now. Raises: DamagedFile, OSError."""
    held = read_held(paths)
    if held is None:
        return False
    held.deadline.close()
    return True
