"""luxid itself: its health, its metrics, the copies of its files, and its move to another node."""

from collections.abc import Mapping
from typing import Final

import attrs

from common.health import Room
from common.shapes import Lenient
from common.system.processuse import ProcessUse
from protocol.messages import Request
from protocol.metrics import DaemonMetrics

# Whether the master candidates have the queue of the master: calls of ours.
#
# Source: DESIGN section 12.


# a name of ours for QueryConfigValues: what was found when the queue was compared last, null if it is not copied
QUEUE_VERDICTS: Final = "queue_verdicts"


@attrs.frozen
class QueueVerdict(Lenient):
    """One candidate; a list of these is the value of `QUEUE_VERDICTS`."""

    node: str
    # seconds since 1970 of the comparison; null: it is not over, or failed
    at: float | None = None
    # number of files that differed, and the names of the first ones; they were sent since, if that was possible
    differ: int = 0
    files: tuple[str, ...] = ()
    # why the node could not be asked; null: it was
    failure: str | None = None
    # whether the node takes files of ours beside the jobs: keys of submissions, histories of waits
    takes_ours: bool = True
    # number of files that it has set aside, because the master has lost them, and the first ones as they were called
    lost: int = 0
    lost_files: tuple[str, ...] = ()


@attrs.frozen
class CheckQueueCopies(Request[tuple[QueueVerdict, ...] | None]):
    """Compare the queue with all candidates now; null: it is not copied.

    Cost: each file is read here and there.
    """

    METHOD = "CheckQueueCopies"


# Facts of luxid that tell whether all is well. Ours.
#
# The daemon measures them itself: another user may have other room on a disk, or may not see it.


@attrs.frozen
class LuxidHealth(Lenient):
    # the folders of data, of sockets and of logs
    rooms: tuple[Room, ...] = ()
    process: ProcessUse = attrs.field(factory=ProcessUse)
    # files of the queue that are lost here, and that candidates have set aside
    lost_files: int = 0
    # job files that were damaged, and moved away
    damaged_files: int = 0
    # jobs whose files cannot be read at the moment
    unread_jobs: int = 0
    # jobs since the start of luxid of which a command's output was lost, as the disk took none
    lost_outputs: int = 0
    # ended jobs that the history does not have yet
    history_behind: int = 0
    # events that somebody is still to be told of
    notices: int = 0
    # deliveries of events that were given up
    given_up: int = 0
    # rules of `[notify]` whose receivers want no more
    rules_off: tuple[str, ...] = ()


@attrs.frozen
class ReadHealth(Request[LuxidHealth]):
    METHOD = "ReadHealth"


@attrs.frozen
class ReadMetrics(Request[DaemonMetrics]):
    """The numbers of luxid for graphs and alerts."""

    METHOD = "ReadMetrics"


# The call of luxid by keeperd that prepares the move of the mastership to another node; ours.
#
# Source: DESIGN section 14; lease.md 7.


@attrs.frozen
class PrepareMove(Request[None]):
    """Take and start nothing more, and return when nothing of a job runs here but what goes on elsewhere.

    Submissions wait, or are refused as at a busy time: "the mastership is being moved". Commands on nodes go on, and
    are taken up by the next master. It holds as long as the caller's connection: when that ends, also after the reply,
    luxid takes and starts work again.
    """

    METHOD = "gantry_prepare_move"
    # whether jobs that run on this node are killed; false: they are waited for
    kill: bool


# What the queue of the master has lost, and where it can be had: a call of ours.
#
# Source: DESIGN section 11, "a job that is missing on the master".


@attrs.frozen
class LostFile(Lenient):
    """A job, a submission key or a history of waits that the master lacks, though it has not removed it."""

    # name below the folder of data
    file: str
    # null: it is no job
    job: int | None = None
    # candidates that have a copy; the master itself, if it had set it aside before it was the master
    nodes: tuple[str, ...] = ()
    # what the master itself knows of the job, such as 'history' or 'output'
    known_by: tuple[str, ...] = ()
    # what it becomes here: 'held', the status of a job that has ended or that luxid has, or 'kept'; "": nobody has it
    becomes: str = ""
    # why it becomes that; may be empty
    why: str = ""
    # whether it is here again
    is_done: bool = False
    # why it could not be fetched; null: nothing went wrong
    failure: str | None = None


@attrs.frozen
class Repaired(Lenient):
    # the jobs first, by id
    lost: tuple[LostFile, ...] = ()
    # candidates that could not be asked -> why
    unasked: Mapping[str, str] = attrs.field(factory=dict)
    # number of lost files behind the last of these
    left: int = 0


@attrs.frozen
class Repair(Request[Repaired]):
    """Tell what is lost.

    `is_dry`: change nothing; otherwise fetch it from the candidates. `forget`: jobs that are lost, and count as removed
    from now on; candidates lose their copies. `after`: the last file of the reply before, which had more `left`.
    """

    METHOD = "Repair"
    is_dry: bool = True
    forget: tuple[int, ...] = ()
    after: str = ""
