"""Clients ask several candidates, of which some are old, silent or without a configuration."""

from collections.abc import Iterator

import pytest

from common.errors import Unavailable
from protocol.confd.client import ask_confd
from protocol.confd.gathering import ConfdPeer, GatheredReplies
from protocol.confd.questions import Question
from protocol.confd.trioclient import ask_confd as ask_on_trio
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.machines.confds import KEY
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port

# nobody listens there
SILENT = ConfdPeer(HOST, free_port())


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ConfdPeer]]:
    """A candidate that is up to date, one that is not, and a node that is none."""
    root = tmp_path_factory.mktemp("confds")
    with ConfdCluster(root / "1") as new, ConfdCluster(root / "2") as old, ConfdCluster(root / "3") as none:
        new.document["cluster"] |= {"master_node": "uuid-node2.test", "serial_no": 8}
        new.write()
        none.paths.config_data.unlink()
        for confd in (new, old, none):
            confd.start()
        yield [new.peer, old.peer, none.peer]


def is_right(outcome: GatheredReplies, peers: list[ConfdPeer]) -> bool:
    return outcome.answer() == "node2.test" and sorted(outcome.replies) == sorted(peers) and outcome.is_consistent


def test_the_newest_answer_of_all_candidates_counts(peers: list[ConfdPeer]) -> None:
    assert is_right(ask_confd(KEY, peers, Question.MASTER, asks_all=True), peers)


@pytest.mark.trio
async def test_the_same_on_trio(peers: list[ConfdPeer]) -> None:
    assert is_right(await ask_on_trio(KEY, peers, Question.MASTER, asks_all=True), peers)


@pytest.mark.trio
async def test_a_silent_candidate_of_three_is_not_waited_for(peers: list[ConfdPeer]) -> None:
    asked = [*peers[:2], SILENT]

    outcomes = [ask_confd(KEY, asked, Question.MASTER), await ask_on_trio(KEY, asked, Question.MASTER)]

    assert [outcome.answer() for outcome in outcomes] == ["node2.test"] * 2
    assert [list(outcome.silent) for outcome in outcomes] == [[SILENT]] * 2


@pytest.mark.trio
async def test_nobody_replies_to_whoever_has_another_key(peers: list[ConfdPeer]) -> None:
    for outcome in (
        ask_confd(b"x", peers, Question.PING, timeout_s=0.3),
        await ask_on_trio(b"x", peers, Question.PING, timeout_s=0.3),
    ):
        with pytest.raises(Unavailable, match=r"the same 'hmac\.key'"):
            outcome.answer()
