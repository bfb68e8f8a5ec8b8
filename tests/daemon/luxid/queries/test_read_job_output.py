"""ReadJobOutput: what commands print, while they print it; ours."""

import time

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import (
    ArchiveJob,
    JobOutput,
    OutputStream,
    OutputTime,
    OutputTimes,
    ReadJobOutput,
    ReadOutputTimes,
)
from tests.daemon.luxid.ops import command, dummy
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def read_all(cluster: Cluster, job_id: int, offset: int = 0) -> str:
    text = ""
    while True:
        piece = cluster.luxi(ReadJobOutput(JobId(job_id), offset, 30.0))
        text += piece.text
        offset = piece.next_offset
        if piece.is_end:
            return text


def test_output_is_read_while_the_command_runs_and_to_its_end(cluster: Cluster) -> None:
    go = cluster.root / "go"
    job_id = cluster.submit(command("sh", "-c", f"echo one; while ! [ -e {go} ]; do sleep 0.05; done; echo two"))

    first = cluster.luxi(ReadJobOutput(job_id, 0, 30.0))
    go.touch()

    assert first == JobOutput("one\n", 4, False)
    assert read_all(cluster, job_id, first.next_offset) == "two\n"


def test_the_end_is_told_once_everything_was_read(cluster: Cluster) -> None:
    job_id = cluster.submit(command("echo", "done"))
    cluster.wait(job_id)

    assert cluster.luxi(ReadJobOutput(job_id)) == JobOutput("done\n", 5, False)
    assert cluster.luxi(ReadJobOutput(job_id, 5, 30.0)) == JobOutput("", 5, True)


def test_a_job_without_output_ends_the_wait_by_its_end(cluster: Cluster) -> None:
    assert read_all(cluster, cluster.submit(dummy())) == ""


def test_without_a_time_nobody_waits(cluster: Cluster) -> None:
    job_id = cluster.submit(command("sleep", "60"))

    assert cluster.luxi(ReadJobOutput(job_id)) == JobOutput("", 0, False)


def test_a_character_is_never_torn_apart(idle: Cluster) -> None:
    idle.paths.job_file(1).write_bytes(
        b'{"id": 1, "ops": [{"input": {"OP_ID": "OP_X"}, "status": "success"}], "end_timestamp": [1, 0]}'
    )
    text = "ä" * 700_000
    (idle.paths.output / f"job-1.{0:020d}").write_bytes(text.encode())
    idle.start("luxid")

    assert read_all(idle, 1, 0) == text
    # a byte that is no character at the very end is not waited for
    assert read_all(idle, 1, len(text.encode()) - 1) == "�"


def test_a_reader_of_rotated_output_goes_on_with_what_is_left(idle: Cluster) -> None:
    idle.paths.job_file(1).write_bytes(
        b'{"id": 1, "ops": [{"input": {"OP_ID": "OP_X"}, "status": "success"}], "end_timestamp": [1, 0]}'
    )
    for start, text in ((100, "b" * 50), (150, "c" * 10)):
        (idle.paths.output / f"job-1.{start:020d}").write_text(text)
    idle.start("luxid")

    first = idle.luxi(ReadJobOutput(JobId(1), 3))

    assert first == JobOutput("b" * 50 + "c" * 10, 160, False)
    assert read_all(idle, 1, 120) == "b" * 30 + "c" * 10


def test_output_of_an_archived_job_can_be_read(cluster: Cluster) -> None:
    job_id = cluster.submit(command("echo", "kept"))
    cluster.wait(job_id)
    cluster.luxi(ArchiveJob(job_id))

    assert read_all(cluster, job_id) == "kept\n"


def test_there_is_no_output_of_a_job_that_never_was(cluster: Cluster) -> None:
    with pytest.raises(RemoteError) as caught:
        cluster.luxi(ReadJobOutput(JobId(9)))

    assert caught.value.wire_name == "JobLost"


