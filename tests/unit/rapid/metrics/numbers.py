"""Numbers of every kind, as the daemons could tell them."""

from common.metrics import CallCounts, CommitWork, Distribution
from common.system.processes import ProcessUse
from daemons.rapid.metrics.families import HttpNow
from daemons.rapid.metrics.scraping import MetricsSnapshot
from protocol.keeperd import ClusterView, EtcdMemberView
from protocol.luxi.daemon import Durations, JobsSoFar, LuxidMetrics, QueueNow
from protocol.wconfd.daemon import FileWork, LocksNow, WconfdMetrics
from tests.support.fakes.clusterviews import replica

SECONDS = Distribution((0.1, 1.0), (2, 3, 4), 12.5)
USE = ProcessUse("1.0", 1000.0, 2.5, 2**20, 7, 1024)
CALLS = CallCounts(10, {"denied": 2}, 3, 1)
LUXID = LuxidMetrics(
    USE,
    CALLS,
    QueueNow({"queued": 5, "running": 2}, 50, 2, 4.5),
    jobs=JobsSoFar(submitted=9, ended={"success": 4, "error": 1}, schedule_runs={"submitted": 2}, removed=3),
    durations=Durations(SECONDS, SECONDS, SECONDS, {"OP_TEST_DUMMY": SECONDS}, SECONDS, SECONDS),
)
WORK = CommitWork(commits=12, retries=1, waiting=2, uncopied=3, durations=SECONDS)
WCONFD = WconfdMetrics(USE, CALLS, LocksNow(3, 2, 1, 0.5), 8, {"locks": FileWork(4, 0, SECONDS)}, 1, WORK)
HTTP = HttpNow({("/3", "2xx"): 6}, {"/3": SECONDS}, 1, 2, {"network": 4}, {"busy": 1, "idle": 2})
MASTERSHIP = ClusterView(
    asked="node1",
    state="master",
    master="node1",
    epoch=7,
    ttl_s=10.0,
    valid_s=8.5,
    members=(replica("node2", 7, copies="stale"),),
    etcd=(
        EtcdMemberView(name="etcd1", endpoint="http://10.0.0.1:2379", version="3.5.16", db_bytes=4096),
        EtcdMemberView(name="etcd2", endpoint="http://10.0.0.2:2379", failure="silent"),
    ),
    dirty=5,
    alarms=("NOSPACE",),
    etcd_heard_s=0.5,
)
ALL = MetricsSnapshot(LUXID, WCONFD, USE, HTTP, MASTERSHIP)
