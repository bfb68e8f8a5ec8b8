"""Resources in the simulator: traces small enough to work out by hand. Source: DESIGN section 16."""

import pytest

from common.errors import InvalidRequest
from common.queue.terms import read_use
from common.resources import Resource
from daemons.luxid.simulate.replay import FIRST_COME, SimulatedLimits, replay
from daemons.luxid.simulate.trace import TraceJob, read_trace, write_trace


def job(arrival_s: float, duration_s: float, **uses: int) -> TraceJob:
    return TraceJob(arrival_s, duration_s, uses=tuple(read_use(key, count) for key, count in uses.items()))


def starts(max_unit_bypass: int, *trace: TraceJob) -> list[float]:
    limits = SimulatedLimits(50, max_unit_bypass=max_unit_bypass, resources=(Resource("", "licences", 2),))
    return [run.started_s for run in replay(trace, FIRST_COME, limits)]


def test_jobs_wait_for_units_and_others_pass() -> None:
    trace = (job(0, 10, licences=2), job(0, 10, licences=1), job(0, 10))

    assert starts(8, *trace) == [0, 10, 0]


def test_a_large_request_under_a_stream_is_passed_as_often_as_the_setting_says() -> None:
    stream = [job(5 * count, 10, licences=1) for count in range(10)]
    trace = (*stream[:2], job(6, 10, licences=2), *stream[2:])

    # at 0 and 5 one begins; after that each pass takes one from the large request
    assert starts(2, *trace)[2] == 25
    assert starts(4, *trace)[2] == 35


def test_a_trace_with_uses_is_written_and_read() -> None:
    trace = (job(0, 10, licences=2), job(1, 10))

    assert read_trace(write_trace(trace), "t") == trace
    with pytest.raises(InvalidRequest, match="line 1: a job uses at least 1 of 'kits', got 0"):
        read_trace(b'{"arrival": 0, "duration": 1, "uses": {"kits": 0}}', "t")
