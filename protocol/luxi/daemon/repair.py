"""What the queue of the master has lost, and where it can be had: a call of ours.

Source: DESIGN section 11, "a job that is missing on the master".
"""

from collections.abc import Mapping

import attrs

from common.shapes import Lenient
from protocol.messages import Request


@attrs.frozen
class LostFile(Lenient):
    """A job, a submission key or a history of waits that the master lacks, though it has not removed it."""

    # name below the folder of data
    file: str
    # null: it is no job
    job: int | None = None
    # candidates that have a copy
    nodes: tuple[str, ...] = ()
    # what the master itself knows of the job, such as 'history' or 'output'
    known_by: tuple[str, ...] = ()
    # what it becomes here: 'held', the status of a job that has ended, or 'kept'; "": nobody has it
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
    # number of lost files that this reply does not tell
    left: int = 0


@attrs.frozen
class Repair(Request[Repaired]):
    """Tell what is lost.

    `is_dry`: change nothing; otherwise fetch it from the candidates. `forget`: jobs that are lost, and count as removed
    from now on; candidates lose their copies.
    """

    METHOD = "Repair"
    is_dry: bool = True
    forget: tuple[int, ...] = ()
