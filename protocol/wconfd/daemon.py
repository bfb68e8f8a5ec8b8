"""wconfd itself: its metrics, the copies of its files, and violations of locking. Ours."""

import attrs

from common.shapes import Lenient
from protocol.messages import Request
from protocol.metrics import DaemonMetrics


@attrs.frozen
class ReadWconfdMetrics(Request[DaemonMetrics]):
    """The numbers of wconfd for graphs and alerts."""

    METHOD = "readMetrics"


# Whether other nodes have the configuration of the master: calls of ours.
#
# Source: DESIGN section 12.


@attrs.frozen
class ConfigVerdict(Lenient):
    """What a comparison with one node has shown."""

    node: str
    # seconds since 1970 of the comparison; null: there was none yet, or it failed
    at: float | None = None
    # number of files that differed, and the names of the first ones; they were sent since, if that was possible
    differ: int = 0
    files: tuple[str, ...] = ()
    # why the node could not be asked; null: it was
    failure: str | None = None


@attrs.frozen
class VerifyConfigCopies(Request[tuple[ConfigVerdict, ...]]):
    """Compare config.data with all other candidates, and ssconf with all other nodes; none where nothing is copied.

    `asks`: whether the nodes are asked now; false: what the last comparison has shown.
    """

    METHOD = "verifyConfigCopies"
    asks: bool = True


# Changes of the configuration without the locks of what was changed; ours.


@attrs.frozen(kw_only=True)
class LockViolation(Lenient):
    """An object that a process has changed, or wanted to, without its lock."""

    # seconds since 1970
    at: float
    # method of the call
    method: str
    # process that called, and its user
    pid: int
    uid: int
    # kind and name of the object
    changed: str
    # lock that it lacked, exclusively
    lock: str
    # whether nothing was changed
    is_refused: bool


@attrs.frozen
class LockViolations(Lenient):
    """The violations since the start of wconfd."""

    count: int
    # whether changes without locks are refused
    is_required: bool
    # the latest ones, in the order in which they came
    latest: tuple[LockViolation, ...]


@attrs.frozen
class ListLockViolations(Request[LockViolations]):
    METHOD = "listLockViolations"
