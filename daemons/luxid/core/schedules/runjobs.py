"""The job of a run: the schedule's opcodes, under its name, with a label, after the jobs that it waits for.

Source: DESIGN section 16; everyday.md sections c and f.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from common.ids import JobId
from common.queue.dependencies import Dependency
from common.queue.jobs import FINAL
from common.queue.terms import SOURCE, terms_entry, terms_of_trail
from common.schedules.schedule import Schedule
from common.schedules.times import instant_name
from protocol.luxi.submission import JobInput

LABEL: Final = "schedule"
_NS: Final = 1_000_000_000
_ANY_END: Final = tuple(sorted(FINAL, key=lambda state: state.value))


def run_key(schedule: Schedule, nominal_at: float) -> str:
    """The submission key of a run: the same for it at each start of luxid, and on each master."""
    return f"schedule/{schedule.uuid}/{instant_name(nominal_at)}"


def hand_key(schedule: Schedule, key: str) -> str:
    """The submission key of a run by hand. Args: key: chosen by the client."""
    return f"schedule/{schedule.uuid}/by-hand/{key}"


def run_job(schedule: Schedule, nominal_at: float, after: Sequence[JobId] = ()) -> JobInput:
    """Args: after: jobs whose end, whatever it is, the job waits for."""
    first, *others = schedule.job
    trail = first.get("reason")
    entries = [entry for entry in trail if not _is_terms(entry)] if isinstance(trail, list | tuple) else []
    terms = terms_of_trail(trail)
    named = attrs.evolve(terms, name=schedule.name, labels={**terms.labels, LABEL: schedule.name})
    entry = terms_entry(named, int(nominal_at * _NS)).to_wire()
    run: dict[str, object] = {**first, "reason": [*entries, entry]}
    if after:
        run["depends"] = [Dependency(job_id, _ANY_END).to_wire() for job_id in after]
    return (run, *others)


def _is_terms(entry: object) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and entry[0] == SOURCE
