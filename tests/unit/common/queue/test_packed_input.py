"""The inputs of a long queue are kept as text, and look like the objects that they stand for."""

import tracemalloc
from pathlib import Path

import orjson
import pytest

from common.ids import JobId
from common.queue import jobs
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, PackedInput, pack
from common.queue.reasons import (
    Batch,
    JobOwner,
    ReasonEntry,
    Try,
    batch_entry,
    batch_of,
    owner_entries,
    owner_of,
    submitter,
    submitter_entry,
    tries_of,
    try_entry,
)
from common.queue.terms import JobTerms, Use, deferral_of, terms_entry, terms_of
from daemons.luxid.core.filters.filtering import bucket_limits

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
        read = [decode_job(content, "job", packed=packed) for content in contents]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(read) == len(contents)
    return after - before


OWNER = JobOwner(1003, "ann")
ENTRIES = {
    "owner": owner_entries(OWNER, 1)[0],
    "batch": batch_entry(Batch("b1", 1, 2, at_most=1), 1),
    "terms": terms_entry(JobTerms("nightly", uses=(Use("", "licences", 2),)), 1),
    "try": try_entry(Try(1, 1.0, 2.0, "ended with exit code 1", 1, 3.0, 0, 0)),
    "bucket": ReasonEntry("gnt:user", "rate-limit:3:backup", 1),
    "login": submitter_entry("ben", 1),
    "words": ReasonEntry("gnt:user", 'gantry: "owner"', 1),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_what_the_trail_says_is_found_in_a_packed_input_too(name: str) -> None:
    job = Job(JobId(1), (JobOp({**INPUT, "reason": [ENTRIES[name].to_wire()]}),))
    packed = decode_job(encode_job(job), "job-1", packed=True)

    assert facts(packed) == facts(job)
    assert (facts(job) == (None, "", None, JobTerms(), (), None, ())) == (name == "words")


def test_a_packed_input_without_entries_of_ours_is_not_parsed_for_them() -> None:
    job = decode_job(encode_job(Job(JobId(1), (JobOp({**INPUT, "argv": ["unread"]}),))), "job-1", packed=True)
    before = jobs._read.cache_info()

    facts(job)

    assert jobs._read.cache_info() == before


def facts(job: Job) -> tuple[object, ...]:
    """What luxid asks of the trail of each job of a long queue."""
    return (
        owner_of(job),
        submitter(job),
        batch_of(job),
        terms_of(job),
        tries_of(job.ops[0]),
        deferral_of(job),
        bucket_limits(job),
    )
