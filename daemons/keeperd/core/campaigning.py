"""When this node campaigns, and what it does when it has won.

Theory. Nobody counts votes: whoever is the first to put the key is the master. Priorities are delays before a campaign,
so a better node that lives is first, and one that is silent holds nobody up. A node that an operator has named goes at
once, and the others give it a head start.

Source: lease.md 2 and 7.
"""

from typing import Final

import attrs

from common.lease.records import MasterRecord, WantedKind
from common.lease.times import LeaseTimes
from daemons.keeperd.core.events import (
    Act,
    Campaign,
    CampaignLost,
    CampaignWon,
    FenceOld,
    Look,
    Renew,
    SetDeadline,
    TellNodes,
)
from daemons.keeperd.core.fitness import bars, may_still_run, settled
from daemons.keeperd.core.keeper import EndCause, Keeper, OwnMastership, Step, moved, remembering
from daemons.keeperd.core.mastership import give_up
from daemons.keeperd.core.states import State, View

# seconds that each better priority goes before this one, and most of the jitter
RANK_S: Final = 0.5
JITTER_S: Final = 0.2
# seconds that a node which an operator has named goes before the others
HEAD_START_S: Final = 3.0
# seconds until a campaign that etcd has refused is tried again
RETRY_S: Final = 2.0


def campaign_at(keeper: Keeper) -> float | None:
    """Return when this node campaigns if nothing changes; None: not at all."""
    view = keeper.view
    if keeper.state is not State.FOLLOW or view is None or keeper.vacant_at is None:
        return None
    if keeper.suspicions or keeper.is_ending:
        return None
    request = view.wanted
    is_named = request is not None and request.node == keeper.me.node
    is_taken_over = request is not None and is_named and request.kind is WantedKind.TAKEOVER
    if keeper.in_maintenance and not is_taken_over:
        return None
    if is_named:
        return keeper.vacant_at
    return max(keeper.vacant_at + delay_s(keeper, view), keeper.made_way_until)


def delay_s(keeper: Keeper, view: View) -> float:
    """Return how long this node leaves the mastership to better ones, in seconds."""
    better = {
        record.priority
        for record in view.others.values()
        if record.priority > keeper.me.priority and not record.reasons
    }
    request = view.wanted
    head_start = HEAD_START_S if request is not None and request.node not in ("", keeper.me.node) else 0.0
    return head_start + RANK_S * len(better) + JITTER_S * keeper.jitter


def campaign(keeper: Keeper, now: float) -> Step:
    """Try to become the master; `campaign_at` has come."""
    view = keeper.view
    assert view is not None
    memory = attrs.evolve(keeper.memory, is_campaigning=True)
    keeper, stored = remembering(moved(keeper, State.CAMPAIGN), memory, now)
    above = max(memory.epoch, view.epoch, keeper.nodes_epoch)
    return keeper, (*stored, Campaign(above, view.epoch_revision))


def lost_campaign(keeper: Keeper, event: CampaignLost, now: float) -> Step:
    if keeper.state is not State.CAMPAIGN:
        return keeper, ()
    # the campaign of an earlier process here may still be won by a late transaction: the memory of it stays
    keeper = attrs.evolve(keeper, vacant_at=None)
    if event.reason:
        pause = RETRY_S + JITTER_S * keeper.jitter
        keeper = attrs.evolve(keeper, not_before=now + pause, pause_reason=event.reason)
    return settled(keeper, now), (Look(),)


def won_campaign(keeper: Keeper, event: CampaignWon, now: float) -> Step:
    """Hold the mastership, tell all nodes; daemons are started when those have been told."""
    view = keeper.view
    if keeper.state is not State.CAMPAIGN or view is None:
        return keeper, ()
    memory = attrs.evolve(
        keeper.memory,
        epoch=max(keeper.memory.epoch, event.fence.epoch),
        own_epoch=event.fence.epoch,
        revision=max(keeper.memory.revision, event.fence.master_revision),
        lacking=0,
        is_campaigning=False,
    )
    held = _held(keeper, event, view)
    unfit = bars(keeper, now)
    keeper = attrs.evolve(keeper, held=held, view=_with_us(view, held), vacant_at=None)
    keeper, stored = remembering(keeper, memory, now)
    keeper = attrs.evolve(moved(keeper, State.TAKING), cause=EndCause.NONE)
    if unfit or keeper.suspicions or keeper.is_ending or now >= held.stop_at:
        keeper, ended = give_up(keeper, now)
        return keeper, (*stored, *ended)
    return keeper, (*stored, *_taking_up(keeper, held))


def _held(keeper: Keeper, event: CampaignWon, view: View) -> OwnMastership:
    return OwnMastership(
        fence=event.fence,
        record=event.record,
        times=LeaseTimes.of(event.record.ttl_s, request_s=keeper.me.request_s),
        renewed_at=event.sent_at,
        request=view.wanted,
        # the campaign has proven that this view's was the last mastership
        before=view.last_master,
    )


def _with_us(view: View, held: OwnMastership) -> View:
    return attrs.evolve(
        view,
        master=held.record,
        master_revision=held.fence.master_revision,
        epoch=held.epoch,
        epoch_revision=held.fence.epoch_revision,
    )


def _taking_up(keeper: Keeper, held: OwnMastership) -> tuple[Act, ...]:
    fence_old = (FenceOld(held.before),) if held.before and may_still_run(held.before, keeper) else ()
    return (Renew(held.epoch, held.times), SetDeadline(held.deadline), *fence_old, TellNodes(held.fence))


def is_won(master: MasterRecord | None, nonce: str) -> bool:
    """Whether a campaign of unknown outcome was won, by the key that is there now: its nonce counts, not its node."""
    return master is not None and master.nonce == nonce
