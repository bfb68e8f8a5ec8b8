"""Ask the nodes who is the master: for daemons that may only run there.

Source: masterfailover.md 2.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs
import trio

from common.errors import Unavailable
from common.nodes.failover import Vote, VoteResult, VoteTally, count_votes
from common.replica.replica import NoLongerMaster
from common.system.log import get_log
from protocol.noded.call import NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.membership import MasterNodeName

# pause before the nodes are asked again while the votes decide nothing, and how often they are
PAUSE_S: Final = 10.0
REPEATS: Final = 6
# limit of one question; the votes of slower nodes are not known
LIMIT_S: Final = 5.0
_log: Final = get_log(__name__)


@attrs.frozen
class Contender:
    """The node that asks whether it is the master."""

    name: str
    epoch: int


async def win_vote(client: NodeClient, voters: Sequence[NodeAddress], own: Contender) -> None:
    """Return when more than half of the voters say that this node is the master.

    Raises:
        NoLongerMaster: they cannot, another node is.
        Unavailable: too many votes stay unknown.
    """
    tally = await ask_once(client, voters, own)
    for left in range(REPEATS, 0, -1):
        if tally.verdict is not VoteResult.OPEN:
            break
        _log.warning("votes.open", votes=tally, asked_again_s=PAUSE_S, repeats_left=left)
        await trio.sleep(PAUSE_S)
        tally = await ask_once(client, voters, own)
    _log.info("votes.counted", votes=tally, verdict=tally.verdict.value)
    match tally.verdict:
        case VoteResult.WON:
            return
        case VoteResult.LOST:
            raise NoLongerMaster(_who_is(tally))
        case VoteResult.OPEN:
            raise Unavailable(
                f"whether this node is the master cannot be told: {tally}; start more node daemons, or, "
                "if the other nodes are gone for good, start this one with: gantry up --no-voting --yes-do-it"
            )
        case _:
            assert_never(tally.verdict)


async def ask_once(client: NodeClient, voters: Sequence[NodeAddress], own: Contender) -> VoteTally:
    """Ask all voters at once; return as soon as the votes that are still to come change nothing."""
    votes: dict[str, Vote | None] = {voter.name: None for voter in voters}

    async with trio.open_nursery() as nursery:

        async def ask(voter: NodeAddress) -> None:
            outcomes = await client.call_nodes([voter], MasterNodeName(), LIMIT_S, even_paused=True)
            votes[voter.name] = _vote(outcomes[voter.name])
            if count_votes(own.name, own.epoch, votes).verdict is not VoteResult.OPEN:
                nursery.cancel_scope.cancel()

        for voter in voters:
            nursery.start_soon(ask, voter)
    return count_votes(own.name, own.epoch, votes)


def _vote(outcome: Outcome[str]) -> Vote | None:
    master = MasterNodeName.named_by(outcome)
    return None if master is None else Vote(master, outcome.epoch if isinstance(outcome, Replied) else None)


def _who_is(tally: VoteTally) -> str:
    if tally.rival:
        return f"this node is not the master; {tally.rival} is (by {tally.for_rival} of {tally.voters} nodes)"
    return "this node is not the master; another node has claimed it since"
