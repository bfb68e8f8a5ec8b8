"""How large a job may be (daemons.luxid.core.submission.newjobs): each bound is refused with the numbers."""

from typing import Any

import pytest

from cli.submitting.batchoptions import MOST_ELEMENTS
from common.errors import InvalidRequest
from common.settings import LimitsSettings
from daemons.luxid.core.submission.newjobs import JobBounds, parse_jobs
from protocol.envelope import Call
from protocol.serving.service import ItemBound
from tests.support.steps import result_of

BOUNDS = JobBounds(opcodes=3, size_bytes=2000, locks=20, depends=2)


def run(**given: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **given}


def locks(count: int) -> dict[str, str]:
    return {f"node/n{number}": "shared" for number in range(count)}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ([run()] * 4, "the job has 4 opcodes, of at most 3; split it, or raise 'max_job_opcodes' in '[limits]'"),
        ([run(comment="x" * 2000)], "the job has 2057 bytes, of at most 2000; split it, or raise 'max_job_bytes'"),
        (
            [run(), run(locks=locks(21))],
            "opcode 2: it names 21 locks, of at most 20; split it, or lock the whole level: 'node/[lockset]', or raise",
        ),
        (
            [run(depends=[[-1, []]] * 3)],
            "opcode 1: it depends on 3 jobs, of at most 2; split it, or raise 'max_opcode_depends'",
        ),
    ],
)
def test_a_job_beyond_a_bound_is_refused_with_the_numbers(job: list[Any], message: str) -> None:
    (alone,) = result_of(parse_jobs([job], BOUNDS))
    first, second = result_of(parse_jobs([[run()], job], BOUNDS))

    assert isinstance(alone, InvalidRequest)
    assert alone.message.startswith(message)
    assert isinstance(second, InvalidRequest)
    assert second.message.startswith("job 2")
    assert message in second.message
    assert isinstance(first, tuple)


def test_a_job_at_its_bounds_is_taken() -> None:
    job = [run(), run(depends=[[-1, []]] * 2), run(locks=locks(20))]

    (parsed,) = result_of(parse_jobs([job], BOUNDS))

    assert isinstance(parsed, tuple)
    assert len(parsed) == 3


def test_the_usual_bounds_are_generous() -> None:
    limits = LimitsSettings()
    usual = JobBounds(limits.max_job_opcodes, limits.max_job_bytes, limits.max_locks, limits.max_opcode_depends)

    # a job that waits for all of the largest batch
    batch = [[number, ["success", "error", "canceled"]] for number in range(1_000_000, 1_000_000 + MOST_ELEMENTS)]
    parsed = result_of(parse_jobs([[run(locks=locks(4000))], [run()] * 1000, [run(depends=batch)]], usual))

    assert [len(ops) for ops in parsed if isinstance(ops, tuple)] == [1, 1000, 1]


@pytest.mark.parametrize("params", [["x", list(range(11))], {"a": 1, "b": list(range(11))}])
def test_a_call_with_too_many_items_is_refused_with_the_numbers(params: Any) -> None:
    bound = ItemBound(10, "max_items")

    with pytest.raises(
        InvalidRequest,
        match=r"an argument of M has 11 items, of at most 10; call several times, or raise 'max_items' in '\[limits\]'",
    ):
        bound.check(Call("M", params))
    bound.check(Call("M", ["x", list(range(10))]))
