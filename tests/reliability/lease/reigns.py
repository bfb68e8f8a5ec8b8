"""Who wrote in which epoch, by the history that etcd itself keeps: each change of a key with its revision.

Theory. The key `master` says at each revision who may write; its value has the epoch. Every other change must lie
within a mastership, since its transaction compares that key; and what a node has acknowledged must have been written
under its own mastership, or under an earlier one if the request was sent again.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from common.lease.changes import WrittenFile, decode_fate
from common.lease.records import EtcdKeys, MasterRecord, RunningJob, decode
from common.queue.jobfile import decode_job
from common.queue.jobs import FINAL_NAMES


@attrs.frozen
class KeyChange:
    """One change in etcd."""

    revision: int
    key: str
    # None: the key was removed
    value: bytes | None


@attrs.frozen
class Reign:
    node: str
    epoch: int
    # first and last revision; None: it has not ended
    first: int
    last: int | None


def reigns_of(changes: Sequence[KeyChange], keys: EtcdKeys) -> list[Reign]:
    """The masterships in the order of their beginning."""
    found: list[Reign] = []
    for change in changes:
        if change.key != keys.master:
            continue
        if change.value is None:
            if found and found[-1].last is None:
                found[-1] = attrs.evolve(found[-1], last=change.revision)
            continue
        record = decode(change.value, MasterRecord, change.key)
        # a master that makes way puts its key again
        if not found or found[-1].last is not None or (found[-1].node, found[-1].epoch) != (record.node, record.epoch):
            found.append(Reign(record.node, record.epoch, change.revision, None))
    return found


def reign_violations(changes: Sequence[KeyChange], keys: EtcdKeys, acknowledged: Mapping[str, str]) -> list[str]:
    """What is wrong, each in a sentence.

    Args:
        acknowledged: key of a file in etcd -> name of the node that first told a client of that change.
    """
    reigns = reigns_of(changes, keys)
    return [
        *_numbers(reigns),
        *_epoch_key(changes, keys),
        *_late_writes(changes, keys, reigns),
        *_claimed(changes, keys, reigns),
        *_acknowledged(changes, reigns, acknowledged),
        *_ends(changes, keys),
    ]


def entries_left(changes: Sequence[KeyChange], keys: EtcdKeys) -> list[str]:
    """The keys that are there for the sake of a node that lacks something, or of a job that runs."""
    values = {change.key: change.value for change in changes}
    of_lacking = (keys.dirty, keys.config, keys.running, keys.parts)
    return [key for key, value in values.items() if value is not None and key.startswith(of_lacking)]


def _numbers(reigns: Sequence[Reign]) -> Iterator[str]:
    for before, after in pairwise(reigns):
        if after.epoch <= before.epoch:
            yield f"{after.node} became the master with epoch {after.epoch} after {before.node} with {before.epoch}"
        if before.last is None:
            yield f"{after.node} became the master at {after.first} while {before.node} was"


def _epoch_key(changes: Sequence[KeyChange], keys: EtcdKeys) -> Iterator[str]:
    highest = 0
    for change in changes:
        if change.key == keys.epoch:
            number = 0 if change.value is None else int(change.value)
            if number <= highest:
                yield f"the epoch went from {highest} to {number} at revision {change.revision}"
            highest = max(highest, number)


def _late_writes(changes: Sequence[KeyChange], keys: EtcdKeys, reigns: Sequence[Reign]) -> Iterator[str]:
    of_masters = (keys.dirty, keys.config, keys.running, keys.parts, keys.kept)
    for change in changes:
        if change.key.startswith(of_masters) and _reign_at(reigns, change.revision) is None:
            yield f"{change.key} was changed at revision {change.revision}, when nobody was the master"


def _claimed(changes: Sequence[KeyChange], keys: EtcdKeys, reigns: Sequence[Reign]) -> Iterator[str]:
    """Entries that name their writer name the master of that revision."""
    for change in changes:
        if change.key.startswith(keys.running) and change.value is not None:
            record, reign = decode(change.value, RunningJob, change.key), _reign_at(reigns, change.revision)
            if reign is not None and (record.node, record.epoch) != (reign.node, reign.epoch):
                yield (
                    f"{change.key} was written by {record.node} in epoch {record.epoch} at revision "
                    f"{change.revision}, when {reign.node} was the master in epoch {reign.epoch}"
                )


def _acknowledged(
    changes: Sequence[KeyChange], reigns: Sequence[Reign], acknowledged: Mapping[str, str]
) -> Iterator[str]:
    first: dict[str, int] = {}
    for change in changes:
        if change.value is not None:
            first.setdefault(change.key, change.revision)
    for key, node in acknowledged.items():
        if key not in first:
            yield f"{node} acknowledged {key}, which was never in etcd"
            continue
        if not any(reign.node == node and (reign.last is None or reign.last > first[key]) for reign in reigns):
            yield f"{node} acknowledged {key} of revision {first[key]}, and was not the master then or later"


def _ends(changes: Sequence[KeyChange], keys: EtcdKeys) -> Iterator[str]:
    """A job that has ended is not changed into one that has not, nor into one that has ended otherwise."""
    ends: dict[str, tuple[str, int]] = {}
    for change in changes:
        if change.value is None or not change.key.startswith(f"{keys.dirty}queue/job-"):
            continue
        fate = decode_fate(change.key, change.value)
        if not isinstance(fate, WrittenFile):
            continue
        state = decode_job(fate.content, change.key).state.value
        if change.key in ends and ends[change.key][0] != state:
            before, revision = ends[change.key]
            yield f"{change.key} was {before} at revision {revision} and {state} at {change.revision}"
        if state in FINAL_NAMES:
            ends.setdefault(change.key, (state, change.revision))


def _reign_at(reigns: Sequence[Reign], revision: int) -> Reign | None:
    place = bisect_right(reigns, revision, key=lambda reign: reign.first) - 1
    if place < 0:
        return None
    reign = reigns[place]
    # its own key is removed with its lease, in a revision of its own
    return reign if reign.last is None or revision < reign.last else None
