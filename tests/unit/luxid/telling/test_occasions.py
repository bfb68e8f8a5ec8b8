"""Events of jobs follow from the jobs alone, in the order of their ends (everyday.md h)."""

import attrs

from common.featuresettings import NotifyRule
from common.ids import JobId
from common.notify import BatchEnd
from common.opcodes.base import write_opcode
from common.opcodes.command import OpNotify
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import Batch, batch_entry
from common.queue.terms import JobTerms, terms_entry
from daemons.luxid.core.telling import MOST_FAILING, Occasions
from daemons.luxid.outboxes import NoticeOutbox

RULES = {
    "ends": NotifyRule(on=("end", "recovered"), program=("/bin/true",)),
    "failures": NotifyRule(on=("error",), program=("/bin/true",)),
}


def job(job_id: int, state: JobState = JobState.SUCCESS, name: str = "", batch: Batch | None = None) -> Job:
    trail = [terms_entry(JobTerms(name=name), 0).to_wire()] if name else []
    if batch is not None:
        trail.append(batch_entry(batch, 0).to_wire())
    op = JobOp(input={"OP_ID": "OP_TEST_DUMMY", "reason": trail}, priority=0, extra={}, state=state)
    return Job(JobId(job_id), (op,), end_at=(100 + job_id, 0))


def occasions(batch_end: BatchEnd | None = None) -> Occasions:
    return Occasions(RULES, lambda *_: batch_end)


def keys(told: Occasions, *jobs: Job) -> list[str]:
    return [event.key(each.job_id) for each in jobs for event in told.ended(each)]


def test_each_rule_that_fits_tells() -> None:
    assert keys(occasions(), job(7, JobState.ERROR)) == ["notify/7/error/ends", "notify/7/error/failures"]


def test_a_name_recovers_once_and_canceled_jobs_change_nothing() -> None:
    story = [
        job(1, JobState.SUCCESS, "a"),
        job(2, JobState.ERROR, "a"),
        job(3, JobState.CANCELED, "a"),
        job(4, JobState.SUCCESS, "b"),
        job(5, JobState.SUCCESS, "a"),
        job(6, JobState.SUCCESS, "a"),
    ]

    first, second = keys(occasions(), *story), keys(occasions(), *story)

    assert first == second
    assert [key for key in first if "recovered" in key] == ["notify/5/recovered/ends"]


def test_names_that_fail_once_and_never_come_again_are_forgotten_in_the_end() -> None:
    told = occasions()
    told.ended(job(1, JobState.ERROR, "first"))
    told.ended(job(2, JobState.ERROR, "second"))
    for number in range(3, MOST_FAILING + 2):
        told.ended(job(number, JobState.ERROR, f"once-{number}"))

    assert "notify/99999/recovered/ends" in keys(told, job(99999, JobState.SUCCESS, "second"))
    assert "notify/99999/recovered/ends" not in keys(told, job(99999, JobState.SUCCESS, "first"))


def test_jobs_of_a_batch_that_has_not_ended_are_not_told() -> None:
    assert keys(occasions(), job(7, JobState.ERROR, batch=Batch("b", 1, 2))) == []


def test_a_batch_tells_its_own_state() -> None:
    told = occasions(BatchEnd("b", {"success": 1, "error": 1}))

    assert keys(told, job(7, batch=Batch("b", 1, 2))) == ["notify/batch-b/error/ends", "notify/batch-b/error/failures"]


def delivery_of(state: JobState, result: object) -> Job:
    written = write_opcode(OpNotify(rule="failures", message_id="m", payload="{}", job=7))
    return Job(JobId(8), (JobOp(input=written, priority=0, extra={}, state=state, result=result),), end_at=(1, 0))


def test_deliveries_are_never_told() -> None:
    assert keys(occasions(), delivery_of(JobState.ERROR, None)) == []


def test_a_receiver_that_wants_no_more_switches_its_rule_off() -> None:
    told = occasions()
    gone = delivery_of(JobState.ERROR, ["CommandFailed", ["no more", {"status": 410, "gone": "failures"}]])

    assert (told.refused(gone), told.refused(gone)) == ("failures", None)
    assert keys(told, job(7, JobState.ERROR)) == ["notify/7/error/ends"]


def test_a_job_is_told_when_the_last_of_its_deliveries_is_on_its_way() -> None:
    notices = NoticeOutbox(occasions())
    failed = job(7, JobState.ERROR)
    notices.ended(failed)
    # found again, as after a restart
    notices.ended(attrs.evolve(failed))

    assert (len(notices), notices.is_notified(JobId(7)), notices.is_notified(JobId(8))) == (2, False, True)
    notices.remove("notify/7/error/ends")
    assert not notices.is_notified(JobId(7))
    notices.remove("notify/7/error/failures")
    notices.remove("notify/7/error/failures")
    assert notices.is_notified(JobId(7))


def test_without_rules_nothing_is_kept() -> None:
    notices = NoticeOutbox()
    notices.ended(job(7, JobState.ERROR))
    notices.retried(job(7))

    assert len(notices) == 0
