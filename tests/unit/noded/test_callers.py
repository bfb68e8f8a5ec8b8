"""The list of callers that a node daemon obeys (noded.md 3)."""

from daemons.noded.callers import read_candidates


def test_a_candidate_without_a_digest_admits_nobody() -> None:
    assert read_candidates(b"uuid1=\nuuid2= ab:cd \nuuid3\n") == {"AB:CD"}
