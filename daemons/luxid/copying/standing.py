"""What is told of candidates: what they lack, and what comparisons have shown."""

from collections.abc import Sequence

from common.replication import NotCopied
from daemons.luxid.copying.sending import NodeSender
from daemons.luxid.core.copies.verdict import MOST_NAMES, Verdict
from protocol.luxi.daemon.copies import QueueVerdict
from protocol.noded.names import original_name


def verdict_of(sender: NodeSender, verdict: Verdict | None) -> QueueVerdict:
    """What a comparison with a candidate has shown. Args: verdict: None: it is not over."""
    name, takes_ours = sender.node.name, sender.backlog.takes_ours
    lost = sorted(original_name(each) or each for each in sender.beyond)
    some = tuple(lost[:MOST_NAMES])
    if verdict is None:
        failure = sender.failure
        return QueueVerdict(name, failure=failure, takes_ours=takes_ours, lost=len(lost), lost_files=some)
    at, count, names = verdict.at, verdict.count, verdict.names
    return QueueVerdict(name, at, count, names, takes_ours=takes_ours, lost=len(lost), lost_files=some)


def not_copied(lacking: Sequence[NodeSender], count: int) -> NotCopied:
    """Whether more than half failed: the master itself counts as one that has the change."""
    failures = len(lacking)
    is_most = count - failures + 1 < failures
    how_many = f"{failures} of {count} candidates lack a change"
    if is_most:
        how_many = f"more than half of the nodes lack a change, {failures} of {count} candidates"
    return NotCopied(f"{how_many}: {'; '.join(sender.why_it_lacks for sender in lacking)}", is_most=is_most)
