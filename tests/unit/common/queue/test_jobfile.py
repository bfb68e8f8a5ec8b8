"""Job files: Ganeti's format to the key, tolerant in reading (luxid.md 3.1)."""

from pathlib import Path

import orjson
import pytest

from common.errors import DamagedFile
from common.ids import JobId
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, JobState, LogEntry

RECORDED = Path(__file__).parents[3] / "data" / "ganeti-3.0.2"
FILES = sorted(RECORDED.glob("queue-*/job-*"))
JOB = Job(
    JobId(12),
    (JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 1}, log=(LogEntry(1, (5, 6), "message", "hé"),)),),
    received_at=(1, 2),
    livelock="/run/l",
    process_id=63,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_of_a_real_ganeti_is_written_back_as_it_was(path: Path) -> None:
    original = orjson.loads(path.read_bytes())

    written = orjson.loads(encode_job(decode_job(path.read_bytes(), path.name)))

    # null and missing are the same for these
    expected = {
        key: value for key, value in original.items() if value is not None or not key.startswith(("live", "proc"))
    }
    assert written == expected


def test_the_states_of_the_recorded_jobs_are_as_recorded() -> None:
    table = {19: "running", 20: "waiting", 21: "canceled", 22: "waiting", 23: "queued", 24: "error", 18: "success"}

    read = {
        number: decode_job((RECORDED / f"queue-live/job-{number}").read_bytes(), "j").state.value for number in table
    }

    assert read == table


def test_saving_and_loading_gives_the_same_job() -> None:
    assert decode_job(encode_job(JOB), "job-12") == JOB


def test_a_file_has_only_the_keys_that_ganeti_knows() -> None:
    value = orjson.loads(encode_job(JOB))

    assert value.keys() == {
        "id", "ops", "received_timestamp", "start_timestamp", "end_timestamp", "livelock", "process_id",
    }  # fmt: skip
    assert value["ops"][0].keys() == {
        "input", "status", "result", "log", "priority", "start_timestamp", "exec_timestamp", "end_timestamp",
    }  # fmt: skip


def test_unknown_keys_are_kept() -> None:
    value = orjson.loads(encode_job(JOB))
    value["future"] = {"a": 1}
    value["ops"][0]["more"] = [2]

    again = orjson.loads(encode_job(decode_job(orjson.dumps(value), "job-12")))

    assert again["future"] == {"a": 1}
    assert again["ops"][0]["more"] == [2]


def test_a_missing_log_is_an_empty_one() -> None:
    value = orjson.loads(encode_job(JOB))
    del value["ops"][0]["log"]

    assert decode_job(orjson.dumps(value), "job-12").ops[0].log == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "job-12 is not JSON"),
        (encode_job(JOB)[:100], "at byte"),
        (b"[]", "job-12 is not a job"),
        (b'{"id":12}', "'ops' is missing"),
        (b'{"id":-1,"ops":[]}', "a job id"),
        (b'{"id":1,"ops":[{"input":{},"status":"runing"}]}', "unknown status 'runing'"),
        (b'{"id":1,"ops":[{"input":[],"status":"queued"}]}', "input must be an object"),
        (b'{"id":1,"ops":{}}', "expected a list"),
        (b'{"id":1,"ops":[],"end_timestamp":5}', "[seconds, microseconds]"),
        (b'{"id":1,"ops":[],"livelock":5}', "livelock must be a path"),
        (b'{"id":1,"ops":[{"input":{},"status":"queued","log":[[1]]}]}', "[serial, time, type, message]"),
    ],
)
def test_a_damaged_file_is_named_with_the_reason(content: bytes, said: str) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode_job(content, "job-12")

    assert said in caught.value.message


def test_every_way_of_cutting_a_file_is_noticed() -> None:
    content = encode_job(JOB)

    for length in range(len(content)):
        with pytest.raises(DamagedFile):
            decode_job(content[:length], "job-12")


def test_an_input_that_is_no_opcode_is_kept_verbatim() -> None:
    job = Job(JobId(1), (JobOp({"what": "ever"}, JobState.QUEUED),))

    assert decode_job(encode_job(job), "job-1").ops[0].input == {"what": "ever"}
    assert job.ops[0].op_id == "OP_INVALID"


def test_jobs_share_the_names_that_most_of_them_bear() -> None:
    trail = [["gnt:opcode:test_delay", "job=12;index=0", 1], ["gnt:client:gnt-job", "submit", 2]]
    content = encode_job(Job(JobId(12), (JobOp({"OP_ID": "OP_TEST_DELAY", "reason": trail}),)))

    one, other = (decode_job(content, "job-12").ops[0].input for _ in range(2))

    assert one["reason"] == trail
    assert one["OP_ID"] is other["OP_ID"]
    assert [mine[0] is theirs[0] for mine, theirs in zip(one["reason"], other["reason"], strict=True)] == [True, True]


@pytest.mark.parametrize("trail", [None, 5, "text", [], [[]], [None], [[None, "a", 1]], [["a"]], {"a": 1}])
def test_a_reason_of_any_form_is_kept_verbatim(trail: object) -> None:
    job = Job(JobId(12), (JobOp({"OP_ID": 7, "reason": trail}),))

    assert decode_job(encode_job(job), "job-12") == job
