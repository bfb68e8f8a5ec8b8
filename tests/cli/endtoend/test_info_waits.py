"""What `gnt-job info` says of the past (DESIGN section 6, "Explain"; ours)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from common.queue.explanation import Span
from common.words.why import waited_words
from tests.cli.command import Ended, normalised
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]
UUID = "00000000-0000-4000-8000-000000000001"
NOW = 1000.0


def span(kind: str, since: float, until: float | None, **rest: Any) -> dict[str, Any]:
    return {"kind": kind, **rest, "since": since, "until": until}


def words_of(spans: list[dict[str, Any]]) -> str | None:
    return waited_words([Span.from_wire(each) for each in spans], NOW)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ({"kind": "dependency", "job_ids": [17]}, "for job 17 to end"),
        ({"kind": "dependency", "job_ids": [17, 18]}, "for jobs 17, 18 to end"),
        ({"kind": "dependency", "job_ids": [17, 18], "more": 1}, "for jobs 17, 18 and another to end"),
        ({"kind": "dependency", "job_ids": [17, 18], "more": 5}, "for jobs 17, 18 and 5 others to end"),
        ({"kind": "filter", "names": [UUID]}, f"under filter rule {UUID}"),
        ({"kind": "filter", "names": [UUID], "reason": "move"}, f"under filter rule {UUID} (move)"),
        ({"kind": "limit", "names": ["2:backup"], "limit": 2, "is_bucket": True},
         "for one of the 2 places in rate limit '2:backup'"),
        ({"kind": "limit", "names": ["1:x"], "limit": 1, "is_bucket": True}, "for rate limit '1:x'"),
        ({"kind": "limit", "names": [UUID], "limit": 3}, f"for one of the 3 places in the limit of filter rule {UUID}"),
        ({"kind": "turn"}, "for its turn"),
        ({"kind": "obstacle"}, "as no job could be started"),
        ({"kind": "start"}, "for its process to be made"),
        ({"kind": "locks", "names": ["node/web1"], "job_ids": [18]}, "for the lock node/web1 held by job 18"),
        ({"kind": "locks", "names": ["node/a", "node/b"], "job_ids": [18, 19], "owners": ["me"]},
         "for the locks node/a, node/b held by jobs 18, 19 and me"),
        ({"kind": "locks", "names": ["node/a"], "owners": ["me"]}, "for the lock node/a held by me"),
        ({"kind": "locks", "names": ["node/a"]}, "for the lock node/a"),
        ({"kind": "unknown"}, "before luxid was restarted"),
    ],
)  # fmt: skip
def test_each_cause_has_its_words(cause: dict[str, Any], words: str) -> None:
    assert words_of([{**cause, "since": 1.0, "until": 9.1}]) == f"8.1s {words}"


def test_a_job_that_did_not_wait_has_nothing_to_tell() -> None:
    assert words_of([]) is None


def test_all_causes_are_summed_up_in_the_order_in_which_they_came() -> None:
    spans = [
        span("dependency", 0, 8.1, job_ids=[17]),
        span("turn", 8.1, 10.1),
        span("filter", 10.1, 200.1, names=[UUID]),
        span("turn", 200.1, 202.1),
        span("locks", 300, 300.2, names=["node/web1"], job_ids=[18]),
    ]

    assert words_of(spans) == (
        f"3m22s in all: 8.1s for job 17 to end, 4.0s for its turn, 3m10s under filter rule {UUID}, "
        "0.2s for the lock node/web1 held by job 18"
    )


def test_a_job_that_still_waits_has_waited_until_now() -> None:
    waiting = span("turn", 990, None)

    assert words_of([waiting]) == "10s for its turn (it still waits)"
    assert words_of([span("dependency", 980, 990, job_ids=[17]), waiting]) == (
        "20s so far: 10s for job 17 to end, 10s for its turn (it still waits)"
    )


def test_of_very_many_causes_the_longest_are_told() -> None:
    spans = [span("dependency", 0, 10 + number % 4, job_ids=[number]) for number in range(1, 10)]

    assert words_of(spans) == (
        "1m43s in all: 11s for job 1 to end, 12s for job 2 to end, 13s for job 3 to end, 11s for job 5 to end, "
        "12s for job 6 to end, 13s for job 7 to end, 31s for 3 other reasons"
    )


def test_info_tells_what_a_job_waited_for(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(12, "success", start_ts=AT, end_ts=AT), FakeJob(13))
    spans = [span("dependency", AT[0], AT[0] + 8.1, job_ids=[11])]
    luxid.waits = {12: spans}

    told, as_json = job("info", "12", "13", "99"), json.loads(job("info", "--output", "json", "12", "13").out)

    assert told.code == 1
    assert [line for line in told.out.splitlines() if "Waited" in line] == ["  Waited: 8.1s for job 11 to end"]
    assert [row["waits"] for row in as_json] == [spans, []]


def test_info_and_why_name_the_node_of_a_lock_that_a_job_waited_for(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(12, "success", start_ts=AT, end_ts=AT))
    luxid.nodes = [{"uuid": UUID, "name": "web1"}]
    luxid.waits = {12: [span("locks", AT[0], AT[0] + 8.1, names=[f"node/{UUID}"], job_ids=[11])]}

    for verb in ("info", "why"):
        assert f"aited 8.1s for the lock node/{UUID} (web1) held by job 11" in job(verb, "12").out.replace(
            "aited:", "aited"
        )


def test_why_tells_what_a_job_waited_for_so_far(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(
        FakeJob(12, "success", start_ts=AT, end_ts=AT), FakeJob(13), FakeJob(14, "running"), FakeJob(15)
    )
    spans = [span("dependency", AT[0], AT[0] + 8.1, job_ids=[11])]
    luxid.waits = {12: spans, 13: [*spans, span("turn", AT[0] + 8.1, None)], 14: spans, 15: [span("turn", AT[0], None)]}
    luxid.reasons = {job_id: [{"kind": "order", "position": 1, "ahead": []}] for job_id in (13, 15)}

    told, as_json = job("why", "12", "13", "14", "15"), json.loads(job("why", "--output", "json", "12").out)

    assert (
        normalised(told.out)
        == """\
job 12: success after TIME: TEST_DELAY(1.0)
  waited TIME for job 11 to end
  submitted at CLOCK, begun at CLOCK, ran TIME
job 13: queued for TIME: TEST_DELAY(1.0)
  is first in line
  before that it waited TIME for job 11 to end
job 14: running for TIME: TEST_DELAY(1.0)
  nothing holds it
job 15: queued for TIME: TEST_DELAY(1.0)
  is first in line
"""
    )
    assert as_json[0]["waits"] == spans
