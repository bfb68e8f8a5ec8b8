"""Changes of queued jobs (DESIGN section 16)."""

import attrs
import pytest

from common.errors import Denied, InvalidRequest
from common.ids import JobId
from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import Batch, JobOwner, batch_entry, owner_entries
from common.queue.terms import MOST_LABELS, Hold, JobTerms, Use, terms_of
from daemons.luxid.core.queue.termchanges import Changer, change_words, changed_job, check_change
from protocol.luxi.jobs import AfterJob, TermsChange
from tests.support.deferred import deferred_job, stated

NOW_NS = 5_000_000_000
ALICE, ROOT = Changer("alice", is_operator=False), Changer("root", is_operator=True)
BEFORE = JobTerms("backup", {"team": "web", "site": "ath"}, 900.0)


def job(terms: JobTerms = BEFORE) -> Job:
    owner = [entry.to_wire() for entry in owner_entries(JobOwner(1003, "alice"), 1)]
    return deferred_job(1, [["gnt:user", "x", 1], *stated(terms), *owner])


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (TermsChange(name="copy"), JobTerms("copy", BEFORE.labels, 900.0)),
        (TermsChange(name=""), JobTerms("", BEFORE.labels, 900.0)),
        (
            TermsChange(labels={"team": "db", "x": ""}, without_labels=("site",)),
            JobTerms("backup", {"team": "db", "x": ""}, 900.0),
        ),
        (TermsChange(begin_at=950.0), JobTerms("backup", BEFORE.labels, 950.0)),
        (TermsChange(begin_at=0.0), JobTerms("backup", BEFORE.labels, None)),
        (TermsChange(hold="why not"), JobTerms("backup", BEFORE.labels, 900.0, Hold("alice", 5.0, "why not"))),
    ],
)
def test_what_is_left_out_stays(change: TermsChange, after: JobTerms) -> None:
    check_change(change)

    changed = changed_job(job(), change, ALICE, NOW_NS)

    assert terms_of(changed) == after
    # the entry keeps its place, and everything else is as it was
    trail = changed.ops[0].input["reason"]
    assert [entry[0] for entry in trail] == ["gnt:user", "gantry:terms", "gantry:owner"]
    assert changed_job(changed, change, ALICE, NOW_NS * 2) is changed


def test_a_second_hold_leaves_the_first_and_a_second_release_changes_nothing() -> None:
    held = changed_job(job(), TermsChange(hold=""), ALICE, NOW_NS)

    again = changed_job(held, TermsChange(hold="me too"), ROOT, NOW_NS * 2)
    assert again is held
    assert change_words(held, again, TermsChange(hold="me too")) == "job 1 is held already by alice"
    free = changed_job(held, TermsChange(release=True), ALICE, NOW_NS)
    assert terms_of(free) == BEFORE
    assert changed_job(free, TermsChange(release=True), ALICE, NOW_NS) is free
    assert change_words(free, free, TermsChange(release=True)) == "job 1 was not held"


@pytest.mark.parametrize(
    ("hold", "change", "words"),
    [
        (None, TermsChange(name="x", hold=""), "job 1 is held"),
        (None, TermsChange(name="x", release=True), "job 1 was changed; it was not held"),
        (Hold("alice", 5.0, ""), TermsChange(name="x", release=True), "job 1 is released"),
        (Hold("alice", 5.0, ""), TermsChange(name="x", hold=""), "job 1 was changed; it is held already by alice"),
        (Hold("", 5.0, ""), TermsChange(name="x", hold=""), "job 1 was changed; it is held already"),
    ],
)
def test_a_change_of_something_else_is_told_as_no_change_of_the_hold(
    hold: Hold | None, change: TermsChange, words: str
) -> None:
    before = job(attrs.evolve(BEFORE, hold=hold))

    after = changed_job(before, change, ROOT, NOW_NS)

    assert change_words(before, after, change) == words


def test_the_hold_of_an_operator_is_lifted_by_operators_only() -> None:
    by_root = job(JobTerms(hold=Hold("root", 1.0, "")))

    with pytest.raises(Denied, match="job 1 is held by 'root'; only an operator releases it"):
        changed_job(by_root, TermsChange(release=True), ALICE, NOW_NS)

    assert terms_of(changed_job(by_root, TermsChange(release=True), ROOT, NOW_NS)) == JobTerms()


def test_an_operator_may_lift_the_hold_of_a_user_and_the_owner_that_of_another_name_of_his() -> None:
    held = job(JobTerms(hold=Hold("alice", 1.0, "")))

    for by in (ROOT, Changer("http:alice", is_operator=False)):
        assert terms_of(changed_job(held, TermsChange(release=True), by, NOW_NS)) == JobTerms()


def test_a_priority_is_changed_alone_or_with_terms() -> None:
    changed = changed_job(job(), TermsChange(priority=-10, name="copy"), ALICE, NOW_NS)

    assert (changed.priority, terms_of(changed).name) == (-10, "copy")
    assert changed_job(changed, TermsChange(priority=-10), ALICE, NOW_NS) is changed


