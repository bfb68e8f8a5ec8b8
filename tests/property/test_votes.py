"""The count of votes agrees with one that tries all that the unknown votes could be (masterfailover.md 2)."""

import itertools
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from common.nodes.failover import Vote, VoteResult, count_votes

OWN, OWN_EPOCH = "n1", 5
NAMES = st.sampled_from(["n1", "n2", "n3", ""])
VOTES = st.dictionaries(
    st.integers(1, 6).map(lambda number: f"n{number}"),
    st.none() | st.builds(Vote, NAMES, st.none() | st.integers(0, 7)),
    min_size=1,
)


def naive(votes: Mapping[str, Vote | None]) -> VoteResult:
    """Try each way in which the nodes without a vote could decide."""
    heard = [vote for vote in votes.values() if vote is None or vote.master != ""]
    for_own = [vote and vote.master == OWN and not (vote.epoch and vote.epoch > OWN_EPOCH) for vote in heard]
    results = set()
    for guess in itertools.product([True, False], repeat=sum(vote is None for vote in heard)):
        left = iter(guess)
        full = [next(left) if vote is None else bool(vote) for vote in for_own]
        results.add(full.count(True) > full.count(False))
    if len(results) == 2:
        return VoteResult.OPEN
    return VoteResult.WON if results == {True} else VoteResult.LOST


@given(VOTES)
def test_the_verdict_is_that_of_every_completion(votes: Mapping[str, Vote | None]) -> None:
    tally = count_votes(OWN, OWN_EPOCH, votes)

    assert tally.verdict is naive(votes)
    assert tally.voters == sum(vote is None or vote.master != "" for vote in votes.values())


@given(VOTES, NAMES.filter(bool))
def test_an_unknown_vote_that_comes_never_turns_a_verdict(votes: Mapping[str, Vote | None], master: str) -> None:
    before = count_votes(OWN, OWN_EPOCH, votes).verdict
    unknown = [name for name, vote in votes.items() if vote is None]
    if before is VoteResult.OPEN or not unknown:
        return

    after = count_votes(OWN, OWN_EPOCH, {**votes, unknown[0]: Vote(master)})

    assert after.verdict is before


@given(VOTES)
def test_the_rival_is_the_other_node_with_most_votes(votes: Mapping[str, Vote | None]) -> None:
    tally = count_votes(OWN, OWN_EPOCH, votes)
    named = [vote.master for vote in votes.values() if vote is not None and vote.master not in (OWN, "")]

    assert tally.for_rival == max(map(named.count, named), default=0)
    assert tally.rival in (named or [""])
