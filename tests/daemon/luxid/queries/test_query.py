"""Query and the classic queries, as clients ask them (luxid.md 2.2, 7)."""

from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.objects.kinds import QueryKind, TagKind
from common.query.qlang import Expression
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import ArchiveJob
from protocol.luxi.queries import Query, QueryExports, QueryFilters, QueryInstances, QueryJobs, QueryNodes, QueryTags
from tests.daemon.luxid.ops import after, delay, dummy
from tests.support.cluster import Cluster


def rows(cluster: Cluster, kind: QueryKind, fields: tuple[str, ...], filter: Any = None) -> list[list[Any]]:
    """The values of all cells, each of which must have one."""
    cells = all_cells(cluster, kind, fields, filter)
    assert all(status == 0 for row in cells for status, _ in row)
    return [[value for _, value in row] for row in cells]


def all_cells(cluster: Cluster, kind: QueryKind, fields: tuple[str, ...], filter: Any = None) -> list[list[Any]]:
    expression = None if filter is None else Expression.from_wire(filter)
    data: list[list[Any]] = cluster.luxi_wire(Query(kind, fields, expression))["data"]
    return data


def test_jobs_can_be_found_by_what_they_are(cluster: Cluster) -> None:
    first, second = cluster.submit_many((dummy(),), (dummy(result="x"), delay(0.1)))
    cluster.wait(first, second)

    assert rows(cluster, QueryKind.JOB, ("id", "status")) == [[1, "success"], [2, "success"]]
    assert rows(cluster, QueryKind.JOB, ("id",), [">", "id", 1]) == [[2]]
    assert rows(cluster, QueryKind.JOB, ("id",), ["=[]", "summary", "TEST_DELAY(0.1)"]) == [[2]]
    assert rows(cluster, QueryKind.JOB, ("id",), ["&", ["=~", "status", "^suc"], ["!=", "id", 2]]) == [[1]]


def test_jobs_that_are_named_come_once_in_the_order_asked_also_archived_ones(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 3))
    cluster.luxi(ArchiveJob(JobId(2)))
    named = ["|", ["==", "id", 3], ["==", "id", 2], ["==", "id", 9], ["==", "id", 3]]

    assert all_cells(cluster, QueryKind.JOB, ("id", "archived", "status"), named) == [
        [[0, 3], [0, False], [0, "success"]],
        [[0, 2], [0, True], [0, "success"]],
        [[0, 9], [3, None], [3, None]],
    ]


def test_archived_jobs_are_listed_only_if_the_field_is_asked_for(cluster: Cluster) -> None:
    """luxid.md 7.3: that it is filtered by does not count."""
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 3))
    cluster.luxi(ArchiveJob(JobId(2)))

    assert rows(cluster, QueryKind.JOB, ("id", "status")) == [[1, "success"], [3, "success"]]
    assert rows(cluster, QueryKind.JOB, ("id", "status"), ["?", "archived"]) == []
    assert rows(cluster, QueryKind.JOB, ("id", "archived")) == [[1, False], [2, True], [3, False]]
    assert cluster.luxi(QueryJobs(None, ("id", "archived"))) == ((1, False), (2, True), (3, False))


def test_times_are_compared_by_their_seconds(cluster: Cluster) -> None:
    cluster.wait(cluster.submit(dummy()))
    ((received,),) = rows(cluster, QueryKind.JOB, ("received_ts",))

    assert rows(cluster, QueryKind.JOB, ("id",), ["==", "received_ts", received[0]]) == [[1]]
    assert rows(cluster, QueryKind.JOB, ("id",), [">", "received_ts", received[0]]) == []


def test_thousands_of_jobs_can_be_named(cluster: Cluster) -> None:
    cluster.submit_many(*[(dummy(),)] * 3)
    named = ["|", *(["=", "id", job_id] for job_id in range(1, 5001))]

    found = all_cells(cluster, QueryKind.JOB, ("id", "priority"), named)

    assert len(found) == 5000
    assert found[:3] == [[[0, 1], [0, 0]], [[0, 2], [0, 0]], [[0, 3], [0, 0]]]
    assert found[-1] == [[0, 5000], [3, None]]


def test_a_filter_that_does_not_fit_is_refused_by_ganetis_class(cluster: Cluster) -> None:
    cluster.submit(dummy())

    for filter in (["==", "colour", 1], ["==", "status", 1], ["=~", "summary", "x"]):
        with pytest.raises(RemoteError) as caught:
            rows(cluster, QueryKind.JOB, ("id",), filter)
        assert caught.value.wire_name == "ParameterError"
    assert rows(cluster, QueryKind.JOB, ("id",)) == [[1]]


