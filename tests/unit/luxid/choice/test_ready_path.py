"""How many modules of the core a job passes when it becomes ready: few, so that a reader can follow it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import daemons.luxid.core
from common.ids import JobId
from common.queue.jobs import JobState
from daemons.luxid.core.queue.entry import Phase
from tests.unit.luxid.choice.test_pick import NOW, command, make_job, make_queue

CORE = Path(daemons.luxid.core.__file__).parent


def modules_of(call: Callable[[], object]) -> set[str]:
    """The modules of the core in which a function begins during the call."""
    seen: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(CORE):
            seen.add(str(path.relative_to(CORE)))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def test_a_job_that_becomes_ready_passes_four_modules_once_its_event_is_known() -> None:
    """The event is the end of the job that it waited for: what waited is found, and what held it noted."""
    waiting = make_job(2, {**command(node_a="exclusive"), "depends": [[1, []]]}, reason="rate-limit:2:x")
    like_it = make_job(3, command(node_a="exclusive"), reason="rate-limit:2:x")
    queue = make_queue(make_job(1), waiting, like_it, slots=0)
    queue.decide(NOW)

    seen = modules_of(lambda: queue.end(JobId(1), JobState.SUCCESS))

    assert queue.phase(JobId(2)) is Phase.READY
    end_alone = {"filters/judging.py", "filters/filtering.py", "choice/limits.py"}
    event = {"queue/dependents.py", "why/history.py"}

    assert seen - end_alone - event == {
        "queue/jobqueue.py",
        "queue/entries.py",
        "choice/readyjobs.py",
        "choice/jobclasses.py",
    }
