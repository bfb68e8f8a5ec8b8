"""`gnt-job why`. Source: DESIGN section 6, "Explain"."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from common.queue.explanation import Reason
from common.wire import structure
from common.words.why import in_words
from tests.cli.command import Ended, normalised
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]
UUID = "00000000-0000-4000-8000-000000000001"
TRAIL = [["gnt:user", "the mirror is down", 1], ["luxid", "", 2]]

# a union is no class to the type checker
REASON: Any = Reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ({"kind": "dependency", "job_id": 4, "state": "running", "since": None, "wanted": ["success"]},
         "waits for job/4, which is running, to succeed"),
        ({"kind": "dependency", "job_id": 4, "state": None, "since": None, "wanted": []}, "waits for job/4 to end"),
        ({"kind": "dependency", "job_id": 4, "state": "queued", "since": None, "wanted": ["error", "canceled"]},
         "waits for job/4, which is queued, to fail or be canceled"),
        ({"kind": "filter", "uuid": UUID, "action": "PAUSE", "reason_trail": TRAIL},
         f"is paused by filter rule {UUID}: the mirror is down"),
        ({"kind": "filter", "uuid": UUID, "action": "REJECT", "reason_trail": []},
         f"is rejected by filter rule {UUID}"),
        ({"kind": "filter", "uuid": UUID, "action": ["RATE_LIMIT", 3], "reason_trail": []},
         f"may run beside at most 2 others of filter rule {UUID}"),
        ({"kind": "limit", "name": "2:backup", "is_bucket": True, "running_count": 2, "limit": 2, "members": [4, 5]},
         "the rate limit '2:backup' is full, 2 of 2 run: job/4, job/5"),
        ({"kind": "limit", "name": UUID, "is_bucket": False, "running_count": 1, "limit": 1, "members": [4]},
         f"the limit of filter rule {UUID} is full, 1 of 1 run: job/4"),
        ({"kind": "slots", "used": 12, "slots": 12, "running": list(range(1, 13))},
         "no place is free, 12 of 12 are taken: " + ", ".join(f"job/{n}" for n in range(1, 11)) + " and 2 others"),
        ({"kind": "reserved slots", "used": 48, "limit": 48, "slots": 50},
         "the last 2 of 50 places are reserved for users with the role 'operate'; "
         "jobs of the others have 48 of at most 48"),
        ({"kind": "user", "running_count": 46, "limit": 46},
         "its user runs 46 jobs, of at most 46 while others wait; theirs are started first"),
        ({"kind": "order", "position": 1, "ahead": []}, "is first in line"),
        ({"kind": "order", "position": 4, "ahead": [1, 2]}, "is number 4 in line, behind job/1, job/2 and another"),
        ({"kind": "aged weight", "static": 7.5, "aged": 5.0, "ticks": 3},
         "its locks weigh 7.5 in the line, 5 of it left after 3 ticks"),
        ({"kind": "weight", "level": "node", "weight": 7.5, "job_ids": [4], "held": []},
         "of that 7.5 for node locks, beside those of job/4"),
        ({"kind": "moment", "phase": "held"}, "luxid is busy with it (held), that takes a moment"),
        ({"kind": "obstacle", "what": "the fork server is away"}, "no job is started: the fork server is away"),
        ({"kind": "unreadable", "job_id": 4, "why": "'job-4' cannot be read: too many open files"},
         "the file of job/4 cannot be read just now, and is tried again: 'job-4' cannot be read: too many open files"),
        ({"kind": "unknown", "what": "which locks it waits for, if any", "why": "wconfd is not running"},
         "it is not known which locks it waits for, if any: wconfd is not running"),
        ({"kind": "weather", "rain": 3}, '{"kind":"weather","rain":3}'),
    ],
)  # fmt: skip
def test_each_reason_has_its_words(reason: dict[str, Any], words: str) -> None:
    assert in_words(structure(reason, REASON), 1000.0) == words


def held(owner: str, lock: str, mode: str, since: float | None) -> dict[str, Any]:
    job_id = int(owner.removeprefix("job/")) if owner.startswith("job/") else None
    return {"owner": owner, "job_id": job_id, "lock": lock, "mode": mode, "since": since}


LOCK = {"kind": "lock", "lock": "node/a", "mode": "exclusive", "waiting_since": 940.0, "counting_since": 400.0}
CHAIN = {"kind": "lock chain", "root_job_ids": [], "counting_since": 400.0}


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (LOCK | {"holders": [
            held("job/4", "node/a", "exclusive", 700.0), held("me", "node/[lockset]", "shared", None)]},
         "has waited 1m00s for node/a (exclusive), held by job/4 (exclusive, for 5m00s), "
         "me (node/[lockset] shared, for more than 10m00s)"),
        (LOCK | {"waiting_since": None, "holders": [held("me", "node/a", "shared", 990.0)]},
         "has waited more than 10m00s for node/a (exclusive), held by me (shared, for 10s)"),
        ({"kind": "turn", "owners": ["job/4", "me"], "job_ids": [4], "waiting_since": 940.0, "counting_since": 400.0},
         "has waited 1m00s and lets job/4, me go first, which were passed too often"),
        ({"kind": "turn", "owners": ["job/4"], "job_ids": [4], "waiting_since": 940.0, "counting_since": 400.0},
         "has waited 1m00s and lets job/4 go first, which was passed too often"),
        (CHAIN | {"waits": [], "roots": ["job/4", "me"], "rings": []}, "the chain ends at job/4, me"),
        (CHAIN | {"waits": [
            {"owner": "me", "job_id": None, "lock": "node/b", "mode": "shared", "waiting_since": 1.0,
             "holders": [held("job/4", "node/b", "exclusive", 970.0)]},
            {"owner": "job/5", "job_id": 5, "lock": "node/c", "mode": "shared", "waiting_since": 1.0, "holders": []},
         ], "roots": ["job/4"], "rings": []},
         "me waits for node/b (shared), held by job/4 (exclusive, for 30s); the chain ends at job/4"),
        (CHAIN | {"waits": [], "roots": [], "rings": [["job/4", "job/5"]]},
         "job/4 waits for job/5 waits for job/4: none of them can go on, cancel one"),
        ({"kind": "weight", "level": "node", "weight": 3.0, "job_ids": [4], "held": [
            held("job/4", "node/a", "exclusive", 880.0), held("job/4", "node/b", "shared", None)]},
         "of that 3 for node locks, beside those of job/4: job/4 (node/a exclusive, for 2m00s), "
         "job/4 (node/b shared)"),
        ({"kind": "dependency", "job_id": 4, "state": "running", "since": 940.0, "wanted": ["success"]},
         "waits for job/4, which is running for 1m00s, to succeed"),
        ({"kind": "dependency", "job_id": 4, "state": None, "since": None, "wanted": []}, "waits for job/4 to end"),
    ],
)  # fmt: skip
def test_durations_are_those_up_to_now(reason: dict[str, Any], words: str) -> None:
    assert in_words(structure(reason, REASON), 1000.0) == words


def test_the_chain_is_told_to_its_root(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(
        FakeJob(4, "running", start_ts=AT, summary=["RUN_COMMAND(sleep)"]),
        FakeJob(5, "waiting", start_ts=AT),
        FakeJob(6, "waiting"),
        FakeJob(7, "waiting"),
        FakeJob(8, "success", start_ts=AT, end_ts=[AT[0] + 2, 0]),
        FakeJob(9, "running", start_ts=AT),
        FakeJob(10),
    )
    waits = {"owner": "me", "job_id": None, "lock": "node/b", "mode": "shared", "waiting_since": AT[0]}
    luxid.reasons = {
        10: [
            {"kind": "order", "position": 2, "ahead": [5]},
            {"kind": "aged weight", "static": 7.5, "aged": 7.5, "ticks": 0},
        ],
        5: [
            LOCK | {"holders": [held("me", "node/a", "shared", None)]},
            CHAIN
            | {
                "waits": [waits | {"holders": [held("job/4", "node/b", "exclusive", AT[0])]}],
                "roots": ["job/4"],
                "root_job_ids": [4],
                "rings": [],
            },
        ],
        6: [{"kind": "dependency", "job_id": 5, "state": "waiting", "since": AT[0], "wanted": ["success"]}],
        7: [
            {"kind": "dependency", "job_id": 5, "state": "waiting", "since": AT[0], "wanted": []},
            {"kind": "order", "position": 1, "ahead": []},
            {"kind": "aged weight", "static": 7.5, "aged": 7.5, "ticks": 0},
        ],
    }

    ended = job("why", "6", "7", "8", "9", "10")
    as_json = json.loads(job("why", "--output", "json", "5").out)

    assert (ended.code, ended.err) == (0, "")
    assert (
        normalised(ended.out)
        == """\