def test_a_job_has_a_bounded_number_of_labels_also_after_changes() -> None:
    full = job(JobTerms(labels={f"l{number}": "" for number in range(MOST_LABELS)}))

    with pytest.raises(InvalidRequest, match="at most 32 labels"):
        changed_job(full, TermsChange(labels={"one": "more"}), ALICE, NOW_NS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (TermsChange(), "nothing to change is given"),
        (TermsChange(hold="", release=True), "either held or released"),
        (TermsChange(name="x" * 121), "a job's name has at most"),
        (TermsChange(labels={"A": "x"}), "label 'A'"),
        (TermsChange(labels={"a": "x"}, without_labels=("a",)), "label 'a' is to be set and removed"),
        (TermsChange(begin_at=-1.0), "begin must be"),
        (TermsChange(begin_at=float("nan")), "begin must be"),
        (TermsChange(hold="a\nb"), "the words of a hold"),
        (TermsChange(priority=3), "priority must be -10"),
        (TermsChange(uses={"Licences": 1}), "names no resource"),
        (TermsChange(uses={"licences": 0}), "at least 1 of 'licences'"),
        (TermsChange(uses={"licences": 1}, without_uses=("licences",)), "units of 'licences' are to be taken and not"),
        (TermsChange(timeout=-1.0), "timeout must be seconds, or 0"),
        (TermsChange(timeout=float("nan")), "timeout must be seconds, or 0"),
        (TermsChange(retries=-1), "retries must be from 0"),
        (TermsChange(at_most=-1), "at_most must be from 0"),
        (TermsChange(after=(AfterJob(JobId(-1)),)), "a job waits for a job by its id"),
        (TermsChange(after=(AfterJob(JobId(1), (JobState.RUNNING,)),)), "to end as canceled, error or success"),
        (TermsChange(after=(AfterJob(JobId(3)),), without_after=(JobId(3),)), "job 3 is to be waited for and not"),
    ],
)
def test_a_change_that_no_job_can_have_is_refused_as_a_whole(change: TermsChange, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_change(change)


def command(**parameters: object) -> Job:
    """Job 5: one command, second of a batch of which three run at once, after job 3."""
    op = write_opcode(parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "depends": [[3, ["success"]]]}))
    trail = [["gnt:user", "x", 1], batch_entry(Batch("b1", 2, 9, 3), 7).to_wire()]
    return Job(JobId(5), (JobOp({**op, "reason": trail, **parameters}),))


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        (TermsChange(timeout=90.0), "timeout", 90.0),
        (TermsChange(retries=3), "retries", 3),
        (TermsChange(after=(AfterJob(JobId(4)),)), "depends", [[3, ["success"]], [4, ["success"]]]),
        (TermsChange(after=(AfterJob(JobId(3), (JobState.ERROR,)),)), "depends", [[3, ["error"]]]),
        (TermsChange(without_after=(JobId(3),)), "depends", None),
        (
            TermsChange(at_most=5),
            "reason",
            [["gnt:user", "x", 1], ["gantry:batch", "id=b1;place=2;jobs=9;at-most=5", 7]],
        ),
        (TermsChange(at_most=0), "reason", [["gnt:user", "x", 1], ["gantry:batch", "id=b1;place=2;jobs=9", 7]]),
    ],
)
def test_a_command_gets_another_time_tries_dependencies_and_place_in_its_batch(
    change: TermsChange, name: str, value: object
) -> None:
    before = command()
    check_change(change)

    changed = changed_job(before, change, ALICE, NOW_NS)

    assert changed.ops[0].input.get(name) == value
    assert {**changed.ops[0].input, name: None} == {**before.ops[0].input, name: None}
    assert changed_job(changed, change, ALICE, NOW_NS * 2) is changed


def test_a_time_out_is_taken_away_and_the_opcode_is_read_again_with_it() -> None:
    limited = command(timeout=60.0, detach=True)

    assert "timeout" not in changed_job(limited, TermsChange(timeout=0.0), ALICE, NOW_NS).ops[0].input
    with pytest.raises(InvalidRequest, match="retries and detach exclude each other"):
        changed_job(limited, TermsChange(retries=1), ALICE, NOW_NS)


def test_units_are_replaced_and_removed_by_their_resource() -> None:
    before = job(JobTerms(uses=(Use("", "licences", 1), Use("web1", "memory", 5))))

    changed = changed_job(before, TermsChange(uses={"licences": 3}, without_uses=("web1:memory",)), ALICE, NOW_NS)

    assert terms_of(changed).uses == (Use("", "licences", 3),)


def test_a_job_waits_only_for_jobs_that_came_before_it_so_that_no_ring_can_close() -> None:
    for target in (5, 6):
        with pytest.raises(InvalidRequest, match=f"job 5 cannot wait for job {target}"):
            changed_job(command(), TermsChange(after=(AfterJob(JobId(target)),)), ALICE, NOW_NS)


def test_what_only_a_command_or_a_batch_has_is_not_changed_of_another_job() -> None:
    for change, message in (
        (TermsChange(timeout=5.0), "job 1 is not a single command"),
        (TermsChange(at_most=2), "job 1 belongs to no batch"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            changed_job(job(), change, ALICE, NOW_NS)
