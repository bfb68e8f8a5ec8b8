"""Who calls, as this daemon sees it.

Source: DESIGN section 15.
"""

from collections.abc import Sequence

from common.access import Role
from common.queue.submitter import NO_UID, JobOwner
from daemons.rapid.calls import Asked, Call
from protocol.rapid.callers import Caller


async def tell_caller(asked: Asked) -> Caller:
    """The caller, with all rights."""
    caller = asked.caller
    rights = caller.rights
    owner = JobOwner(NO_UID, caller.unix_user or "", http_user=caller.name)
    return Caller(
        caller.name,
        caller.unix_user,
        None if rights.role is Role.NONE else rights.role.word,
        tuple(sorted(right.value for right in rights.single)),
        "" if caller.is_anonymous else owner.shown,
    )


def rows() -> Sequence[Call]:
    """The row of the caller."""
    return [Call("GET", "/3/me", tell_caller, "Tell who calls, and with which rights.", gives=Caller, tag="access")]