job 6: waiting for TIME: TEST_DELAY(1.0)
  waits for job/5, which is waiting for TIME, to succeed
    job 5: waiting for TIME: TEST_DELAY(1.0)
      has waited TIME for node/a (exclusive), held by me (shared, for more than TIME)
      me waits for node/b (shared), held by job/4 (exclusive, for TIME); the chain ends at job/4
        job 4: running for TIME: RUN_COMMAND(sleep)
          nothing holds it
job 7: waiting for TIME: TEST_DELAY(1.0)
  waits for job/5, which is waiting for TIME, to end
  is first in line
    job 5: waiting for TIME: TEST_DELAY(1.0) (see above)
job 8: success after TIME: TEST_DELAY(1.0)
  submitted at CLOCK, begun at CLOCK, ran TIME
job 9: running for TIME: TEST_DELAY(1.0)
  nothing holds it
job 10: queued for TIME: TEST_DELAY(1.0)
  is number 2 in line, behind job/5
  its locks weigh 7.5 in the line
"""
    )
    told = {"id": 5, "status": "waiting", "reasons": luxid.reasons[5], "waits": [], "end": None}
    assert as_json[0].items() >= told.items()
    assert as_json[0]["received_ts"] == AT
    assert as_json[0]["begin"] is None


def test_a_job_that_is_not_there_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid(FakeJob(5))

    ended = job("why", "5", "99")

    assert ended.code == 1
    assert normalised(ended.out) == "job 5: queued for TIME: TEST_DELAY(1.0)\n  nothing holds it\n"
    assert ended.err == "error: there is no job 99; 'gnt-job list' shows those that are not archived\n"


def test_an_ended_job_tells_why_it_ended_so(start_luxid: Start, job: Job) -> None:
    start_luxid(
        FakeJob(5, "error", start_ts=AT, end_ts=[AT[0] + 2, 0], results=[["OpExecError", ["no space left"]]]),
    )

    ended = job("why", "5")
    as_json = json.loads(job("why", "--output", "json", "5").out)

    assert normalised(ended.out) == (
        "job 5: error after TIME: TEST_DELAY(1.0)\n  failed, TEST_DELAY(1.0): no space left, at CLOCK\n"
        "  submitted at CLOCK, begun at CLOCK, ran TIME\n"
    )
    assert as_json[0]["end"] == "failed, TEST_DELAY(1.0): no space left"


def test_not_more_jobs_are_looked_at_because_many_are_named(start_luxid: Start, job: Job) -> None:
    """Of more than a hundred named jobs those that block them are not looked at."""
    luxid = start_luxid(*(FakeJob(number) for number in range(1, 1001)))
    # the hundred and first has many in its way
    waits = {"kind": "dependency", "state": "queued", "since": None, "wanted": list[str]()}
    luxid.reasons = {101: [{**waits, "job_id": number} for number in range(500, 1000)]}

    ended = job("why", *range(1, 102))

    assert ended.code == 0
    assert "… 500 more not looked at; see: " in ended.out
