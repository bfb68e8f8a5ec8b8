"""Whether this node may become the master, by what the nodes say. Pure.

Theory. A majority of living nodes must agree on who the master was, and this node must know the same: else it has
missed something, and its copies may be old. So may they be if another node has a later configuration, or a later job. A
node that was becoming the master, and was interrupted, goes on: nobody has claimed a higher epoch than its own. Nodes
that have heard of that claim are not compared again: what they have more was never acknowledged, because the old master
was refused here, and by them, before it was everywhere.

Source: masterfailover.md 3; DESIGN section 12.
"""

import enum
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from common.errors import Conflict
from common.nodes.mastership import SeenEpoch


@attrs.frozen
class CopiesHeld:
    """How far a node's copies have come."""

    # serial number of the configuration; 0: there is no copy
    config_serial: int
    # last job id of the queue
    queue_serial: int

    def __str__(self) -> str:
        return f"configuration {self.config_serial} and job {self.queue_serial}"


@attrs.frozen
class NodeSays:
    """What one node says before the master is moved."""

    name: str
    # name of the master by its files; empty: it knows none; None: it gave no reply
    master: str | None = None
    # the highest epoch that it has seen
    epoch: SeenEpoch = attrs.field(factory=SeenEpoch)
    # None: it does not tell, as Ganeti's nodes
    copies: CopiesHeld | None = None


@attrs.frozen
class Situation:
    """This node and the others."""

    own_name: str
    # the master by this node's files of ssconf
    old_master: str
    candidates: Sequence[str]
    # all nodes that were asked, this one too
    says: Sequence[NodeSays]

    @property
    def own(self) -> NodeSays:
        return next((one for one in self.says if one.name == self.own_name), NodeSays(self.own_name))

    @property
    def next_epoch(self) -> int:
        """Higher than any that a node has seen."""
        return 1 + max(one.epoch.number for one in (self.own, *self.says))

    @property
    def begun(self) -> SeenEpoch | None:
        """The epoch with which this node was becoming the master before, if nobody came after it."""
        highest = max((one.epoch for one in self.says), key=lambda epoch: epoch.number, default=SeenEpoch())
        return highest if highest.number and highest.master == self.own_name else None

    @property
    def was_interrupted(self) -> bool:
        """Whether this node was becoming the master already: it has named itself, and nobody came after it."""
        return self.old_master == self.own_name and self.next_epoch == self.own.epoch.number + 1


def check_role(situation: Situation) -> None:
    """Raises: Conflict: this node cannot be the master."""
    own, names = situation.own_name, situation.candidates
    if own not in names:
        known = f"those are {', '.join(sorted(names))}" if names else "it knows none"
        raise Conflict(f"'{own}' is not a master candidate, {known}; run this on one of them")
    if situation.own.master is None:
        raise Conflict(f"the node daemon of '{own}' does not reply; start it with: gantry up")
    if situation.own.copies is None:
        raise Conflict(f"how new the copies of '{own}' are cannot be told; the log of its node daemon says why")
    if not situation.own.copies.config_serial:
        raise Conflict(f"'{own}' has no copy of the configuration; wait until the master has sent it one")


def check_votes(situation: Situation) -> None:
    """Raises: Conflict: too few nodes agree on the master, or this node knows another one than they."""
    asked = len(situation.says)
    votes = Counter(one.master for one in situation.says if one.master)
    name, count = votes.most_common(1)[0] if votes else ("", 0)
    if situation.was_interrupted:
        # some have heard of this node, and some have not
        count = votes.total()
    if 2 * count <= asked:
        raise Conflict(
            f"only {count} of {asked} nodes agree on who the master was, more than half are needed; start more node "
            "daemons, or leave out nodes that are marked offline by --ignore-offline-nodes, or, if you are sure that "
            "no other node is the master, use --no-voting"
        )
    if name != situation.old_master and not situation.was_interrupted:
        raise Conflict(
            f"this node's files are old: by them '{situation.old_master}' is the master, and {count} of {asked} nodes "
            f"say that '{name}' is; run 'gnt-cluster redist-conf' on '{name}' first"
        )


def newer_copies(situation: Situation) -> Sequence[NodeSays]:
    """The other nodes whose copies are newer than this node's."""
    own = situation.own.copies
    if own is None:
        return ()
    return [
        one
        for one in situation.says
        if one.copies is not None
        and one.epoch != situation.begun
        and (one.copies.config_serial > own.config_serial or one.copies.queue_serial > own.queue_serial)
    ]


def check_copies(situation: Situation) -> None:
    """Raises: Conflict: another node has what this one lacks."""
    newer = newer_copies(situation)
    if newer:
        best = max(
            newer, key=lambda one: (one.copies and (one.copies.queue_serial, one.copies.config_serial), one.name)
        )
        raise Conflict(
            f"'{best.name}' has newer copies than this node: it has {best.copies}, this one {situation.own.copies}; "
            "run this there, or accept the loss of what is missing here by --accept-loss"
        )


# Counting the votes on who is the master. Pure.
#
# Theory. Each node of the configuration has one vote, offline ones too: the master that its files of ssconf name. A
# node that does not reply has an unknown vote. More than half of all votes decide; while the unknown votes could still
# change the result, it is open. A node that has never heard of a master, because it is just being joined, has no vote:
# only the daemons of the master, once started, can tell it. A node that has seen a higher epoch than the one that asks
# has granted the mastership to another node, whatever its files still say.
#
# Source: masterfailover.md 2; DESIGN section 12.


class VoteResult(enum.Enum):
    WON = "won"
    LOST = "lost"
    # the unknown votes decide
    OPEN = "open"


@attrs.frozen
class Vote:
    """What one node says."""

    # name of the master by its files; empty: it has never heard of one
    master: str
    # highest epoch of a master that it has seen; None: it knows none, as Ganeti's
    epoch: int | None = None


@attrs.frozen
class VoteTally:
    """The votes, counted for one node."""

    voters: int
    in_favor: int
    unknown: int
    # the other node that most of the other votes name; empty: none is named
    rival: str = ""
    # votes for it
    for_rival: int = 0

    @property
    def verdict(self) -> VoteResult:
        if 2 * self.in_favor > self.voters:
            return VoteResult.WON
        return VoteResult.OPEN if 2 * (self.in_favor + self.unknown) > self.voters else VoteResult.LOST

    def __str__(self) -> str:
        rival = f", {self.for_rival} for {self.rival}" if self.rival else ""
        return f"{self.in_favor} of {self.voters} nodes are for this one{rival}, and {self.unknown} gave no vote"


def count_votes(own_name: str, own_epoch: int, votes: Mapping[str, Vote | None]) -> VoteTally:
    """Count the votes for a node.

    Args: votes: of all nodes of the configuration, by name; None: not known.
    """
    known = [vote for vote in votes.values() if vote is not None and vote.master]
    unknown = sum(vote is None for vote in votes.values())
    in_favor = sum(vote.master == own_name and (vote.epoch or 0) <= own_epoch for vote in known)
    rivals = Counter(vote.master for vote in known if vote.master != own_name)
    # the first of the names among equals, so that the same votes give the same text
    rival = min(rivals, key=lambda name: (-rivals[name], name), default="")
    return VoteTally(len(known) + unknown, in_favor, unknown, rival, rivals[rival])
