"""What this keeperd says of itself.

Source: lease.md 2.
"""

from common.lease.deadline import boottime
from common.lease.records import MemberRecord
from common.system.daemons.program import release
from daemons.keeperd.core.fitness import bars, only_lacks_copies
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.standings import ROLES
from daemons.keeperd.core.states import State
from daemons.keeperd.identity import Identity


def member_record(keeper: Keeper | None, identity: Identity) -> MemberRecord:
    """The record of this node as a member."""
    state = keeper.state if keeper else State.OFF
    return MemberRecord(
        node=identity.node,
        nonce=identity.nonce,
        machine_id=identity.machine_id,
        boot_id=identity.boot_id,
        release=release(),
        state=state.value,
        role=ROLES[state],
        reasons=_reasons(keeper) if keeper else (),
        lacks_copies=keeper is not None and only_lacks_copies(keeper, boottime()),
        priority=keeper.me.priority if keeper else 0,
        epoch=keeper.memory.epoch if keeper else 0,
    )


def _reasons(keeper: Keeper) -> tuple[str, ...]:
    found = tuple(bar.reason for bar in bars(keeper, boottime()))
    if not keeper.is_draining or keeper.leaving is None:
        return found
    to = f"'{keeper.leaving.node}'" if keeper.leaving.node else "another node"
    what = "the jobs that run here are being killed" if keeper.leaving.kill else "the jobs that run here end first"
    return (*found, f"makes way for {to}; {what}; take it back: gantry cluster maintenance on, and then off")
