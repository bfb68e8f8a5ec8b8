"""The oracle finds each kind of broken promise, and nothing in what is as it should be."""

import attrs
import pytest

from tests.reliability.ledger import Exchange, Ledger, Outcome, answered
from tests.reliability.oracle import Rules, SeenJob, SeenOp, View, judge, judge_rest, untold

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


def test_a_schedule_or_resource_that_is_not_as_it_was_told() -> None:
    told = Exchange("keep", ("resource cores", 4), ANSWERED)
    view = attrs.evolve(GOOD, kept={"resource cores": 4})

    assert found(view, told) == []
    assert found(GOOD, told) == ["resource cores is None, and was told to be 4"]
    assert found(view) == ["resource cores is there and nobody made it"]
    # a call without an answer may have been carried out
    for kept in ({}, {"resource cores": 4}):
        assert found(attrs.evolve(GOOD, kept=kept), told, Exchange("keep", ("resource cores", None))) == []


def test_a_run_of_a_schedule_has_one_job() -> None:
    told = Exchange("runs", (), ANSWERED, ["nightly at 7"])

    assert found(attrs.evolve(GOOD, runs=("nightly at 7",)), told) == []
    assert found(GOOD, told) == ["run nightly at 7 was told to have a job and has none"]
    assert found(attrs.evolve(GOOD, runs=("nightly at 7",) * 2), told) == ["run nightly at 7 has 2 jobs"]


def test_a_removed_job_that_comes_back_and_an_id_that_is_given_again() -> None:
    pruned = Exchange("prune", ((1,),), ANSWERED, True)
    gone = attrs.evolve(GOOD, jobs=(job(2),))

    assert found(gone, pruned) == []
    assert found(GOOD, pruned) == ["job 1 was told to be removed and is there"]
    assert found(gone, Exchange("prune", ((1,),))) == []
    again = Exchange("submit", ((("t3",),),), ANSWERED, (1,))
    assert "job 1 was given twice" in found(gone, pruned, again)
    assert "2 was answered, and 1 is the highest" in found(attrs.evolve(GOOD, highest_id=1))[0]


def test_a_history_that_lacks_an_ended_job_or_has_one_too_many() -> None:
    assert found(attrs.evolve(GOOD, past={1: "success", 2: "success"})) == []
    assert found(attrs.evolve(GOOD, past={1: "error"})) == [
        "job 1 is success, and the history says error",
        "job 2 is success, and the history says None",
    ]
    fewer = attrs.evolve(GOOD, jobs=(job(2),), past={1: "success", 2: "success"})
    assert "the history has job 1, and it is not there" in found(fewer)


def test_an_end_of_which_nobody_was_told() -> None:
    rules = Rules(told=frozenset({"t1"}))

    assert untold(GOOD, [*TALLY, "told 1"], rules) == []
    assert untold(GOOD, TALLY, rules) == ["nobody was told of the end of job 1"]
