"""What the measurement of take-overs prints of each. Source: `takeovers.py`."""

import pytest

from tests.reliability.lease.takeovers import _HARMS, _KINDS, Step


@pytest.mark.parametrize(("failed", "more"), [(0, ""), (1, "; 1 job failed"), (3, "; 3 jobs failed")])
def test_a_step_is_told_in_plain_words(failed: int, more: str) -> None:
    assert Step("cut", 6.04, 5.26, failed).words() == (
        f"the master cut off from etcd: the next master started a job after 6.0 s, a client waited 5.3 s at most{more}"
    )


def test_each_kind_of_harm_has_words() -> None:
    assert set(_HARMS) == set(_KINDS)
