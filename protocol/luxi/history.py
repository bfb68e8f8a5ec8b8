"""What ran: ended jobs, and sums over them; and what is to be removed of them.

Source: DESIGN section 16; everyday.md section g.
"""

import enum
from collections.abc import Mapping

import attrs

from common.ids import JobId
from common.queue.jobs import JobState
from common.shapes import Lenient
from protocol.messages import Request


class Sorting(enum.Enum):
    """What the list of ended jobs is sorted by."""

    ID = "id"
    RECEIVED = "received"
    START = "start"
    END = "end"
    WAIT = "wait"
    RUN = "run"
    NAME = "name"


class Grouping(enum.Enum):
    """What jobs are summed up by."""

    NAME = "name"
    USER = "user"
    LABEL = "label"
    STATUS = "status"
    DAY = "day"


@attrs.frozen(kw_only=True)
class Past(Lenient):
    """A choice of ended jobs, archived and removed ones included; what is left out does not limit it."""

    # instants of the end, in seconds since the epoch: at least `since`, less than `until`
    since: float | None = None
    until: float | None = None
    states: tuple[JobState, ...] = ()
    # expression of the query language; its fields are id, status, name, summary, user, received, eligible, start, end,
    # wait, run, tries, exit_code, why, node, batch, archived and label.KEY, times in seconds
    filter: object = None


@attrs.frozen
class EndedJob(Lenient):
    """A job that has ended; instants are seconds since the epoch, null where the job never came so far."""

    id: JobId
    status: JobState
    # name, else the summary of its first opcode
    name: str
    summary: str
    user: str
    labels: Mapping[str, str]
    received_at: float | None
    # instant from which nothing but limits, locks and resources kept it: after its begin and its dependencies
    eligible_at: float | None
    # instant at which its first opcode had its locks, and was executed for the first time
    start_at: float | None
    end_at: float | None
    # seconds from eligible_at to start_at; null: it never began
    wait_s: float | None
    # seconds in which its opcodes were executed, over all tries; without pauses between tries and waits for locks
    run_s: float | None
    # number of tries of its commands, the first included
    tries: int = 1
    # exit code of the last command; null: none, or it was ended by a signal
    exit_code: int | None = None
    # why it failed or was canceled, one line; empty: it did not
    why: str = ""
    node: str = ""
    batch: str = ""
    is_archived: bool = False


@attrs.frozen
class EndedJobs(Lenient):
    """A part of the history."""

    jobs: tuple[EndedJob, ...]
    # number of jobs that the choice has
    total: int
    # number of ended jobs that are not in the index yet, for a moment after a start
    unread: int = 0


@attrs.frozen
class ReadHistory(Request[EndedJobs]):
    """Ended jobs, sorted and cut."""

    METHOD = "ReadHistory"
    choice: Past = Past()
    sort: Sorting = Sorting.END
    # whether the smallest comes first
    is_ascending: bool = False
    limit: int = 100
    offset: int = 0


@attrs.frozen
class PastSum(Lenient):
    """The jobs of one group together; seconds, null where no job has such a time."""

    group: str
    count: int
    failed: int
    canceled: int
    retried: int
    mean_wait_s: float | None
    p95_wait_s: float | None
    mean_run_s: float | None
    p95_run_s: float | None
    most_run_s: float | None


@attrs.frozen
class SummarizeHistory(Request[tuple[PastSum, ...]]):
    """Sums over ended jobs, the largest group first. `p95`: nearest rank; of fewer than 20 jobs the largest."""

    METHOD = "SummarizeHistory"
    choice: Past = Past()
    by: Grouping = Grouping.NAME
    # key of the label to group by
    label: str = ""
    # name of the time zone by which days are told
    zone: str = "UTC"
    # number of groups, 1 to 1000
    limit: int = 1000


@attrs.frozen
class Pruned(Lenient):
    """What was removed, or would be; numbers of files, or of jobs."""

    archived: int = 0
    jobs: int = 0
    outputs: int = 0
    output_bytes: int = 0
    waits: int = 0
    keys: int = 0
    # instants of the oldest and the newest end among the removed jobs; null: none
    oldest: float | None = None
    newest: float | None = None
    # rows of the history of jobs that were removed long ago
    rows: int = 0
    # number of jobs that are due still, because the time of the call was over: it is to be sent again
    left: int = 0


@attrs.frozen
class Prune(Request[Pruned]):
    """Remove now what the settings say. `is_dry`: tell only."""

    METHOD = "Prune"
    is_dry: bool = False
