"""Counting the votes on who is the master. Pure.

Theory. Each node of the configuration has one vote, offline ones too: the master that its files of ssconf name. A node
that does not reply has an unknown vote. More than half of all votes decide; while the unknown votes could still change
the result, it is open. A node that has never heard of a master, because it is just being joined, has no vote: only the
daemons of the master, once started, can tell it. A node that has seen a higher epoch than the one that asks has granted
the mastership to another node, whatever its files still say.

Source: masterfailover.md 2; DESIGN section 12.
"""

import enum
from collections import Counter
from collections.abc import Mapping

import attrs


class Verdict(enum.Enum):
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
class Tally:
    """The votes, counted for one node."""

    voters: int
    in_favor: int
    unknown: int
    # the other node that most of the other votes name; empty: none is named
    rival: str = ""
    # votes for it
    for_rival: int = 0

    @property
    def verdict(self) -> Verdict:
        if 2 * self.in_favor > self.voters:
            return Verdict.WON
        return Verdict.OPEN if 2 * (self.in_favor + self.unknown) > self.voters else Verdict.LOST

    def __str__(self) -> str:
        rival = f", {self.for_rival} for {self.rival}" if self.rival else ""
        return f"{self.in_favor} of {self.voters} nodes are for this one{rival}, and {self.unknown} gave no vote"


def count_votes(own_name: str, own_epoch: int, votes: Mapping[str, Vote | None]) -> Tally:
    """Count the votes for a node.

    Args: votes: of all nodes of the configuration, by name; None: not known.
    """
    known = [vote for vote in votes.values() if vote is not None and vote.master]
    unknown = sum(vote is None for vote in votes.values())
    in_favor = sum(vote.master == own_name and (vote.epoch or 0) <= own_epoch for vote in known)
    rivals = Counter(vote.master for vote in known if vote.master != own_name)
    # the first of the names among equals, so that the same votes give the same text
    rival = min(rivals, key=lambda name: (-rivals[name], name), default="")
    return Tally(len(known) + unknown, in_favor, unknown, rival, rivals[rival])
