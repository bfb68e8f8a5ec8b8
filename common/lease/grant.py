"""The mastership that keeperd has won for this node, for the daemons of the master here.

Theory. keeperd writes this file when it holds the mastership, before the daemons are started, and removes it before it
gives the mastership up. It lies in the folder that does not survive a restart of the machine. That the mastership is
still held is told by the deadline beside it (`common.lease.deadline`), which passes by itself if keeperd dies.

Source: DESIGN section 14.
"""

from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.atomicfile import write_file
from common.errors import DamagedFile, GantryError
from common.lease.deadline import Deadline
from common.lease.records import Fence
from common.paths import RunPaths
from common.wire import structure, unstructure

_MODE: Final = 0o640


@attrs.frozen
class Grant:
    # name of this node
    node: str
    # proves which keeperd has won it; the same in the key `master`
    nonce: str
    fence: Fence
    # of etcd, when it was won; another one later means that etcd was replaced or restored
    cluster_id: str
    # seconds; the lease's, as etcd granted it
    ttl_s: float
    # whether an operator has accepted that this node's files lack changes, by `gantry cluster takeover`
    takes_loss: bool = False


def read_grant(path: Path) -> Grant | None:
    """Return this node's mastership; None: it has none. Raises: DamagedFile, OSError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return structure(orjson.loads(content), Grant, "grant")
    except (orjson.JSONDecodeError, GantryError) as error:
        raise DamagedFile(
            f"'{path}' is not the grant of a mastership: {error}; restart keeperd", file=str(path)
        ) from error


def write_grant(path: Path, grant: Grant) -> None:
    """Raises: OSError."""
    write_file(path, orjson.dumps(unstructure(grant)), mode=_MODE)


# Whether this node holds the mastership now, by what keeperd has left for its daemons.
#
# Theory. Two files must agree: the grant, which keeperd removes before it gives the mastership up, and the deadline,
# which passes by itself when keeperd renews it no more. Neither alone is proof.
#
# Source: DESIGN section 14; lease.md 7.


@attrs.frozen
class HeldGrant:
    """The mastership that this node holds, unless its deadline passes."""

    grant: Grant
    # of the keeperd that has won it; close it, or keep it for the life of the process
    deadline: Deadline


def read_held(paths: RunPaths) -> HeldGrant | None:
    """Return this node's mastership; None: it holds none now. Raises: DamagedFile, OSError."""
    try:
        # opened first: a later keeperd's deadline must not prolong an earlier one's grant
        deadline = Deadline(paths.deadline_file)
    except FileNotFoundError:
        return None
    grant = read_grant(paths.grant_file)
    if grant is not None and not deadline.has_passed:
        return HeldGrant(grant, deadline)
    deadline.close()
    return None


def is_held(paths: RunPaths) -> bool:
    """Whether this node holds the mastership now. Raises: DamagedFile, OSError."""
    held = read_held(paths)
    if held is None:
        return False
    held.deadline.close()
    return True
