"""The inputs of a long queue are kept as text, and look like the objects that they stand for."""

import tracemalloc
from pathlib import Path

import orjson
import pytest

from common.ids import JobId
from common.queue.jobfile import PackedInput, decode_job, encode_job, pack
from common.queue.jobs import Job, JobOp

RECORDED = Path(__file__).parents[3] / "data" / "ganeti-3.0.2"
FILES = sorted(RECORDED.glob("queue-*/job-*"))
INPUT = {
    "OP_ID": "OP_RUN_COMMAND",
    "argv": ["/usr/bin/render", "--scene", "é"],
    "depends": None,
    "locks": {"instance/i1": "exclusive"},
    "timeout": 3600.0,
    "reason": [["gnt:client:gantry", "run", 1_800_000_000_000_000_000]],
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_packed_job_is_equal_to_the_plain_one_and_written_alike(path: Path) -> None:
    content = path.read_bytes()

    plain, packed = decode_job(content, path.name), decode_job(content, path.name, packed=True)

    assert all(isinstance(op.input, PackedInput) for op in packed.ops)
    assert packed == plain
    assert plain == packed
    assert encode_job(packed) == encode_job(plain)


def test_a_packed_input_reads_as_its_object() -> None:
    packed = pack(INPUT)

    assert isinstance(packed, PackedInput)
    assert {**packed} == INPUT
    assert list(packed.items()) == list(INPUT.items())
    assert packed["argv"] == INPUT["argv"]
    assert packed.get("depends", "absent") is None
    assert packed.get("user") is None
    assert "argv" in packed
    assert "user" not in packed
    assert len(packed) == len(INPUT)
    assert packed != {**INPUT, "user": "u"}


def test_an_input_nested_deeper_than_we_write_is_kept_as_it_is() -> None:
    deep = orjson.loads(b'{"OP_ID":"OP_X","a":' + b"[" * 300 + b"]" * 300 + b"}")

    assert pack(deep) is deep


def test_a_packed_job_takes_less_than_half_the_memory() -> None:
    contents = [
        encode_job(Job(JobId(number), (JobOp({**INPUT, "argv": ["/usr/bin/render", f"scene-{number}"]}),)))
        for number in range(1, 501)
    ]

    plain, packed = taken(contents, packed=False), taken(contents, packed=True)

    assert packed < plain / 2


def taken(contents: list[bytes], *, packed: bool) -> int:
    """Bytes that the jobs of these files take."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        jobs = [decode_job(content, "job", packed=packed) for content in contents]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(jobs) == len(contents)
    return after - before
