"""Changes of the configuration without the locks of what was changed; ours."""

import attrs

from common.shapes import Lenient
from protocol.messages import Request


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
