"""No job waits for ever behind lighter jobs of the same priority: a bound on the jobs that may come before.

The bound. After K ticks a job weighs nothing. Of those of its priority that weigh nothing either, only older ones
come before it, and whoever is older was there before it. So from then on at most as many jobs start before
it as wait at that moment and are older; and as every free place is taken, it starts with the next one.

Source: DESIGN section 6, "Weights"; predictive-queue design; luxid.md 5.11.
"""

import math
from collections import deque
from collections.abc import Sequence
from itertools import count, cycle
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.jobqueue import JobQueue

BEGIN_S = 1_800_000_000
PRIORITIES = (-10, 0, 10)
Input = dict[str, Any]


def command(locks: dict[str, str]) -> Input:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": locks}


NAMES = ("node/busy", "node/free", "instance/web", "instance/[lockset]", "nodegroup/g")
light = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("shared", "exclusive")), max_size=2).map(command)
# they clash with the job that never ends
heavy = st.sampled_from(
    [
        command({"node/busy": "exclusive"}),
        command({"node/busy": "shared", "instance/[lockset]": "exclusive", "nodegroup/[lockset]": "exclusive"}),
        {"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": "g"},
        {"OP_ID": "OP_NODE_ADD", "node_name": "n"},
    ]
)
weights = st.builds(
    WeightRules,
    base=st.sampled_from((0.0, 0.5, 1.0, 100.0)),
    tick_s=st.sampled_from((0.5, 1.0, 7.0, 30.0)),
    ticks=st.integers(1, 60),
)


@attrs.frozen(kw_only=True)
class Traffic:
    """What goes on around the job that is watched; the patterns are repeated for ever."""

    weights: WeightRules
    priority: int
    # beside the one of the job that never ends
    places: int
    # the queue is asked so often in K ticks
    steps: int
    # there before it: (opcode, steps it has waited by then)
    elders: list[tuple[Input, int]]
    # jobs that come in a step
    arrivals: list[int]
    stream: list[Input]
    # steps for which a job runs
    lasting: list[int]

    @property
    def step_s(self) -> int:
        return max(1, math.ceil(self.weights.ticks * self.weights.tick_s / self.steps))


traffic = st.builds(
    Traffic,
    weights=weights,
    priority=st.sampled_from(PRIORITIES),
    places=st.integers(1, 3),
    steps=st.integers(1, 25),
    elders=st.lists(st.tuples(st.one_of(light, heavy), st.integers(0, 40)), max_size=6),
    arrivals=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    stream=st.lists(light, min_size=1, max_size=5),
    lasting=st.lists(st.integers(1, 3), min_size=1, max_size=3),
)


class Run:
    """A queue, one place of which is taken for ever, and the rest of it busy."""

    def __init__(self, around: Traffic) -> None:
        self.now_s = BEGIN_S
        self._around = around
        slots = around.places + 1
        self._queue = JobQueue(slots, slots, lambda _: None, around.weights)
        self._ids = count(1)
        self._arrivals, self._stream, self._lasting = (
            cycle(around.arrivals),
            cycle(around.stream),
            cycle(around.lasting),
        )
        # job id -> steps it has left
        self._running: dict[JobId, int] = {}
        self.waiting: set[JobId] = set()
        self._queue.adopt(self._job(command({"node/busy": "exclusive"}), BEGIN_S))
        self._queue.set_locks(JobId(1), {parse_lock("node/busy"): LockMode.EXCLUSIVE})

    def submit(self, op: Input, waited_s: int = 0) -> JobId:
        job = self._job(op, self.now_s - waited_s)
        self._queue.add(job)
        self.waiting.add(job.job_id)
        return job.job_id

    def step(self) -> tuple[JobId, ...]:
        """Time passes, jobs come and end; return the started jobs, in order."""
        self.now_s += self._around.step_s
        for _ in range(next(self._arrivals)):
            self.submit(next(self._stream))
        self._end_some()
        return self.decide()

    def decide(self) -> tuple[JobId, ...]:
        started = self._queue.decide(self.now_s).start
        for job_id in started:
            self._queue.started(job_id)
            self._running[job_id] = next(self._lasting)
        self.waiting.difference_update(started)
        return started

    def _end_some(self) -> None:
        self._running = {job_id: left - 1 for job_id, left in self._running.items()}
        for job_id in [job_id for job_id, left in self._running.items() if not left]:
            del self._running[job_id]
            self._queue.end(job_id, JobState.SUCCESS)

    def _job(self, op: Input, received_s: int) -> Job:
        ops = (JobOp(op, priority=self._around.priority),)
        return Job(JobId(next(self._ids)), ops, received_at=(received_s, 0))


@settings(max_examples=400, deadline=None)
@given(around=traffic, op=heavy)
def test_after_k_ticks_a_job_starts_as_soon_as_those_have_that_are_older(around: Traffic, op: Input) -> None:
    run = Run(around)
    for elder, waited in sorted(around.elders, key=lambda each: -each[1]):
        run.submit(elder, waited * around.step_s)
    run.decide()
    watched = run.submit(op)
    faded_s = run.now_s + around.weights.ticks * around.weights.tick_s
    while run.now_s + around.step_s < faded_s:
        run.step()

    older = {job_id for job_id in run.waiting if job_id < watched}
    before = starts_before(run, watched, most_steps=(len(older) + 1) * max(around.lasting))

    assert set(before) <= older


def starts_before(run: Run, watched: JobId, *, most_steps: int) -> Sequence[JobId]:
    """Who starts before it from now on.

    Args:
        most_steps: by then so many jobs have ended that it must have started.
    """
    starts: deque[JobId] = deque()
    while watched in run.waiting:
        assert most_steps > 0, f"it waits behind {list(starts)}"
        most_steps -= 1
        starts.extend(run.step())
    return list(starts)[: starts.index(watched)] if watched in starts else ()
