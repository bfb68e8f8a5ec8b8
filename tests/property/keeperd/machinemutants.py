"""Ways to break the machine of keeperd, each of which the simulated cluster must find."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from common.lease.records import MasterRecord
from daemons.keeperd.core import campaigning, fitness, machine, mastership
from daemons.keeperd.core.events import Act, CampaignWon, Event, LeaseRenewed, Release, StopDaemons
from daemons.keeperd.core.fitness import MastershipBar
from daemons.keeperd.core.keeper import Keeper, OwnMastership, Step
from daemons.keeperd.core.states import NodeMemory, View

Patch = Callable[[object, str, object], None]


def deadline_from_the_answer(patch: Patch) -> None:
    """The deadline counts from when the answer was heard, not from when the keepalive was sent."""
    renewed, won = mastership.renewed, campaigning.won_campaign

    def heard(keeper: Keeper, event: LeaseRenewed) -> Step:
        return renewed(keeper, attrs.evolve(event, sent_at=keeper.now))

    def heard_won(keeper: Keeper, event: CampaignWon, now: float) -> Step:
        return won(keeper, attrs.evolve(event, sent_at=now), now)

    patch(machine, "renewed", heard)
    patch(machine, "won_campaign", heard_won)


def release_before_the_daemons_are_dead(patch: Patch) -> None:
    step = machine.step

    def released(keeper: Keeper, event: Event, now: float) -> tuple[Keeper, Sequence[Act]]:
        keeper, acts = step(keeper, event, now)
        is_early = keeper.held is not None and any(isinstance(act, StopDaemons) for act in acts)
        return keeper, (*acts, Release(clean=False)) if is_early else acts

    patch(machine, "step", released)


def name_instead_of_nonce(patch: Patch) -> None:
    def is_won(master: MasterRecord | None, nonce: str) -> bool:
        return master is not None and master.node == nonce.split("/")[0]

    def is_ours(held: OwnMastership, view: View) -> bool:
        return view.master is not None and view.master.node == held.record.node

    patch(campaigning, "is_won", is_won)
    patch(machine, "is_ours", is_ours)


def late_keepalive_counts(patch: Patch) -> None:
    """What etcd says is believed although the deadline has passed meanwhile."""

    def never(keeper: Keeper, now: float) -> Step:
        return keeper, ()

    patch(machine, "_expire", never)


def stale_nodes_campaign(patch: Patch) -> None:
    def nothing(keeper: Keeper, view: View, now: float) -> list[MastershipBar]:
        return []

    patch(fitness, "_unwise", nothing)


def older_etcd_is_believed(patch: Patch) -> None:
    def never(view: View, memory: NodeMemory) -> bool:
        return False

    patch(machine, "is_older", never)


def no_margin(patch: Patch) -> None:
    """The deadline is the end of the lease, by the own clock."""
    patch(OwnMastership, "deadline", property(lambda held: held.renewed_at + held.times.ttl_s))


MUTANTS: Mapping[str, Callable[[Patch], None]] = {
    mutant.__name__: mutant
    for mutant in (
        deadline_from_the_answer,
        release_before_the_daemons_are_dead,
        name_instead_of_nonce,
        late_keepalive_counts,
        stale_nodes_campaign,
        older_etcd_is_believed,
        no_margin,
    )
}
