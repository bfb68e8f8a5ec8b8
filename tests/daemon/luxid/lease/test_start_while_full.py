"""A luxid that is started while its own entries fill etcd makes the room that it waits for (DESIGN section 14)."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.daemon.luxid.ops import dummy, gated, read_job
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd
from tests.support.etcds.fulletcd import SMALL, fill, make_room
from tests.support.machines.playedmasters import PlayedMasters
from tests.support.wait import wait_until

FIRST, SECOND = "node1.test", "node2.test"


@pytest.fixture
def etcd(tmp_path: Path, etcd_binary: EtcdBinary) -> Iterator[TestEtcd]:
    (tmp_path / "etcd").mkdir()
    with Etcd(tmp_path / "etcd", options=(SMALL,), binary=etcd_binary) as etcd:
        yield TestEtcd(etcd, etcd.new_prefix())


def test_entries_that_candidates_have_are_forgotten_before_anything_can_be_committed(
    etcd: TestEtcd, tmp_path: Path
) -> None:
    with PlayedMasters(tmp_path, etcd.etcd) as nodes:
        master, other = nodes.begin(FIRST).cluster, nodes[SECOND].cluster
        nodes.until_synced(SECOND)
        job = master.submit(gated(tmp_path / "gate"))
        master.wait(job, status="running")
        other.kill("noded")
        master.wait(master.submit(dummy()))
        master.kill("luxid")
        (tmp_path / "gate").touch()
        wait_until(lambda: read_job(master, job).next_index is None, what="the process has written its end")
        assert len(_dirty(nodes)) > 1
        trio.run(partial(fill, etcd))

        start = threading.Thread(target=master.start, args=("luxid",))
        start.start()
        wait_until(lambda: "queue.not_replayed" in master.log("luxid"), what="luxid waits for room")
        other.start("noded")

        # the job's end is not in etcd yet, so its entry stays
        own = {f"dirty/queue/job-{job}"}
        wait_until(lambda: _dirty(nodes) == own, what="the others are forgotten", state=lambda: _dirty(nodes))
        assert start.is_alive()
        trio.run(partial(make_room, etcd))
        start.join()
        assert master.status(job) == "success"
        nodes.until_forgotten()


def _dirty(nodes: PlayedMasters) -> set[str]:
    return {name for name in nodes.entries() if name.startswith("dirty/")}
