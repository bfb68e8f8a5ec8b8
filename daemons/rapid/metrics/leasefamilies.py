"""The numbers of a mastership under a lease: who has it, what etcd is like, and what commits cost.

Source: DESIGN section 14; protocol/keeperd/calls.py; common/metrics/commitwork.py.
"""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics.commitwork import CommitWork
from daemons.rapid.metrics.families import counter, gauge, histogram
from protocol.keeperd.calls import ClusterView


def mastership_families(view: ClusterView) -> Iterator[Metric]:
    """What keeperd of this node knows."""
    yield gauge("is_master", "1 if this node is the master.", float(view.master == view.asked))
    yield gauge("mastership_epoch", "Highest epoch that this node has heard of.", view.epoch)
    text = "Time for which this node may act as the master without a renewal; 0: it is not the master."
    yield gauge("lease_valid_seconds", text, view.valid_s or 0.0)
    if view.dirty is not None:
        yield gauge("etcd_changes", "All changes that are kept in etcd, since a candidate may lack them.", view.dirty)
    if view.etcd_heard_s is not None:
        yield gauge("etcd_silence_seconds", "Time since etcd has replied to this node last.", view.etcd_heard_s)
    yield gauge("etcd_alarms", "Alarms that etcd has raised.", len(view.alarms))
    sizes = {member.name: float(member.db_bytes) for member in view.etcd if member.version}
    yield gauge("etcd_members", "Members of etcd that this node knows.", len(view.etcd))
    yield gauge("etcd_members_silent", "Members of etcd that do not reply.", len(view.etcd) - len(sizes))
    yield gauge("etcd_size_bytes", "Size of the largest member of etcd.", max(sizes.values(), default=0.0))
    stale = sum(member.copies == "stale" for member in view.members)
    yield gauge("candidates_stale", "Candidates that were away too long, and may not become the master.", stale)
    yield gauge("maintenance", "1 if the mastership stays where it is.", float(view.maintenance))


def commit_families(work: CommitWork) -> Iterator[Metric]:
    """wconfd's commits to etcd; those of luxid are among the numbers of the queue."""
    text = "One transaction of a majority of etcd with changes of the configuration, with its retries."
    yield histogram("config_commit_seconds", text, work.durations)
    yield counter("config_commits", "Changes of the configuration that were committed to etcd.", work.commits)
    yield counter("config_commit_failures", "Changes of the configuration that etcd has refused.", work.failures)
    yield counter("config_commit_retries", "Requests sent again, as their outcome was unknown.", work.retries)
    yield gauge("config_commits_waiting", "Changes of the configuration that wait for etcd.", work.waiting)
    yield gauge("config_etcd_entries", "Objects in etcd that some candidate may lack.", work.uncopied)
