"""Pages of a query of jobs; ours."""

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.queue.terms import Hold, JobTerms, terms_entry
from protocol.luxi.jobs import ArchiveJob, CancelJob
from protocol.luxi.queries import Page, Query
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster


def ids(cluster: Cluster, page: Page, filter: object = None, *fields: str) -> list[object]:
    expression = None if filter is None else Expression.from_wire(filter)
    found = cluster.luxi(Query(QueryKind.JOB, ("id", *fields), expression, page))
    return [values[0] for values in found.values()]


def test_pages_follow_each_other_in_either_order_with_and_without_a_filter(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 7))
    assert cluster.luxi(ArchiveJob(JobId(4)))
    even = ["|", *(["==", "id", number] for number in (2, 4, 6))]
    ended = ["==", "status", "success"]

    assert ids(cluster, Page(3)) == [7, 6, 5]
    assert ids(cluster, Page(3, JobId(5))) == [3, 2, 1]
    # the job of the place itself may be gone
    assert ids(cluster, Page(3, JobId(4), descending=False), None, "status") == [5, 6, 7]
    assert ids(cluster, Page(9, descending=False), None, "archived") == [1, 2, 3, 4, 5, 6, 7]
    assert ids(cluster, Page(2, JobId(6)), ended, "status") == [5, 3]
    assert ids(cluster, Page(2, JobId(6)), even, "status") == [4, 2]
    assert ids(cluster, Page(1, descending=False), even) == [2]
    assert ids(cluster, Page(5, JobId(1))) == []
    middle = ["&", [">", "id", 2], ["<=", "id", 6], ended]
    assert ids(cluster, Page(9), middle, "status") == [6, 5, 3]
    assert ids(cluster, Page(9, JobId(5)), middle, "archived", "status") == [4, 3]
    assert ids(cluster, Page(9, JobId(3), descending=False), middle, "status") == [5, 6]


def test_a_page_without_room_or_of_other_things_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="room for at least 1 row, got 0"):
        ids(cluster, Page(0))
    with pytest.raises(RemoteError, match="of jobs only, not of 'lock'"):
        cluster.luxi(Query(QueryKind.LOCK, ("name",), None, Page(1)))


def test_a_filter_by_status_finds_the_same_jobs_as_ever(cluster: Cluster) -> None:
    done = cluster.submit_many(*[(dummy(),)] * 3)
    failed = cluster.submit({"OP_ID": "OP_TEST_DUMMY", "result": None, "messages": [], "fail": "x"})
    cluster.wait(*done, failed)
    assert cluster.luxi(ArchiveJob(JobId(done[0])))

    assert ids(cluster, Page(5), ["==", "status", "error"], "summary") == [failed]
    assert ids(cluster, Page(5), ["!", ["==", "status", "error"]], "summary") == [done[2], done[1]]
    assert ids(cluster, Page(5), ["==", "status", "success"], "archived") == [done[2], done[1], done[0]]
    assert ids(cluster, Page(5), ["==", "status", "waiting"], "summary") == []


def test_words_are_searched_in_what_jobs_have_now(cluster: Cluster) -> None:
    def found(word: str, *more: object) -> list[object]:
        return ids(cluster, Page(9, descending=False), ["&", ["=~", "words", word], *more], "status")

    held = [terms_entry(JobTerms("Backup-web1", hold=Hold()), 0).to_wire()]
    one = cluster.submit(dummy(reason=held))
    ended = cluster.submit(dummy(reason=[["user", "backup of web2", 1]]))
    cluster.wait(ended)

    assert found("nobody") == []
    assert found("backup") == [one, ended]
    assert found("backup\\-web1", ["==", "status", "queued"]) == [one]
    other = cluster.submit(dummy(reason=held))
    assert found("backup\\-web1") == [one, other]
    cluster.luxi(CancelJob(one))
    assert found("backup\\-web1", ["==", "status", "queued"]) == [other]
    assert cluster.luxi(ArchiveJob(one))
    assert found("backup\\-web1") == [other]