def test_who_holds_and_who_waits_is_shown_also_for_jobs(cluster: Cluster) -> None:
    """DESIGN section 11: dependencies are rows of the lock monitor."""
    locks = {"node/web1": "exclusive"}
    holder = cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["sleep", "60"], "locks": locks})
    cluster.wait(holder, status="running")
    waiter = cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": locks})
    cluster.wait(waiter, status="waiting")
    dependents = [cluster.submit(dummy(depends=after(waiter))) for _ in range(2)]

    found = {row[0]: row[1:] for row in rows(cluster, QueryKind.LOCK, ("name", "mode", "owner", "pending"))}

    assert found["node/web1"][:2] == ["exclusive", [str(holder)]]
    assert found["node/[lockset]"] == [None, [], []]
    assert found[f"job/{waiter}"] == [None, [], [["success", [f"job/{job_id}" for job_id in dependents]]]]
    assert list(found)[-1] == f"job/{waiter}"
    assert rows(cluster, QueryKind.LOCK, ("name",), ["=~", "name", "^job/"]) == [[f"job/{waiter}"]]


def test_nodes_are_looked_up_by_any_unique_form_of_their_name(cluster: Cluster) -> None:
    assert rows(cluster, QueryKind.NODE, ("name", "role"), ["=", "name", "node1"]) == [["node1.test", "M"]]
    assert cluster.luxi(QueryNodes(("node1",), ("name",))) == (("node1.test",),)
    assert cluster.luxi(QueryNodes(("nosuch",), ("name",))) == ()

    with pytest.raises(RemoteError, match="there is no node 'nosuch'") as caught:
        rows(cluster, QueryKind.NODE, ("name",), ["=", "name", "nosuch"])
    assert caught.value.wire_args()[1] == "unknown_entity"


def test_what_only_a_node_knows_is_not_there_yet(cluster: Cluster) -> None:
    assert all_cells(cluster, QueryKind.NODE, ("mfree", "name")) == [[[2, None], [0, "node1.test"]]]
    assert cluster.luxi(QueryExports(())) == (("node1.test", None),)


def test_a_filter_by_what_only_a_node_knows_matches_nothing_and_the_reply_says_why(cluster: Cluster) -> None:
    """All nodes passed: 'gnt-node list "mfree > 99999999"' listed each of them."""
    for negated in (False, True):
        condition = [">", "mfree", 99999999]
        found, notes = noted(cluster, ["!", condition] if negated else condition)
        assert found == []
        assert notes == ["left out 1 node: field 'mfree', by which the filter judges, has no value there"]

    found, notes = noted(cluster, ["|", [">", "mfree", 99999999], ["==", "role", "M"]])
    assert (found, notes) == ([[[0, "node1.test"]]], [])


def noted(cluster: Cluster, filter: Any) -> tuple[list[Any], list[str]]:
    """The rows of nodes for which a filter holds, and the notes of the reply."""
    notes: list[str] = []
    with BlockingClient(cluster.paths.query_socket, noted=notes.append) as client:
        reply = client.call(Query(QueryKind.NODE, ("name",), Expression.from_wire(filter)))
    return reply.data, notes


def test_classic_queries_refuse_locks_and_unknown_fields(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="lock = false") as caught:
        cluster.luxi(QueryInstances((), ("name",), lock=True))
    assert caught.value.wire_args()[1] == "wrong_input"

    with pytest.raises(RemoteError, match="unknown node fields: colour, smell; known are name") as caught:
        cluster.luxi(QueryNodes((), ("name", "colour", "pip", "smell")))
    assert caught.value.wire_name == "OpPrereqError"

    assert cluster.luxi(QueryFilters(None, ("uuid",))) == ()


def test_tags_are_those_of_the_object(cluster: Cluster) -> None:
    assert cluster.luxi(QueryTags(TagKind.CLUSTER, "")) == ()
    assert cluster.luxi(QueryTags(TagKind.NODE, "node1.test")) == ()
    assert cluster.luxi(QueryTags(TagKind.NODEGROUP, "default")) == ()

    for kind, what in ((TagKind.NETWORK, "network"), (TagKind.INSTANCE, "instance"), (TagKind.NODEGROUP, "node group")):
        with pytest.raises(RemoteError, match=f"there is no {what} 'nosuch'") as caught:
            cluster.luxi(QueryTags(kind, "nosuch"))
        assert caught.value.wire_args()[1] == "unknown_entity"


@pytest.mark.parametrize("kind", [QueryKind.CLUSTER, QueryKind.OS])
def test_what_only_opcodes_can_ask_for_says_so(cluster: Cluster, kind: QueryKind) -> None:
    with pytest.raises(RemoteError, match="can only be asked for by an opcode") as caught:
        rows(cluster, kind, ("name",))

    assert caught.value.wire_name == "GenericError"
