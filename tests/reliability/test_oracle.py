"""The oracle finds each kind of broken promise, and nothing in what is as it should be."""

import attrs
import pytest

from tests.reliability.ledger import Exchange, Ledger, Outcome, answered
from tests.reliability.oracle import Rules, SeenJob, SeenOp, View, judge, judge_rest

ANSWERED = Outcome.ANSWERED
SUBMITTED = Exchange("submit", ((("t1",), ("t2",)),), ANSWERED, (1, 2))
SAW = Exchange("saw", (1,), ANSWERED, "success")
DOUBTFUL = Exchange("submit", ((("t3",), ("t4",)),))
PLAIN = Rules()
TALLY = ["t1+", "t1-", "t2+", "t2-"]


def job(job_id: int, state: str = "success", *, archived: bool = False, token: str = "") -> SeenJob:
    return SeenJob(job_id, state, (SeenOp(token or f"t{job_id}", state),), archived)


GOOD = View((job(1), job(2)), drained=False, filters={}, ports=frozenset(), locks={})


def found(view: View, *exchanges: Exchange, tally: list[str] = TALLY, rules: Rules = PLAIN) -> list[str]:
    return judge(Ledger.of([SUBMITTED, SAW, *exchanges]), view, tally, rules)


def test_nothing_is_wrong_where_all_is_as_it_was_told() -> None:
    assert found(GOOD) == []
    assert list(judge_rest(Ledger.of([SUBMITTED, SAW]), GOOD, TALLY)) == []


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ((job(2),), "job 1 was answered and is there 0 times"),
        ((job(1), job(1), job(2)), "is there 2 times"),
        ((job(1, token="t9"), job(2)), "was answered for"),
        ((job(1, "error"), job(2)), "was told to be success and is error"),
        ((job(1, archived=True), job(2)), "nobody asked for it"),
        ((job(1), job(2), job(3, token="t1")), "was submitted once and is 2 jobs"),
        ((job(1), job(2), job(3, token="t9")), "nobody submitted it"),
        ((job(1), job(2, "queued")), "it would run again"),
    ],
)
def test_a_job_that_is_not_as_it_was_told(jobs: tuple[SeenJob, ...], words: str) -> None:
    assert any(words in text for text in found(attrs.evolve(GOOD, jobs=jobs)))


def test_a_submission_without_an_answer_is_there_whole_or_not_at_all() -> None:
    assert found(GOOD, DOUBTFUL) == []
    assert found(attrs.evolve(GOOD, jobs=(*GOOD.jobs, job(3), job(4))), DOUBTFUL) == []
    assert "of a submission of 2 jobs" in found(attrs.evolve(GOOD, jobs=(*GOOD.jobs, job(3))), DOUBTFUL)[0]


def test_an_opcode_that_ran_twice_or_for_a_job_that_is_not_there() -> None:
    assert "opcode t1 ran 2 times" in found(GOOD, tally=[*TALLY, "t1+"])
    assert "opcode t9 ran and its job is not there" in found(GOOD, tally=[*TALLY, "t9+"])


def test_a_dependent_that_ran_without_the_success_of_the_other() -> None:
    view = attrs.evolve(GOOD, jobs=(job(1), job(2, "error")))

    assert found(view, rules=Rules(after={"t1": "t2"})) == ["t1 ran after a success of t2, and that is none"]


def test_two_that_want_one_lock_and_run_at_a_time() -> None:
    rules = Rules(exclusive=frozenset(("t1", "t2")))

    assert found(GOOD, rules=rules) == []
    assert found(GOOD, tally=["t1+", "t2+", "t1-", "t2-"], rules=rules)


def test_a_flag_a_rule_a_port_and_a_lock_that_were_told_and_are_not_so() -> None:
    assert found(GOOD, Exchange("drain", (True,), ANSWERED))
    assert found(GOOD, Exchange("drain", (True,))) == []
    assert found(GOOD, Exchange("add-filter", ("f",), ANSWERED, "uuid"))
    assert found(attrs.evolve(GOOD, filters={"uuid": "f"}))
    assert found(GOOD, Exchange("port", (14001,), ANSWERED))
    assert found(GOOD, Exchange("lock", ("alice", "node/n1"), ANSWERED, True))
    assert found(GOOD, Exchange("lock", ("alice", "node/n1"), ANSWERED, True), Exchange("free", ("alice",))) == []


def test_what_has_not_come_to_rest() -> None:
    ledger = Ledger.of([SUBMITTED])
    view = attrs.evolve(GOOD, jobs=(job(1, "running"), job(2)), locks={"job/1": frozenset({"node/n1"})})

    texts = list(judge_rest(ledger, view, TALLY[:2]))

    assert texts == [
        "job 1 is still running",
        "job 2 succeeded, and its opcode t2 ran 0 times",
        "job/1 still holds ['node/n1']",
    ]


def test_a_job_that_ended_in_error_though_nobody_hurt_it() -> None:
    view = attrs.evolve(GOOD, jobs=(job(1, "error"), job(2)))

    assert list(judge_rest(Ledger(), view, TALLY)) == []
    assert "ended in error" in next(judge_rest(Ledger(), view, TALLY, Rules(no_job_hurt=True)))


def test_what_was_answered_later_binds_nobody_now() -> None:
    told = [SUBMITTED, Exchange("drain", (True,), ANSWERED), SAW]

    assert Ledger.of(answered(told, 3)).drained == {True}
    assert Ledger.of(answered(told, 1)).drained == {True, False}
    assert Ledger.of(answered(told, 0)).jobs == {}