def test_standard_error_that_is_apart_is_a_stream_of_its_own(cluster: Cluster) -> None:
    job_id = cluster.submit(command("sh", "-c", "echo out; echo bad >&2", stderr_apart=True))
    cluster.wait(job_id)

    assert cluster.luxi(ReadJobOutput(job_id)) == JobOutput("out\n", 4, False)
    assert cluster.luxi(ReadJobOutput(job_id, stream=OutputStream.ERROR)) == JobOutput("bad\n", 4, False)


def test_bytes_that_are_no_text_come_unchanged_when_bytes_are_wanted(cluster: Cluster) -> None:
    job_id = cluster.submit(command("printf", r"a\377\303\251"))
    cluster.wait(job_id)

    assert cluster.luxi(ReadJobOutput(job_id)) == JobOutput("a\ufffd\u00e9", 4, False)
    assert cluster.luxi(ReadJobOutput(job_id, as_bytes=True)) == JobOutput("a\xff\xc3\xa9", 4, False)
    assert cluster.luxi(ReadJobOutput(job_id, 3, as_bytes=True)) == JobOutput("\xa9", 4, False)
    # beyond all that a file can have there is nothing
    assert cluster.luxi(ReadJobOutput(job_id, 2**63 - 1)) == JobOutput("", 2**63 - 1, True)


def test_times_are_told_while_the_command_runs_and_of_an_archived_job(cluster: Cluster) -> None:
    go, begun_at = cluster.root / "go", time.time()
    script = f"echo one; while ! [ -e {go} ]; do sleep 0.3; done; echo two"
    job_id = cluster.submit(command("sh", "-c", script, stderr_apart=True))
    cluster.luxi(ReadJobOutput(job_id, 0, 30.0))
    [first] = cluster.luxi(ReadOutputTimes(job_id)).times
    wait_until(lambda: first.at is not None and time.time() > first.at + 0.3, what="the next time is another one")
    go.touch()
    cluster.wait(job_id)
    cluster.luxi(ArchiveJob(job_id))

    told = cluster.luxi(ReadOutputTimes(job_id))

    assert first.at is not None
    assert told.until is None
    assert [each.offset for each in told.times] == [0, 4]
    assert told.times[0] == first
    assert begun_at - 0.001 <= first.at < (told.at(7) or 0) <= time.time()
    assert told.at(3) == first.at
    assert cluster.luxi(ReadOutputTimes(job_id, 0, 4)).times == (first,)
    assert cluster.luxi(ReadOutputTimes(job_id, stream=OutputStream.ERROR)) == OutputTimes((), None)


def test_a_damaged_record_of_times_is_told_as_not_known(cluster: Cluster) -> None:
    job_id = cluster.submit(command("echo", "one"))
    cluster.wait(job_id)
    (cluster.paths.output / f"job-{job_id}.times.{0:020d}").write_bytes(b"x" * 100)

    assert cluster.luxi(ReadOutputTimes(job_id)) == OutputTimes((OutputTime(0, None),), None)
    assert read_all(cluster, job_id) == "one\n"


def test_many_times_are_told_in_parts(cluster: Cluster) -> None:
    job_id = cluster.submit(command("echo", "x" * 30_000))
    cluster.wait(job_id)
    marks = b"".join(offset.to_bytes(8) + (1_000_000 + offset).to_bytes(8) for offset in range(15_000))
    (cluster.paths.output / f"job-{job_id}.times.{0:020d}").write_bytes(marks)

    told = cluster.luxi(ReadOutputTimes(job_id))
    rest = cluster.luxi(ReadOutputTimes(job_id, told.until or 0))

    assert told.until == len(told.times) == 10_000
    assert [each.offset for each in (*told.times, *rest.times)] == list(range(15_000))
    assert (rest.until, rest.at(14_999)) == (None, 1014.999)


def test_the_times_of_no_job_are_an_error(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="there is no job 9, neither in the queue nor in the archive"):
        cluster.luxi(ReadOutputTimes(JobId(9)))
