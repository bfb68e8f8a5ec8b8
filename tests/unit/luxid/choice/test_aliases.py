"""Names as users write them against the UUIDs that are locked."""

from common.ids import JobId
from common.locks import LockLevel, LockMode, member_lock
from common.queue.explanation import LevelWeight
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.choice.readings import next_needs
from daemons.luxid.core.choice.weights import CLASH, LEVELS, Aliases, Taking
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import explain

NOW = 1_800_000_000
UUID, OTHER_UUID = "3a2f", "77c1"
NODE_LEVELS = (LockLevel.NODE, LockLevel.NODE_RES)
NODES = (
    (NODE_LEVELS, (UUID, "n1.example.com", "n1", "n1.example")),
    (NODE_LEVELS, (OTHER_UUID, "n2.example.com", "n2", "n2.example")),
)
HELD = {member_lock(LockLevel.NODE, UUID): LockMode.EXCLUSIVE}


def make_job(job_id: int, node: str) -> Job:
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {f"node/{node}": "exclusive"}}
    return Job(JobId(job_id), (JobOp(op),), received_at=(NOW, 0))


def run_first(*jobs: Job) -> JobQueue:
    queue = JobQueue(1, 1, lambda _: None)
    queue.add_all(jobs)
    for job_id in queue.decide(NOW).start:
        queue.started(job_id)
    return queue


def on_nodes(queue: JobQueue, job_id: int) -> LevelWeight:
    told = explain(queue, JobId(job_id), NOW, lambda _: None)
    [found] = [each for each in told if isinstance(each, LevelWeight) and each.level == "node"]
    return found


def test_a_held_uuid_clashes_with_every_word_for_the_node_and_with_no_other_node() -> None:
    words = (UUID, "n1", "n1.example.com", "n2", "n9")
    queue = run_first(make_job(1, "n5"), *(make_job(n, word) for n, word in enumerate(words, 2)))
    queue.set_aliases(Aliases(NODES))

    queue.set_locks(JobId(1), HELD)

    assert [on_nodes(queue, n).weight for n in range(2, 7)] == [CLASH, CLASH, CLASH, 0.5, 0.5]


def test_jobs_that_were_queued_before_the_words_were_known_are_compared_right() -> None:
    queue = run_first(make_job(1, UUID), make_job(2, "n1"))
    assert on_nodes(queue, 2).weight == 0.5

    queue.set_aliases(Aliases(NODES))
    assert on_nodes(queue, 2).weight == CLASH

    queue.set_aliases(Aliases())
    assert on_nodes(queue, 2).weight == 0.5


def test_a_short_name_of_two_hosts_is_a_word_for_neither() -> None:
    hosts = [(NODE_LEVELS, (UUID, "n1.a.com", "n1")), (NODE_LEVELS, (OTHER_UUID, "n1.b.com", "n1"))]
    queue = run_first(make_job(1, UUID), make_job(2, "n1"), make_job(3, "n1.a.com"))

    queue.set_aliases(Aliases(hosts))

    assert on_nodes(queue, 2).weight == 0.5
    assert on_nodes(queue, 3).weight == CLASH


def test_the_lock_in_the_way_is_named_as_it_is_held() -> None:
    queue = run_first(make_job(1, "n1"), make_job(2, "n1"))
    queue.set_aliases(Aliases(NODES))
    queue.set_locks(JobId(1), HELD)

    assert [str(each.lock) for each in on_nodes(queue, 2).held] == [f"node/{UUID}"]


def test_other_words_touch_only_what_clashes_with_running_jobs_however_many_wait() -> None:
    queue = run_first(make_job(1, UUID), *(make_job(n, f"m{n}") for n in range(2, 1_000)), make_job(1_000, "n1"))
    before = queue.touched

    queue.set_aliases(Aliases(NODES))
    queue.decide(NOW)

    assert queue.touched - before <= 2


def test_the_same_words_again_touch_nothing() -> None:
    queue = run_first(make_job(1, UUID), make_job(2, "n1"))
    queue.set_aliases(Aliases(NODES))
    before = queue.running_locks.epoch

    queue.set_aliases(Aliases(reversed(NODES)))

    assert queue.running_locks.epoch == before


def test_a_name_is_named_before_anybody_knows_its_lock() -> None:
    op = {"OP_ID": "OP_NODE_MODIFY_STORAGE", "node_name": "n1", "storage_type": "lvm-vg", "name": "x", "changes": {}}

    needs = next_needs(Job(JobId(1), (JobOp(op),)))

    place = LEVELS.index(LockLevel.NODE)
    assert (place, "n1") in (*needs.shared, *needs.exclusive)
    assert not {Taking.SHARED_UNKNOWN, Taking.EXCLUSIVE_UNKNOWN} & set(needs.shape.takings[place])
