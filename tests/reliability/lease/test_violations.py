"""The judgement of a history finds each kind of broken promise, and nothing in a history without one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from tests.reliability.lease.history import (
    Asked,
    Cancel,
    EndedJob,
    Line,
    Look,
    Notes,
    Read,
    Rest,
    Submit,
    Told,
    Write,
    read_lines,
    read_notes,
)
from tests.reliability.lease.violations import violations
from tests.reliability.ledger import Outcome


def told(asked: Asked, at: int, answer: object = None, by: str = "node1", *, lasts: int = 1) -> Told:
    return Told("c1", asked, 10 * at, 10 * at + lasts, Outcome.ANSWERED, answer, by)


def untold(asked: Asked, at: int) -> Told:
    """No answer came."""
    return attrs.evolve(told(asked, at), outcome=Outcome.UNKNOWN, by="")


SUBMITTED = (told(Submit("k1", ("a", "b")), 1, (7, 8)), told(Submit("k2", ("c",)), 2, (9,)))
RAN = read_lines(
    """enter a l1 node1
leave a l1 node1
enter b l1 node2
leave b l1 node2
"""
)
AT_REST = {7: EndedJob("success", "a"), 8: EndedJob("success", "b"), 9: EndedJob("error", "c")}


def judge(
    *more: Told,
    submitted: Sequence[Told] = SUBMITTED,
    lines: Sequence[Line] = RAN,
    jobs: Mapping[int, EndedJob] = AT_REST,
    things: Mapping[str, object] | None = None,
) -> list[str]:
    return violations([*submitted, *more], lines, Rest(jobs, things or {}))


def the_one(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_a_sound_history_has_no_violation() -> None:
    assert (
        judge(
            told(Look(7), 3, "running"),
            told(Look(7), 4, "success", "node2"),
            told(Submit("k1", ("a", "b")), 5, (7, 8), "node2"),
            untold(Submit("k3", ("d", "e")), 6),
            told(Write("tag", "there"), 6),
            told(Read("tag"), 7, "there", "node2"),
            told(Write("tag", None), 8),
            told(Read("tag"), 9, None),
            things={"tag": None},
        )
        == []
    )


def test_an_acknowledged_job_that_is_not_there_is_lost() -> None:
    found = judge(jobs={job_id: job for job_id, job in AT_REST.items() if job_id != 9})

    assert the_one(found) == "job 9 (c) was acknowledged by node1 and is lost"


def test_a_job_under_the_id_of_another_is_found() -> None:
    found = judge(jobs={**AT_REST, 9: EndedJob("error", "x")})

    assert "job 9 was acknowledged for c and is x" in found
    assert "x is a job and nobody submitted it" in found


def test_a_part_of_a_submission_is_found() -> None:
    found = judge(untold(Submit("k3", ("d", "e")), 3), jobs={**AT_REST, 10: EndedJob("error", "d")})

    assert the_one(found) == "of the submission ('d', 'e') only a part is there"


def test_a_submission_that_became_two_jobs_is_found() -> None:
    found = judge(jobs={**AT_REST, 10: EndedJob("error", "c")})

    assert the_one(found) == "c was submitted once and is 2 jobs"


def test_two_answers_to_one_key_are_found() -> None:
    found = judge(told(Submit("k2", ("c",)), 3, (10,), "node2"), jobs={**AT_REST, 10: EndedJob("error", "c")})

    assert "the submission k2 was answered by (9,) and by (10,)" in found


def test_an_id_of_two_submissions_is_found() -> None:
    found = judge(told(Submit("k3", ("d",)), 3, (9,), "node2"))

    assert "the id 9 was given to k2 and to k3" in found


def test_what_ran_twice_is_found() -> None:
    twice = [*RAN, Line("enter", "c", "l2", "node1"), Line("enter", "c", "l3", "node2")]

    assert the_one(judge(lines=twice)) == "c ran 2 times, on node1, node2"


def test_a_success_that_did_not_run_is_found() -> None:
    found = judge(jobs={**AT_REST, 9: EndedJob("success", "c")})

    assert the_one(found) == "job 9 (c) has succeeded; its command began 0 times and came to its end 0 times"


def test_a_job_that_does_not_end_is_found() -> None:
    assert the_one(judge(jobs={**AT_REST, 9: EndedJob("waiting", "c")})) == "job 9 (c) is still waiting"


def test_company_under_an_exclusive_lock_is_found() -> None:
    both = read_lines("enter a l1 node1\nenter b l1 node2\nleave a l1 node1\nleave b l1 node2\n")

    assert the_one(judge(lines=both)) == "b on node2 entered l1 while a had it"


def test_the_kernel_finds_company_of_one_that_was_killed() -> None:
    clash = [Line("enter", "c", "l1", "node1"), *RAN, Line("clash", "b", "l1", "node2")]

    assert the_one(judge(lines=clash)) == "b on node2 had l1 while another one had it"


def test_one_that_was_killed_under_a_lock_leaves_it_free() -> None:
    killed = [Line("enter", "c", "l1", "node1"), *RAN]

    assert judge(lines=killed) == []


@pytest.mark.parametrize(("first", "second"), [("success", "error"), ("error", "running"), ("running", "queued")])
def test_an_answer_that_is_taken_back_is_found(first: str, second: str) -> None:
    found = judge(told(Look(9), 3, first), told(Look(9), 4, second, "node2"), jobs=AT_REST)

    assert f"job 9 was told to be {first} by node1 and later to be {second} by node2" in found


def test_a_job_that_was_told_and_is_gone_later_is_found() -> None:
    found = judge(told(Look(9), 3, "queued"), told(Look(9), 4, None, "node2"))

    assert the_one(found) == "job 9 was told to be queued by node1 and later to be None by node2"


def test_answers_that_overlap_contradict_nothing() -> None:
    assert judge(told(Look(9), 3, "error", lasts=15), told(Look(9), 4, "running", lasts=15)) == []


def test_an_end_that_is_another_one_at_last_is_found() -> None:
    assert the_one(judge(told(Look(9), 3, "canceled"))) == "job 9 was told to be canceled by node1 and is error"


def test_a_canceled_job_that_succeeds_is_found() -> None:
    found = judge(told(Cancel(7), 3, True))

    assert the_one(found) == "job 7 was acknowledged as canceled by node1 and has succeeded"


def test_a_refused_cancel_promises_nothing() -> None:
    assert judge(told(Cancel(7), 3, False), untold(Cancel(8), 4)) == []


def test_an_acknowledged_value_that_is_gone_is_found() -> None:
    found = judge(told(Write("limit", 5), 3), told(Read("limit"), 4, None, "node2"))

    assert the_one(found) == "limit was told to be None by node2, and had been written before, as node1 acknowledged"


def test_an_old_value_after_a_new_one_is_found() -> None:
    found = judge(told(Write("limit", 5), 3), told(Write("limit", 6), 4), told(Read("limit"), 5, 5, "node2"))

    assert "limit was told to be 5 by node2, and another value had been written after it" in the_one(found)


def test_a_value_that_is_not_the_last_one_in_the_end_is_found() -> None:
    found = judge(told(Write("limit", 5), 3), told(Write("limit", 6), 4), things={"limit": 5})

    assert "limit is 5, and another value had been written after it" in the_one(found)


def test_a_value_that_nobody_wrote_is_found() -> None:
    assert the_one(judge(told(Read("limit"), 3, 5))) == "limit was told to be 5 by node1, which nobody wrote before"


def test_a_removed_thing_that_is_back_is_found() -> None:
    found = judge(told(Write("rule", 1), 3), told(Write("rule", None), 4), told(Read("rule"), 5, 1))

    assert "rule was told to be 1" in the_one(found)


def test_a_value_without_an_answer_may_be_there_or_not() -> None:
    written = (told(Write("limit", 5), 3), untold(Write("limit", 6), 4))

    assert judge(*written, told(Read("limit"), 5, 5)) == []
    assert judge(*written, told(Read("limit"), 5, 6), things={"limit": 6}) == []


def test_a_value_that_was_refused_must_not_be_there() -> None:
    refused = attrs.evolve(told(Write("limit", 6), 3), outcome=Outcome.REFUSED)

    assert "which nobody wrote before" in the_one(judge(refused, told(Read("limit"), 4, 6)))


def test_notes_are_read_back_up_to_where_they_were_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with Notes(path) as notes:
        for each in SUBMITTED:
            notes.add(each)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])

    assert list(read_notes(path)) == [SUBMITTED[0]]
