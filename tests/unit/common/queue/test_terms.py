"""Terms and tries travel in the reason trail of a job, and are read as they were written."""

import attrs
import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, replace_op
from common.queue.reasons import Try, next_try, tries_of, try_entry
from common.queue.terms import (
    NO_TERMS,
    SOURCE,
    Deferral,
    DeferralCause,
    Hold,
    JobTerms,
    Use,
    changed_at,
    check_terms,
    deferral_of,
    terms_of,
    with_terms,
    write_terms,
)

ALL = JobTerms(
    *("nightly", {"team": "web", "x/y": ""}, 1_790_000_000.5, Hold("ada", 5.0, "wait"), (Use("", "licences", 2),)),
    trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)
FAILED = Try(1, 1.0, 2.0, "ended with exit code 75", 75, 32.0, 812)


def job(*entries: object) -> Job:
    return Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DELAY", "reason": list(entries)}),))


def test_terms_are_read_as_they_were_written() -> None:
    assert check_terms(write_terms(ALL)) == ALL
    assert terms_of(with_terms(job(["gnt:user", "why", 1]), ALL, 7)) == ALL


def test_a_job_without_terms_has_no_entry_and_one_that_had_some_tells_when_they_were_removed() -> None:
    plain = attrs.evolve(job(["gnt:user", "why", 1]), received_at=(5, 0))
    changed = with_terms(with_terms(plain, ALL, 4_000_000_000), NO_TERMS, 8_000_000_000)

    assert with_terms(plain, NO_TERMS, 8).ops[0].input["reason"] == [["gnt:user", "why", 1]]
    assert changed.ops[0].input["reason"] == [["gnt:user", "why", 1], [SOURCE, "{}", 8_000_000_000]]
    assert (terms_of(changed), changed_at(changed)) == (NO_TERMS, 8.0)
    assert changed_at(with_terms(plain, ALL, 4_000_000_000)) is None
    assert changed_at(plain) is None


@pytest.mark.parametrize("trail", [5, None, [7, ["gnt:user", "monthly", 1]]])
def test_terms_are_stated_beside_a_malformed_trail(trail: object) -> None:
    changed = with_terms(Job(JobId(1), (JobOp({"OP_ID": "OP_X", "reason": trail}),)), JobTerms("backup"), 7)

    assert terms_of(changed).name == "backup"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"nmae":"x"}', "unknown terms: nmae"),
        ('{"name":5}', "expected a text"),
        ('{"name":"a\\nb"}', "printable"),
        ('{"labels":{"Team":"web"}}', "team=web"),
        ('{"labels":{"team":"\\u0000"}}', "printable"),
        ('{"begin":"soon"}', "begin must be a number"),
        ('{"begin":1e300}', "seconds since 1970"),
        ('{"uses":{"a:b:c":1}}', "names no resource"),
        ('{"uses":{"licences":0}}', "at least 1"),
        ('{"uses":{"licences":1.5}}', "whole number"),
        ('{"trace":5}', "expected a text"),
        ('{"trace":"mine"}', "trace must be a traceparent"),
        ('{"trace":"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}', "version 00"),
    ],
)
def test_malformed_terms_are_refused_with_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        check_terms(text)


def test_a_damaged_entry_of_a_job_file_counts_as_no_terms() -> None:
    assert terms_of(job(["gantry:terms", '{"name":5}', 1])) == NO_TERMS


def test_tries_are_read_as_they_were_written() -> None:
    tried = job(["gnt:user", "why", 1], try_entry(FAILED).to_wire(), ["gantry:try", "no JSON", 3])

    assert tries_of(tried.ops[0]) == (FAILED,)
    assert next_try(tried) == FAILED


def test_a_job_is_deferred_by_a_hold_first_then_by_what_ends_last() -> None:
    later = with_terms(job(try_entry(FAILED).to_wire()), JobTerms(begin_at=20.0), 7)

    assert deferral_of(job()) is None
    assert deferral_of(later) == Deferral(DeferralCause.RETRY, 32.0)
    assert deferral_of(with_terms(later, JobTerms(begin_at=40.0), 7)) == Deferral(DeferralCause.BEGIN, 40.0)
    assert deferral_of(with_terms(later, ALL, 7)) == Deferral(DeferralCause.HOLD, None)


def test_a_job_that_has_begun_waits_for_no_begin() -> None:
    begun = replace_op(job(), 0, JobOp({"OP_ID": "OP_TEST_DELAY"}, JobState.SUCCESS, start_at=(5, 0)))

    assert deferral_of(with_terms(begun, JobTerms(begin_at=40.0), 7)) is None
