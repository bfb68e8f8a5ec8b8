"""Facts of luxid that tell whether all is well. Ours.

The daemon measures them itself: another user may have other room on a disk, or may not see it.
"""

import attrs

from common.metrics.process import ProcessUse
from common.shapes import Lenient
from protocol.messages import Request


@attrs.frozen
class Room(Lenient):
    """The room on the disk of a folder, for the daemons' user."""

    path: str
    free_bytes: int = 0
    size_bytes: int = 0
    # files that may still be made, and all; 0: the disk counts none
    free_files: int = 0
    files: int = 0
    # why it is not known; "": it is
    failure: str = ""
    # whether there is no such folder: somebody has moved or removed it while the daemons run
    is_gone: bool = False


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
    untold: int = 0
    # deliveries of events that were given up
    given_up: int = 0
    # rules of `[notify]` whose receivers want no more
    rules_off: tuple[str, ...] = ()


@attrs.frozen
class ReadHealth(Request[LuxidHealth]):
    METHOD = "ReadHealth"
