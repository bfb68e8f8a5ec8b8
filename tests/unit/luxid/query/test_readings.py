"""What luxid knows of opcodes, and how often it reads them for that (DESIGN section 6)."""

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from common.access import Role
from common.errors import InvalidRequest
from common.ids import JobId
from common.lockdecl import LevelDeclaration, Scope
from common.locks import LockLevel, LockMode
from common.opcodes.base import OpCode
from common.opcodes.registry import parse_opcode
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.choice import readings
from daemons.luxid.core.query.jobs import FIELDS
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.rights import Viewer
from daemons.luxid.files.store import JobLogs
from daemons.luxid.jobs import JobTable, JobViews, LiveJobs
from daemons.luxid.processes.jobprocesses import JobProcesses, KillMessages, PriorityMessages

# more than are remembered because they are like each other
MANY = 5000


def command(number: int, **more: Any) -> Mapping[str, Any]:
    locks = {f"instance/i{number}": "exclusive"}
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/echo", f"of {number}"], "locks": locks, **more}


def jobs(count: int) -> list[Job]:
    return [Job(JobId(number), (JobOp(command(number)),), received_at=(7, 0)) for number in range(1, count + 1)]


def make_views(queue: JobQueue) -> JobViews:
    paths = Paths.under_root(Path("/nowhere"))
    live = LiveJobs(queue, JobTable(lambda _: None), JobProcesses(KillMessages(paths), PriorityMessages(paths)))
    return JobViews(live, JobLogs(paths), paths.silence_note)


def test_the_opcode_of_a_queued_job_is_read_once_also_for_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def parse(value: Any) -> OpCode:
        read.append(value)
        return parse_opcode(value)

    monkeypatch.setattr(readings, "parse_opcode", parse)
    queue, found = JobQueue(50, 8, lambda _: None), jobs(MANY)

    queue.add_all(found)
    queue.decide(100.0, may_start=False)
    views = make_views(queue)
    for _ in range(2):
        shown = [FIELDS["summary"](views.of(job)) for job in found]

    assert shown[6] == ["RUN_COMMAND(/bin/echo 'of 7')"]
    assert len(read) == MANY


def test_a_summary_that_is_kept_shows_others_no_more_than_one_that_is_made() -> None:
    queue, found = JobQueue(50, 8, lambda _: None), jobs(1)
    queue.add_all(found)
    view = make_views(queue).of(found[0])

    assert FIELDS["summary"](view) == ["RUN_COMMAND(/bin/echo 'of 1')"]
    assert FIELDS["summary"](JobViews.seen_by(Viewer(12345, Role.READ), view)) == ["RUN_COMMAND(/bin/echo)"]


def test_a_job_that_is_another_one_than_the_queue_has_is_summed_up_anew() -> None:
    queue, found = JobQueue(50, 8, lambda _: None), jobs(1)
    queue.add_all(found)

    changed = Job(JobId(1), (JobOp(command(2)),), received_at=(7, 0))

    assert FIELDS["summary"](make_views(queue).of(changed)) == ["RUN_COMMAND(/bin/echo 'of 2')"]


def test_a_queued_job_with_a_lock_of_its_own_takes_little_memory() -> None:
    JobQueue(50, 8, lambda _: None).add_all(jobs(10))
    queue, found = JobQueue(50, 8, lambda _: None), jobs(MANY)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        queue.add_all(found)
        queue.decide(100.0, may_start=False)
        readings._recent.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / MANY < 1200


def test_what_is_given_as_it_would_be_by_itself_is_still_held_against_its_type() -> None:
    assert parse_opcode(command(1, shell=False, env={}, exit_codes=[0])) == parse_opcode(command(1))
    wrongs: list[dict[str, Any]] = [
        {"shell": 0},
        {"env": []},
        {"locks": []},
        {"exit_codes": {}},
        {"detach": ""},
        {"priority": False},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            parse_opcode(command(1, **wrong))


def test_locks_of_several_levels_and_modes_are_declared_in_their_order() -> None:
    locks = {"node/b": "shared", "instance/a": "exclusive", "node/c": "exclusive", "node-res/[lockset]": "shared"}
    declared = parse_opcode({"OP_ID": "OP_TEST_DUMMY", "locks": locks}).lock_declaration()

    assert list(declared.levels.items()) == [
        (LockLevel.INSTANCE, (LevelDeclaration(LockMode.EXCLUSIVE, Scope.NAMED, frozenset({"a"})),)),
        (
            LockLevel.NODE,
            (
                LevelDeclaration(LockMode.SHARED, Scope.NAMED, frozenset({"b"})),
                LevelDeclaration(LockMode.EXCLUSIVE, Scope.NAMED, frozenset({"c"})),
            ),
        ),
        (LockLevel.NODE_RES, (LevelDeclaration(LockMode.SHARED, Scope.ALL),)),
    ]
