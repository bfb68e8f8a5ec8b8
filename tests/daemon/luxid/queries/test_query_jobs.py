"""QueryJobs (luxid.md 2.2, 7.3)."""

from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import delay, dummy
from tests.support.cluster import Cluster


def query(cluster: Cluster, job_ids: list[int], *fields: str) -> list[tuple[Any, ...]]:
    rows = cluster.luxi(QueryJobs(tuple(map(JobId, job_ids)), fields))
    return list(rows)


def test_no_ids_mean_all_live_jobs_by_id(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 3))

    assert cluster.luxi(QueryJobs(None, ("id", "status"))) == ((1, "success"), (2, "success"), (3, "success"))
    assert query(cluster, [], "id") == [(1,), (2,), (3,)]


def test_named_jobs_come_once_in_the_order_asked(cluster: Cluster) -> None:
    cluster.submit_many(*[(dummy(),)] * 3)

    assert query(cluster, [3, 1, 3, 2, 1], "id") == [(3,), (1,), (2,)]


def test_a_missing_job_is_a_row_of_nulls_with_its_id(cluster: Cluster) -> None:
    assert query(cluster, [42], "status", "id", "ops", "archived") == [(None, 42, None, None)]


def test_unknown_fields_are_all_named(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="unknown job fields: colour, smell;") as caught:
        query(cluster, [1], "id", "colour", "status", "smell")

    assert caught.value.wire_name == "OpPrereqError"
    assert caught.value.wire_args()[1] == "wrong_input"


def test_every_field_of_a_job_that_ended(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(messages="hello"), delay(0.01))
    cluster.wait(job_id)
    names = ("id", "status", "priority", "archived", "opstatus", "oppriority", "summary")

    assert query(cluster, [job_id], *names) == [
        (job_id, "success", 0, False, ["success", "success"], [0, 0], ["TEST_DUMMY", "TEST_DELAY(1.0e-2)"])
    ]
    ((log, start, executed, ended),) = query(cluster, [job_id], "oplog", "opstart", "opexec", "opend")
    assert [[entry[0], entry[2], entry[3]] for entry in log[0]] == [[1, "message", "hello"]]
    assert start[0] <= executed[0] <= ended[0] <= start[1]
    ((received, begun, done),) = query(cluster, [job_id], "received_ts", "start_ts", "end_ts")
    assert received <= begun <= done


def test_times_of_a_job_that_has_not_started_are_null(cluster: Cluster) -> None:
    first = cluster.submit(delay(60))
    job_id = cluster.submit(dummy(depends=[[first, []]]))

    assert query(cluster, [job_id], "start_ts", "end_ts", "opstart") == [(None, None, [None])]


def test_text_that_is_not_ascii_comes_back_whole(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(result="größer – 大"))
    cluster.wait(job_id)

    assert query(cluster, [job_id], "opresult") == [(["größer – 大"],)]


def test_an_opcode_that_nobody_knows_is_shown_as_it_is(idle: Cluster) -> None:
    """luxid.md 3.1, 7.3: such an input is kept verbatim."""
    idle.paths.job_file(3).write_bytes(
        b'{"id": 3, "ops": [{"input": {"OP_ID": "OP_FROM_LATER", "x": 1}, "status": "success"}]}'
    )
    idle.start("luxid")

    assert query(idle, [3], "ops", "summary") == [([{"OP_ID": "OP_FROM_LATER", "x": 1}], ["FROM_LATER"])]
