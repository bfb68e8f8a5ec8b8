"""What the replies of nodes to the claim of an epoch mean for the mastership.

A node grants a number to one node only. One that got a call of this mastership before its claim, as after its own
start, has the number without a name: it grants it to nobody, and refuses the lower ones as it should.

Source: lease.md 7; DESIGN section 12.
"""

from collections.abc import Collection, Mapping, Sequence

import attrs

from protocol.noded.mastership import Standing


@attrs.frozen
class Claimed:
    """What one round of claims has shown."""

    # the highest epoch that speaks against ours; 0: none does
    higher: int
    # names of nodes that do not know our epoch yet, as asked
    silent: tuple[str, ...]


def judge_claims(
    asked: Sequence[str], granted: Collection[str], standings: Mapping[str, Standing], epoch: int, own_name: str
) -> Claimed:
    """Judge a round of claims.

    Args:
        granted: names of nodes that have granted our epoch.
        standings: what nodes know that have refused it, as far as they told.
    """
    against = [known for known in standings.values() if not _is_ours(known, epoch, own_name)]
    # one that has granted our number to another node counts, too
    higher = max((max(known.epoch, epoch + 1) for known in against), default=0)
    knowing = {name for name, known in standings.items() if known.epoch == epoch}.union(granted)
    return Claimed(higher, tuple(name for name in asked if name not in knowing))


def _is_ours(standing: Standing, epoch: int, own_name: str) -> bool:
    """Whether nothing that this node knows speaks against our mastership."""
    return standing.epoch < epoch or (standing.epoch == epoch and standing.epoch_master in ("", own_name))
