"""Which reply of several candidates counts (confd.md 6)."""

import pytest

from common.errors import NotFound, RemoteError, Unavailable
from protocol.confd.gathering import ConfdPeer, Gathering, coverage, enough
from protocol.confd.questions import ConfdFault, ConfdRequest, Question, Reply, ReplyStatus, read_request, seal, unseal
from tests.support.machines.confds import KEY

PEERS = [ConfdPeer(f"192.0.2.{number}", 1814) for number in range(1, 8)]

SALTS = [f"r{number}" for number in range(1, 8)]


def gathered(*replies: Reply, question: Question = Question.MASTER) -> Gathering:
    gathering = Gathering(KEY, question, None, dict(zip(PEERS[: max(len(replies), 1)], SALTS, strict=False)))
    for salt, reply in zip(SALTS, replies, strict=False):
        gathering.take(seal(KEY, reply.to_text(), salt))
    return gathering


def ok(answer: object, serial: int) -> Reply:
    return Reply(ReplyStatus.OK, answer, serial)


def test_the_answer_with_the_highest_serial_number_counts() -> None:
    outcome = gathered(ok("old", 7), ok("new", 9), ok("older", 3)).outcome()

    assert outcome.answer() == "new"
    assert outcome.is_consistent


def test_an_error_counts_only_while_nobody_has_an_answer() -> None:
    error = Reply(ReplyStatus.ERROR, "this node has no configuration")

    assert gathered(error, ok("n1", 0), error).outcome().answer() == "n1"
    with pytest.raises(RemoteError, match="this node has no configuration"):
        gathered(error, error).outcome().answer()


def test_an_unknown_entry_is_not_found() -> None:
    with pytest.raises(NotFound):
        gathered(Reply(ReplyStatus.ERROR, ConfdFault.UNKNOWN_ENTRY.value)).outcome().answer()


def test_answers_of_one_serial_number_that_differ_are_inconsistent() -> None:
    assert not gathered(ok("n1", 7), ok("n2", 7)).outcome().is_consistent
    assert gathered(ok("n1", 7), ok("n2", 7), ok("n3", 8)).outcome().is_consistent


def test_the_order_of_addresses_says_nothing() -> None:
    outcome = gathered(ok(["a", "b"], 7), ok(["b", "a"], 7), question=Question.NODE_IPS).outcome()

    assert outcome.is_consistent


def test_who_does_not_reply_is_named() -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1:1814"):
        gathered().outcome().answer()


def test_each_one_that_is_silent_is_asked_with_a_salt_of_its_own() -> None:
    gathering = Gathering(KEY, Question.PING, None, {PEERS[0]: "r1", PEERS[1]: "r2"})
    gathering.take(seal(KEY, ok(1, 0).to_text(), "r2"))

    (asked,) = gathering.datagrams(1_400_000_000.9).items()

    signed = unseal(KEY, asked[1])
    assert signed is not None
    assert (asked[0], signed.salt) == (PEERS[0], "1400000000")
    assert read_request(signed.text) == ConfdRequest(Question.PING, "r1")


@pytest.mark.parametrize(
    "datagram",
    [
        seal(KEY, ok("n1", 7).to_text(), "another"),
        seal(b"wrong", ok("n1", 7).to_text(), "r1"),
        seal(KEY, "{}", "r1"),
        seal(KEY, '{"protocol":1,"status":9,"answer":1,"serial":1}', "r1"),
        b"",
    ],
)
def test_what_is_no_genuine_reply_to_this_question_is_ignored(datagram: bytes) -> None:
    gathering = gathered()

    gathering.take(datagram)

    assert gathering.silent == PEERS[:1]


def test_a_repeated_reply_counts_once() -> None:
    gathering = Gathering(KEY, Question.PING, None, {PEERS[0]: "r1", PEERS[1]: "r2"})
    for _ in range(2):
        gathering.take(seal(KEY, ok(1, 0).to_text(), "r1"))

    assert not gathering.is_complete


def test_most_of_those_asked_are_waited_for() -> None:
    assert [enough(count) for count in range(1, 9)] == [1, 2, 2, 3, 3, 4, 4, 5]
    assert [coverage(count, None) for count in (1, 6, 9)] == [1, 6, 6]
    assert coverage(9, 2) == 2
