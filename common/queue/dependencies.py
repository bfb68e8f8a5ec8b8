"""The `depends` attribute of an opcode: parsing, relative ids, and the verdict for a state.

A dependency names a job and the final states it may have ended in. A negative id is relative:
-1 is the job before this one in the same submission; it must point backwards and stay within
the submission. An empty list of states means success or error.

Source: chained-jobs design; luxid.md 5.4; DESIGN section 11.
"""

import enum
from collections.abc import Sequence

import attrs

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import FINAL, JobState
from common.shapes import OwnForm

# maximum length of an id in digits, with the sign
_LONGEST_ID = 20


@attrs.frozen
class Dependency(OwnForm):
    # absolute if >= 0; relative to the job's own place in the submission if negative
    job_id: int
    # final states; empty: success or error
    wanted: tuple[JobState, ...] = ()

    def to_wire(self) -> list[object]:
        return [self.job_id, [state.value for state in self.wanted]]

    @classmethod
    def from_wire(cls, value: object) -> "Dependency":
        """Raises: InvalidRequest: the value is not `[job id, [final states]]`."""
        match value:
            case [int() as job_id, list() as names] if not isinstance(job_id, bool):
                return cls(job_id, tuple(_final_state(name) for name in names))
            case [str() as text, list() as names] if _is_number(text):
                return cls(int(text), tuple(_final_state(name) for name in names))
            case _:
                raise InvalidRequest(f'a dependency is [job id, [states]], e.g. [-1, ["success"]]; got {value!r}')


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _LONGEST_ID


def _final_state(name: object) -> JobState:
    for state in FINAL:
        if state.value == name:
            return state
    raise InvalidRequest(f"a dependency may wait for canceled, success or error; got {name!r}")


def resolve(dependency: Dependency, place: int, ids: Sequence[JobId]) -> Dependency:
    """Make a relative dependency of the job at `place` of a submission absolute.

    Args:
        ids: ids of the submission's jobs, at least of those before `place`, as a relative id counts back.
    Raises: InvalidRequest: the dependency points outside the submission.
    """
    if dependency.job_id >= 0:
        return dependency
    target = place + dependency.job_id
    if target < 0:
        raise InvalidRequest(
            f"dependency {dependency.job_id} of job {place + 1} points before the submission; "
            f"a relative id counts back among the jobs submitted together"
        )
    return attrs.evolve(dependency, job_id=ids[target])


class DependencyVerdict(enum.Enum):
    """What the state of the named job means for the opcode that depends on it."""

    WAIT = "wait"
    MET = "met"
    CANCEL = "cancel"  # the named job was canceled, which was not a wanted state
    FAIL = "fail"  # it ended in a state that was not wanted


def judge(dependency: Dependency, state: JobState) -> DependencyVerdict:
    """Judge a dependency by the state of the named job."""
    if not state.is_final:
        return DependencyVerdict.WAIT
    if state in dependency.wanted:
        return DependencyVerdict.MET
    if state is JobState.CANCELED:
        return DependencyVerdict.CANCEL
    return DependencyVerdict.FAIL if dependency.wanted else DependencyVerdict.MET
