"""What the file of a job becomes at the start of a luxid, and which jobs have processes (DESIGN section 14)."""

from collections.abc import Mapping

import attrs
import pytest

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, LogEntry
from common.queue.reasons import Try, try_entry
from daemons.luxid.core.copies.etcdentries import JobLivelocks, Passing
from daemons.luxid.core.copies.restoring import as_begun, is_later, is_lost
from daemons.luxid.core.queue.recovery import Fate, judge_fate

S = JobState
NOW = (5, 0)
DUMMY = {"OP_ID": "OP_TEST_DUMMY"}
FAILED = Try(1, 1.0, 2.0, "ended with exit code 75", 75, 3.0, 0)
TRIED = {**DUMMY, "reason": [try_entry(FAILED).to_wire()]}
NODE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "web1"}


def job(*states: JobState, livelock: str | None = "/run/1", lines: int = 0, op: Mapping[str, object] = DUMMY) -> Job:
    log = tuple(LogEntry(serial + 1, NOW, "message", "text") for serial in range(lines))
    ops = tuple(JobOp(op, state, log=log) for state in states)
    return Job(JobId(1), ops, livelock=livelock)


@pytest.mark.parametrize(
    ("here", "entry", "elsewhere"),
    [
        (job(S.RUNNING), job(S.QUEUED), True),
        (job(S.SUCCESS, S.QUEUED), job(S.RUNNING, S.QUEUED), True),
        (job(S.SUCCESS), job(S.RUNNING), True),
        (job(S.RUNNING, lines=2), job(S.RUNNING, lines=1), True),
        # queued again after a failed try
        (job(S.QUEUED, op=TRIED), job(S.RUNNING), True),
        (job(S.RUNNING, lines=5), job(S.QUEUED, op=TRIED), False),
        (job(S.SUCCESS, S.QUEUED), job(S.QUEUED, S.QUEUED, op=TRIED), True),
        # a copy from before
        (job(S.RUNNING, S.QUEUED), job(S.SUCCESS, S.RUNNING), False),
        (job(S.QUEUED), job(S.SUCCESS), False),
        # the same progress: etcd decides
        (attrs.evolve(job(S.QUEUED), process_id=3), job(S.QUEUED), False),
    ],
)
def test_of_one_process_the_later_file_counts(here: Job, entry: Job, *, elsewhere: bool) -> None:
    assert is_later(here, entry, is_own=False) is elsewhere
    # nobody else writes the file on the node of the process
    assert is_later(here, entry, is_own=True)


@pytest.mark.parametrize("is_own", [True, False])
def test_the_file_of_another_process_is_never_the_later(*, is_own: bool) -> None:
    assert not is_later(job(S.RUNNING, livelock="/run/0"), job(S.QUEUED), is_own=is_own)
    assert not is_later(job(S.QUEUED, livelock=None), job(S.QUEUED, livelock=None), is_own=is_own)


def test_nothing_is_lost_only_where_the_process_was_and_the_file_is() -> None:
    assert not is_lost(job(S.QUEUED), is_own=True)
    assert is_lost(None, is_own=True)
    assert is_lost(job(S.QUEUED), is_own=False)


@pytest.mark.parametrize("states", [(S.QUEUED,), (S.WAITING,), (S.SUCCESS, S.QUEUED), (S.SUCCESS, S.WAITING)])
def test_an_opcode_that_may_have_begun_is_never_begun_again(states: tuple[JobState, ...]) -> None:
    begun = as_begun(job(*states), NOW)

    assert judge_fate(begun, is_alive=False, takes_up=True) is Fate.DEAD
    assert judge_fate(as_begun(job(*states, op=NODE), NOW), is_alive=False, takes_up=True) is Fate.TAKE_UP


@pytest.mark.parametrize("states", [(S.SUCCESS,), (S.RUNNING,), (S.CANCELING,), (S.ERROR, S.ERROR)])
def test_other_jobs_stay_as_they_are(states: tuple[JobState, ...]) -> None:
    assert as_begun(job(*states), NOW) == job(*states)


def test_a_job_passes_into_the_hands_of_each_new_process_and_out_of_them() -> None:
    hands = JobLivelocks()

    def write(*jobs: Job) -> Passing:
        passing = hands.will_write(list(jobs))
        hands.done(passing, list(jobs))
        return passing

    one = frozenset({JobId(1)})
    assert write(job(S.QUEUED, livelock=None)) == Passing()
    assert write(job(S.QUEUED)) == Passing(begun=one)
    assert hands.running == one
    # its process ends between two opcodes, and the job waits again
    dead = [job(S.SUCCESS, S.QUEUED)]
    over = hands.was_written(dead, are_dead=True)
    assert over == Passing(over=one)
    hands.done(over, dead)
    assert write(attrs.evolve(dead[0], ops=(*dead[0].ops[:1], attrs.evolve(dead[0].ops[1], priority=-5)))) == Passing()
    assert write(attrs.evolve(dead[0], livelock="/run/2")) == Passing(begun=one)
    assert hands.was_written([job(S.SUCCESS, S.RUNNING, livelock="/run/2")], are_dead=False) == Passing()
    assert write(job(S.SUCCESS, S.ERROR, livelock="/run/2")) == Passing(over=one)
    assert hands.running == frozenset()


def test_a_start_that_could_not_be_written_leaves_no_process() -> None:
    hands = JobLivelocks()
    hands.done(hands.will_write([job(S.QUEUED)]), [job(S.QUEUED)])

    held = [job(S.QUEUED, livelock=None)]
    assert hands.not_written(held) == Passing(over=frozenset({JobId(1)}))
    hands.done(hands.not_written(held), held)
    assert hands.will_write([job(S.QUEUED)]).begun == {JobId(1)}


def test_a_job_that_was_found_in_the_queue_does_not_begin_by_a_change() -> None:
    hands = JobLivelocks()
    hands.found(job(S.SUCCESS, S.QUEUED))

    assert hands.will_write([job(S.SUCCESS, S.QUEUED)]) == Passing()
    assert hands.gone(frozenset({JobId(1)})) == Passing()
