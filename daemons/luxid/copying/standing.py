"""What is told of candidates: what they lack, and what comparisons have shown."""

from collections.abc import Sequence

from common.replication import NotCopied
from daemons.luxid.copying.sending import NodeSender
from daemons.luxid.core.copies.verdict import Verdict
from protocol.luxi.daemon.copies import QueueVerdict


def verdict_of(sender: NodeSender, verdict: Verdict | None) -> QueueVerdict:
    """What a comparison with a candidate has shown. Args: verdict: None: it is not over."""
    name, takes_ours = sender.node.name, sender.backlog.takes_ours
    if verdict is None:
        return QueueVerdict(name, failure=sender.failure, takes_ours=takes_ours)
    return QueueVerdict(name, verdict.at, verdict.count, verdict.names, takes_ours=takes_ours)


def not_copied(lacking: Sequence[NodeSender], count: int) -> NotCopied:
    """Whether more than half failed: the master itself counts as one that has the change."""
    failures = len(lacking)
    is_most = count - failures + 1 < failures
    how_many = f"{failures} of {count} candidates lack a change"
    if is_most:
        how_many = f"more than half of the nodes lack a change, {failures} of {count} candidates"
    return NotCopied(f"{how_many}: {'; '.join(sender.why_it_lacks for sender in lacking)}", is_most=is_most)
