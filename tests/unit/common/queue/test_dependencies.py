"""Chained jobs: the `depends` attribute (chained-jobs design; luxid.md 5.4)."""

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import Dependency, DependencyVerdict, JobState, judge, resolve

S, V = JobState, DependencyVerdict


@pytest.mark.parametrize("state", [S.QUEUED, S.WAITING, S.RUNNING, S.CANCELING])
def test_a_job_that_is_not_final_is_waited_for(state: JobState) -> None:
    assert judge(Dependency(1, (S.SUCCESS, S.ERROR, S.CANCELED)), state) is V.WAIT


@pytest.mark.parametrize(
    ("wanted", "state", "verdict"),
    [
        ((S.SUCCESS,), S.SUCCESS, V.MET),
        ((S.SUCCESS,), S.ERROR, V.FAIL),
        ((S.SUCCESS,), S.CANCELED, V.CANCEL),
        ((S.ERROR,), S.ERROR, V.MET),
        ((S.ERROR,), S.SUCCESS, V.FAIL),
        ((S.CANCELED,), S.CANCELED, V.MET),
        ((S.CANCELED,), S.SUCCESS, V.FAIL),
        ((), S.SUCCESS, V.MET),
        ((), S.ERROR, V.MET),
        ((), S.CANCELED, V.CANCEL),
    ],
)
def test_a_final_state_is_judged_by_what_was_asked(
    wanted: tuple[JobState, ...], state: JobState, verdict: DependencyVerdict
) -> None:
    assert judge(Dependency(1, wanted), state) is verdict


def test_a_relative_id_counts_back_in_the_submission() -> None:
    ids = [JobId(11), JobId(12), JobId(13)]

    assert resolve(Dependency(-1), 2, ids) == Dependency(12)
    assert resolve(Dependency(-2), 2, ids) == Dependency(11)
    assert resolve(Dependency(5), 2, ids) == Dependency(5)


def test_a_relative_id_must_stay_in_the_submission() -> None:
    with pytest.raises(InvalidRequest, match="points before the submission"):
        resolve(Dependency(-3), 2, [JobId(11), JobId(12), JobId(13)])


@pytest.mark.parametrize(
    "value", [[1], [1, None], [1, ["running"]], [1, "success"], ["x", []], [True, []], 5, [1.5, []]]
)
def test_a_malformed_dependency_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        Dependency.from_wire(value)


@pytest.mark.parametrize("value", [[1, ["success"]], [-2, []], [7, ["error", "canceled"]]])
def test_a_dependency_goes_over_the_wire_unchanged(value: object) -> None:
    assert Dependency.from_wire(value).to_wire() == value
