"""Numbers of wconfd for graphs and alerts. Ours.

Counters and histograms begin anew with each wconfd.
"""

from collections.abc import Mapping

import attrs

from common.metrics.calls import CallCounts
from common.metrics.commitwork import CommitWork
from common.metrics.histogram import Distribution
from common.metrics.process import ProcessUse
from common.shapes import Lenient
from protocol.messages import Request


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
