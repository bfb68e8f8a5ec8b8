"""What the commands of a job used, in words. Source: DESIGN section 16."""

from typing import Any

import pytest

from common.words.fields import FIELDS, size, usage_of, usage_words


def used(memory: int, cpu: float, read: int, *, of_all: bool = False) -> dict[str, Any]:
    return {
        "memory_peak_bytes": memory,
        "memory_of_all": of_all,
        "cpu_user_s": cpu,
        "cpu_system_s": 0.5,
        "read_bytes": read,
        "written_bytes": 3 * 2**20,
    }


RESULTS = [
    None,
    {"usage": used(2**20, 1.0, 512)},
    ["OpExecError", ["bad", {"usage": used(2**30, 2.25, 0, of_all=True)}]],
]


def test_memory_is_the_highest_and_the_rest_a_sum() -> None:
    usage = usage_of(RESULTS)

    assert usage is not None
    assert usage_words(usage) == (
        "peak memory 1.0 GiB, CPU 3.25s user and 1.00s system, 512 B read and 6.0 MiB written"
    )
    cells = [FIELDS[name].show({"opresult": RESULTS}, 0.0) for name in ("memory", "cpu", "read", "written")]
    assert cells == ["1.0 GiB", "4.25s", "512 B", "6.0 MiB"]


def test_a_peak_that_is_only_a_bound_is_told_as_such() -> None:
    bound = {"usage": {**used(35 * 2**20, 0.0, 0), "memory_is_at_most": True}}
    known = {"usage": {**used(2**30, 0.0, 0), "memory_is_at_most": False}}

    usage = usage_of([bound])
    assert usage is not None
    assert usage_words(usage).startswith("peak memory at most 35.0 MiB (largest process), CPU")
    assert FIELDS["memory"].show({"opresult": [bound]}, 0.0) == "<=35.0 MiB"
    assert FIELDS["memory"].show({"opresult": [bound, known]}, 0.0) == "1.0 GiB"


def test_a_job_without_commands_used_nothing_that_is_known() -> None:
    assert usage_of([None, "x", ["OpExecError", ["bad"]], ["OpPrereqError", ["bad", "wrong_state"]]]) is None
    assert FIELDS["memory"].show({"opresult": None}, 0.0) == ""


@pytest.mark.parametrize(("count", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words
