"""Numbers of every kind, as the daemons could tell them."""

from collections import Counter

from common.metrics import Histogram, Histograms, Metrics, read
from common.queue.jobs import JobState
from common.schedules.schedule import RunState
from common.system.processuse import ProcessUse
from daemons.keeperd.clusterview import mastership_now
from daemons.luxid.core.copies.etcdroom import CommitsNow
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.luxid.files.queuefiles import WriteCounts
from daemons.luxid.handlers.health import QueueNow, StoreNow
from daemons.luxid.outboxes import NoticeOutbox
from daemons.luxid.retention import PruneCounts
from daemons.luxid.schedules import RunCounts
from daemons.rapid.metrics.httpcounts import HttpCounts, HttpNow
from daemons.rapid.metrics.scraping import MetricsSnapshot
from daemons.wconfd.handlers.events import StateNow
from daemons.wconfd.lease.distribution import ConfigCommits
from daemons.wconfd.locks.deaths import DeathCounts
from daemons.wconfd.steps import StepCounts
from protocol.keeperd import ClusterView, EtcdMemberView
from protocol.metrics import DaemonMetrics
from protocol.serving.service import CallCounts
from tests.support.fakes.clusterviews import replica

BOUNDS = (0.1, 1.0)


def seconds() -> Histogram:
    """2, 5 and 9 values up to each bound and in all; 12.5 seconds."""
    found = Histogram(BOUNDS)
    for value in (0.0625, 0.0625, *[0.5] * 3, *[2.71875] * 4):
        found.add(value)
    return found


def by(key: str) -> Histograms:
    found = Histograms(BOUNDS)
    found[key] = seconds()
    return found


USE = ProcessUse("1.0", 1000.0, 2.5, 2**20, 7, 1024)
CALLS = CallCounts(10, Counter(denied=2), 3, 1)
QUEUE = QueueNow(jobs=Counter({JobState.QUEUED: 5, JobState.RUNNING: 2}), slots=50, slots_taken=2, oldest_wait_s=4.5)
JOBS = JobCounts(
    submitted=9,
    ended=Counter({JobState.SUCCESS: 4, JobState.ERROR: 1}),
    submission=seconds(),
    scheduling=seconds(),
    queue_delay=seconds(),
    start_delay=by("web"),
    lock_wait=by("web"),
    run=by("OP_TEST_DUMMY"),
)
RUNS, PRUNED = RunCounts(Counter({RunState.SUBMITTED: 2})), PruneCounts(3)
COMMITS = CommitsNow(durations=seconds().read())


def luxid(*parts: Metrics) -> DaemonMetrics:
    return DaemonMetrics(USE, tuple(read(*parts, daemon="luxid", store="queue")))


LUXID = luxid(CALLS, QUEUE, StoreNow(), COMMITS, JOBS, NoticeOutbox(), RUNS, PRUNED, WriteCounts(seconds()))
STATE = StateNow(held=3, owners=2, waiting=1, longest_wait_s=0.5, serial_no=8)
LOCK_STEPS = StepCounts(4, 4, 0, seconds())
WORK = ConfigCommits(commits=12, retries=1, waiting=2, uncopied=3, durations=seconds().read())


def wconfd(*parts: Metrics) -> DaemonMetrics:
    return DaemonMetrics(
        USE, tuple(read(CALLS, STATE, DeathCounts(1), LOCK_STEPS, *parts, daemon="wconfd", store="locks"))
    )


WCONFD = wconfd(WORK)
HTTP = (
    HttpCounts(Counter({("/3", "2xx"): 6}), by("/3"), 1),
    HttpNow(long_polls=2, connections={"network": 4}, luxid_connections={"busy": 1, "idle": 2}),
)
VIEW = ClusterView(
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
MASTERSHIP = DaemonMetrics(USE, tuple(read(mastership_now(VIEW))))
ALL = MetricsSnapshot({"luxid": LUXID, "wconfd": WCONFD}, USE, HTTP, MASTERSHIP)
