"""wconfd itself: its metrics, the copies of its files, and violations of locking. Ours."""

from collections.abc import Mapping

import attrs

from common.metrics import CallCounts, CommitWork, Distribution
from common.shapes import Lenient
from common.system.processes import ProcessUse
from protocol.messages import Request

# Numbers of wconfd for graphs and alerts. Ours.
#
# Counters and histograms begin anew with each wconfd.


@attrs.frozen
class LocksNow(Lenient):
    """The locks at this moment."""

    # locks held, a shared one counted for each holder; and their owners
    held: int = 0
    owners: int = 0
    # requests that wait, and the seconds for which the oldest of them has
    waiting: int = 0
    longest_wait_s: float = 0.0
    # dead owners whose locks are kept, and the seconds since the first of their deaths
    ghosts: int = 0
    oldest_ghost_s: float = 0.0


@attrs.frozen
class FileWork(Lenient):
    """The writes of one state file since the start of wconfd."""

    # changes, of which several may share a write
    changes: int = 0
    failures: int = 0
    # seconds of each write, fsyncs included
    write: Distribution = attrs.field(factory=Distribution)


@attrs.frozen
class WconfdMetrics(Lenient):
    process: ProcessUse = attrs.field(factory=ProcessUse)
    calls: CallCounts = attrs.field(factory=CallCounts)
    locks: LocksNow = attrs.field(factory=LocksNow)
    # serial number of the configuration
    config_serial: int = 0
    # by the name of the file
    files: Mapping[str, FileWork] = attrs.field(factory=dict)
    # deaths of owners that no event reported: each is a defect
    backstop_wakeups: int = 0
    # commits to etcd; None: there is no lease
    commits: CommitWork | None = None


@attrs.frozen
class ReadMetrics(Request[WconfdMetrics]):
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
