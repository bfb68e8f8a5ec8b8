"""Jobs of many opcodes: a step encodes a few opcodes, and the file is the same as if all had been."""

import gc
import random
from collections.abc import Callable

import attrs
import orjson
import pytest

from common.ids import JobId
from common.queue import jobfile
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, JobState, OpEvent, apply_event, end_job, replace_op, set_priority

COUNT = 300
OPS = tuple(JobOp({"OP_ID": "OP_TEST_DUMMY", "messages": [f"é{number}"]}) for number in range(COUNT))
LARGE = Job(JobId(7), OPS, received_at=(1, 2), livelock="/run/l", process_id=63, extra={"theirs": 1})


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[JobOp]:
    """The opcodes that were encoded, as they are."""
    seen: list[JobOp] = []
    real: Callable[[JobOp], dict[str, object]] = jobfile._op_to_json

    def noting(op: JobOp) -> dict[str, object]:
        seen.append(op)
        return real(op)

    monkeypatch.setattr(jobfile, "_op_to_json", noting)
    return seen


def whole(job: Job) -> object:
    """The content of the file, of opcodes that were all encoded for it."""
    small = [encode_job(attrs.evolve(job, ops=(op,))) for op in job.ops]
    return {**orjson.loads(small[0]), "ops": [orjson.loads(each)["ops"][0] for each in small]}


def test_a_step_of_a_large_job_encodes_a_few_opcodes(encoded: list[JobOp]) -> None:
    encode_job(LARGE)
    running = replace_op(LARGE, 5, apply_event(LARGE.ops[5], OpEvent.LOCKED, (3, 4)))
    encoded.clear()

    encode_job(running)
    encode_job(running)

    assert encoded == list(running.ops[:50])


def test_the_file_is_the_same_as_if_all_opcodes_had_been_encoded() -> None:
    draw, job = random.Random(5), LARGE
    for step in range(60):
        index = draw.randrange(COUNT)
        op = job.ops[index]
        match draw.randrange(4):
            case 0 if op.state is JobState.QUEUED:
                job = replace_op(job, index, apply_event(op, OpEvent.LOCKED, (3, step)))
            case 1 if op.state is JobState.RUNNING:
                job = replace_op(job, index, apply_event(op, OpEvent.SUCCEEDED, (4, step), {"at": step}))
            case 2 if step % 20 == 0:
                job = set_priority(job, draw.choice((-10, 10)))
            case 3:
                # another job of as many opcodes is written meanwhile
                encode_job(attrs.evolve(LARGE, job_id=JobId(8), ops=LARGE.ops[::-1]))
            case _:
                continue
        assert orjson.loads(encode_job(job)) == whole(job)
    ended = end_job(job, OpEvent.FAILED, (9, 9), ["no"])
    assert orjson.loads(encode_job(ended)) == whole(ended)
    assert decode_job(encode_job(ended), "job-7") == ended


def test_what_cannot_be_encoded_changes_nothing() -> None:
    encode_job(LARGE)
    first = attrs.evolve(LARGE.ops[0], priority=3)
    wrong = attrs.evolve(LARGE.ops[1], result=object())

    with pytest.raises(TypeError):
        encode_job(attrs.evolve(LARGE, ops=(first, wrong, *LARGE.ops[2:])))

    assert orjson.loads(encode_job(LARGE)) == whole(LARGE)


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_rests_while_a_large_file_is_read(was_enabled: bool) -> None:
    content = encode_job(attrs.evolve(LARGE, ops=OPS * 40))
    runs: list[str] = []

    def note(phase: str, _: object) -> None:
        runs.append(phase)

    (gc.enable if was_enabled else gc.disable)()
    gc.callbacks.append(note)
    try:
        read = decode_job(content, "job-7")
        is_enabled = gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        gc.enable()

    assert len(read.ops) == 40 * COUNT
    assert is_enabled is was_enabled
    # at most one, of each generation, when it goes on
    assert runs.count("start") <= 3
