"""The state of a batch, by the states of its jobs. Source: everyday.md j, "group's state"."""

from collections import Counter

import pytest

from common.words.outcome import batch_state, counts_text


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        (["success", "success"], "success"),
        (["success", "error", "canceled"], "error"),
        (["success", "canceled"], "canceled"),
        (["error", "queued"], "active"),
        (["canceling", "success"], "active"),
        (["running"], "active"),
    ],
)
def test_a_batch_is_active_as_long_as_a_job_is_and_then_as_bad_as_the_worst(statuses: list[str], state: str) -> None:
    assert batch_state(Counter(statuses)) == state


def test_counts_are_told_by_words() -> None:
    statuses = ["success"] * 97 + ["error"] * 2 + ["running"]

    assert counts_text(Counter(statuses)) == "97 ok, 2 failed, 1 running"
    assert counts_text({}) == ""
