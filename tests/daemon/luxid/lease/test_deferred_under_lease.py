"""Deferred jobs and changes of many jobs, whose master dies (DESIGN sections 14 and 16)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.queue.terms import Hold, JobTerms
from protocol.luxi.jobs import CancelJobs, ChangeJobs, TermsChange
from tests.daemon.luxid.ops import dummy
from tests.support.deferred import stated
from tests.support.etcds.etcd import Etcd
from tests.support.machines.playedmasters import PlayedMasters

FIRST, SECOND = "node1.test", "node2.test"
# more than one transaction of etcd takes
MANY = 110


@pytest.fixture
def nodes(tmp_path: Path, module_etcd: Etcd) -> Iterator[PlayedMasters]:
    with PlayedMasters(tmp_path, module_etcd) as nodes:
        yield nodes


def test_the_next_master_knows_who_is_held_who_begins_later_and_who_is_canceled(nodes: PlayedMasters) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    # from here on only etcd has what follows
    nodes[SECOND].cluster.kill("noded")
    held = dummy(reason=stated(JobTerms(hold=Hold(why="not yet"))))
    canceled, kept = old.submit_many(*[(held,)] * MANY), old.submit_many(*[(held,)] * 3)
    later = old.submit(dummy(reason=stated(JobTerms(begin_at=9e9))))
    old.luxi(CancelJobs(tuple(canceled)))
    old.luxi(ChangeJobs(tuple(kept), TermsChange(name="kept")))
    old.luxi(ChangeJobs((kept[0],), TermsChange(release=True, begin_at=9e9)))
    old.crash()

    new = nodes.begin(SECOND).cluster

    assert set(new.wait(*canceled)) == {"canceled"}
    assert [new.status(job_id) for job_id in (*kept, later)] == ["queued"] * 4
    assert [new.job(job_id, "name", "hold")[0] for job_id in kept] == ["kept"] * 3
    assert [new.job(job_id, "hold")[0] is None for job_id in kept] == [True, False, False]
    answers = new.luxi(ChangeJobs((*kept, later), TermsChange(release=True, begin_at=0.0)))
    assert all(each.is_done for each in answers)
    assert new.wait(*kept, later) == ["success"] * 4
