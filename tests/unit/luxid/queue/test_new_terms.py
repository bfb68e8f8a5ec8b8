"""The terms of new jobs (DESIGN section 16)."""

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job, JobOp
from common.queue.reasons import BATCH_SOURCE as BATCH
from common.queue.reasons import ReasonEntry
from common.queue.terms import SOURCE, Hold, JobTerms, Use, changed_at, terms_entry, terms_of, terms_of_trail
from daemons.luxid.core.resources import uses_of
from daemons.luxid.core.submission.newjobs import ParsedJob, with_checked_terms

NOW_NS = 5_000_000_000
USER = ReasonEntry("gnt:user", "the disk is full", 1)


def job(*trails: list[ReasonEntry]) -> ParsedJob:
    return tuple(
        parse_opcode({"OP_ID": "OP_TEST_DUMMY", "reason": [each.to_wire() for each in trail]}) for trail in trails
    )


def states(text: str) -> ReasonEntry:
    return ReasonEntry(SOURCE, text, 1)


def test_a_job_without_terms_is_taken_as_it_is() -> None:
    plain = job([USER], [])

    assert with_checked_terms(plain, "alice", NOW_NS) is plain


def test_a_hold_is_put_by_the_submitter_now_whatever_the_client_says() -> None:
    wanted = JobTerms("backup", {"team": "web"}, 9.0, Hold("bob", 1.0, "wait for me"))

    (op,) = with_checked_terms(job([USER, terms_entry(wanted, 7)]), "alice", NOW_NS)

    taken = terms_of_trail([entry.to_wire() for entry in op.reason])
    assert taken == JobTerms("backup", {"team": "web"}, 9.0, Hold("alice", 5.0, "wait for me"))
    assert [(entry.source, entry.at_ns) for entry in op.reason] == [("gnt:user", 1), (SOURCE, 7)]


def test_a_client_s_clock_that_is_ahead_does_not_make_the_terms_look_changed() -> None:
    (op,) = with_checked_terms(job([terms_entry(JobTerms("backup"), 2 * NOW_NS)]), "alice", NOW_NS)

    taken = Job(JobId(1), (JobOp(write_opcode(op)),), received_at=(5, 0))

    assert terms_of(taken).name == "backup"
    assert changed_at(taken) is None


@pytest.mark.parametrize(
    ("trails", "message"),
    [
        ([[states("{")]], "the terms of the job are not JSON"),
        ([[states('{"start":5}')]], "the job has unknown terms: start"),
        ([[states('{"labels":{"Team":"web"}}')]], "label 'Team': a label is named by 1 to 63 of"),
        ([[states('{"name":" x"}')]], "a job's name has at most 120 printable characters"),
        ([[states('{"begin":-1}')]], "begin must be seconds since 1970"),
        ([[states('{"uses":{"licences":0}}')]], "a job uses at least 1 of 'licences'"),
        ([[states('{"hold":{"by":"","at":0,"why":"a\\nb"}}')]], "the words of a hold are at most 256 printable"),
        ([[states("{}"), states("{}")]], "the job states its terms 2 times"),
        ([[], [states("{}")]], "opcode 2 states terms; those of a job stand in the reason trail of its first"),
    ],
)
def test_a_term_that_breaks_a_rule_refuses_the_job(trails: list[list[ReasonEntry]], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        with_checked_terms(job(*trails), "alice", NOW_NS)


@pytest.mark.parametrize(
    "text", ["", "id=a;place=1;jobs=2;at-most=many", "id=a;place=3;jobs=2", "id=a b;place=1;jobs=2"]
)
def test_a_batch_that_cannot_be_read_refuses_the_job(text: str) -> None:
    """Taken for none, its jobs would all run at once, and after any number of failures."""
    with pytest.raises(InvalidRequest, match=r"the job's batch .* cannot be read; write it as id=NAME;place=3;jobs=20"):
        with_checked_terms(job([USER, ReasonEntry(BATCH, text, 1)]), "alice", NOW_NS)


def test_a_batch_that_can_be_read_is_kept_as_it_is() -> None:
    plain = job([ReasonEntry(BATCH, "id=a;place=1;jobs=2;at-most=1;failures=0;each=host", 1)])

    assert with_checked_terms(plain, "alice", NOW_NS) is plain


def test_terms_are_kept_as_luxid_writes_them_however_the_client_did() -> None:
    """Whether a job uses resources is looked up in the text: a name with an escape would take none."""
    (op,) = with_checked_terms(job([states('{ "\\u0075ses": {"licences": 2}, "name": "" }')]), "alice", NOW_NS)

    assert uses_of(Job(JobId(1), (JobOp(write_opcode(op)),))) == (Use("", "licences", 2),)
