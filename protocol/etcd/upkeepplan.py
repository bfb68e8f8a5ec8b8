"""What etcd needs so that it does not fill up, and to get out of it when it has: the next step, from what was seen.

Theory. Etcd keeps every revision until it is compacted, and never gives space of its file back until that is
defragmented. When the file of one member would pass its quota, that member raises an alarm, and then all members
refuse whatever is no deletion, also after there is room, until the alarm is disarmed. So the way out is: delete,
compact, defragment, disarm, in this order. A member that defragments serves nobody. So followers are first, one at a
time and only while the others are a majority; the leader is last, after another one leads, for it counts the time of
the lease.

How full it is, is told by the part of the file that is used, if a defragmentation would win back the rest. If too
little is free for that, the whole file counts: etcd compares its size with the quota, whatever is free in it.

What a member says to be used lags by one change: space that the last compaction has freed still counts, and full etcd
takes no change. So a full member without room is defragmented whatever it says, once for all that was deleted so far.

Source: lease.md 5.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.lease.records import Fullness
from protocol.etcd.address import Endpoint
from protocol.etcd.questions import Alarm, MemberStatus

# parts of the quota that is used
_WARN: Final = 0.60
_SLOW: Final = 0.75
_RESERVED: Final = 0.85
# a file of this part of the quota is defragmented, if this part of it is free
_LARGE: Final = 0.60
_FREE: Final = 0.25
# less will do when the alarm could not be disarmed otherwise
_FREE_IF_FULL: Final = 0.05
# part of the quota that must be free before an alarm is disarmed, and bytes, which is more than any request has
_ROOM: Final = 0.05
_ROOM_BYTES: Final = 2 * 2**20
# a crash while they defragment makes their data differ from those of others
_RELEASE: Final = re.compile(r"3\.5\.(\d+)")
_FIRST_SAFE: Final = 6


@attrs.frozen
class StoreLook:
    """What was seen of all members at about one time."""

    members: Mapping[Endpoint, MemberStatus]
    # members that did not reply, and why
    silent: Mapping[Endpoint, str] = attrs.field(factory=dict)
    # bytes; only of members that tell theirs
    quotas: Mapping[Endpoint, int] = attrs.field(factory=dict)
    alarms: Sequence[Alarm] = ()

    @property
    def revision(self) -> int:
        return max((each.header.revision for each in self.members.values()), default=0)

    @property
    def is_full(self) -> bool:
        return any(alarm.is_full for alarm in self.alarms)

    @property
    def knows_fullness(self) -> bool:
        """Whether some member has told how full it is."""
        return self.is_full or any(True for _ in self._known_quotas())

    @property
    def fullness(self) -> Fullness:
        """That of the fullest member."""
        if self.is_full:
            return Fullness.FULL
        part = max((_taken(self.members[each]) / quota for each, quota in self._known_quotas()), default=0.0)
        levels = ((_RESERVED, Fullness.RESERVED), (_SLOW, Fullness.SLOW), (_WARN, Fullness.WARN))
        return next((level for least, level in levels if part >= least), Fullness.FINE)

    @property
    def crowded(self) -> Collection[Endpoint]:
        """The members whose files are so large that the next change may raise the alarm again."""
        return [
            each
            for each, quota in self._known_quotas()
            if quota - self.members[each].size <= max(quota * _ROOM, _ROOM_BYTES)
        ]

    @property
    def may_spare_one(self) -> bool:
        """Whether the others are a majority when one of the members that have replied is busy."""
        voters = [each for each in self.members.values() if not each.is_learner]
        return len(voters) - 1 > (len(voters) + len(self.silent)) // 2

    def _known_quotas(self) -> Iterator[tuple[Endpoint, int]]:
        return ((each, quota) for each, quota in self.quotas.items() if quota > 0 and each in self.members)


@attrs.frozen
class Compact:
    revision: int


@attrs.frozen
class MoveLeader:
    leader: Endpoint
    # member that is to lead
    member_id: str


@attrs.frozen
class Defragment:
    endpoint: Endpoint


@attrs.frozen
class Disarm:
    alarm: Alarm


Step = Compact | MoveLeader | Defragment | Disarm


def next_step(look: StoreLook, done: Sequence[Step], compact_to: int, emptied: Mapping[Endpoint, int]) -> Step | None:
    """The next thing to do; None: there is nothing more.

    Args:
        done: steps that were tried in this round, whatever came of them; none is tried twice.
        compact_to: revision before which nobody wants to know anything; 0: none. All of it, if etcd is full.
        emptied: last revision up to which a member was compacted and then defragmented.
    """
    return next((step for step in _steps(look, done, compact_to, emptied) if step not in done), None)


def _taken(status: MemberStatus) -> int:
    """Bytes that no defragmentation wins back."""
    return status.used if status.size - status.used >= status.size * _FREE else status.size


def _steps(look: StoreLook, done: Sequence[Step], compact_to: int, emptied: Mapping[Endpoint, int]) -> Iterator[Step]:
    wanted = look.revision if look.is_full else compact_to
    if wanted and not any(isinstance(step, Compact) for step in done):
        yield Compact(wanted)
    yield from _defragmentation(look, done, emptied)
    if not look.crowded:
        yield from (Disarm(alarm) for alarm in look.alarms if alarm.is_full)


def _defragmentation(look: StoreLook, done: Sequence[Step], emptied: Mapping[Endpoint, int]) -> Iterator[Step]:
    worthwhile = [each for each in look.members if _is_worthwhile(look, each, emptied) and Defragment(each) not in done]
    leader = next((each for each, status in look.members.items() if status.is_leader), None)
    # one that is alone is busy for all: only if etcd is of no use anyway
    if not look.may_spare_one and not (look.is_full and len(look.members) == 1 and not look.silent):
        return
    yield from (Defragment(each) for each in worthwhile if each != leader)
    if leader not in worthwhile or leader is None:
        return
    if len(look.members) == 1:
        yield Defragment(leader)
    elif not any(isinstance(step, MoveLeader) for step in done):
        yield MoveLeader(leader, _successor(look))


def _is_worthwhile(look: StoreLook, endpoint: Endpoint, emptied: Mapping[Endpoint, int]) -> bool:
    status, quota = look.members[endpoint], look.quotas.get(endpoint, 0)
    if not is_safe_to_defragment(status.release):
        return False
    if look.is_full and endpoint in look.crowded and emptied.get(endpoint) != look.revision:
        return True
    least = _FREE_IF_FULL if look.is_full and look.crowded else _FREE
    has_free = status.size - status.used >= status.size * least
    return has_free and (look.is_full or (quota > 0 and status.size >= quota * _LARGE))


def is_safe_to_defragment(release: str) -> bool:
    found = _RELEASE.match(release)
    return found is None or int(found.group(1)) >= _FIRST_SAFE


def _successor(look: StoreLook) -> str:
    """The follower with the least to do; there is one, as a majority is left without the leader."""
    followers = [each for each in look.members.values() if not each.is_leader and not each.is_learner]
    return min(followers, key=lambda each: each.size - each.used).member_id


# What operators must know of the members of etcd, and do about it.
#
# Source: lease.md 5.


_MIB: Final = 2**20


def problems(look: StoreLook) -> Sequence[str]:
    """What an operator must know or do, in words."""
    return [*_fullness_words(look), *_other_words(look)]


def _fullness_words(look: StoreLook) -> Iterator[str]:
    match look.fullness:
        case Fullness.FINE:
            return
        case Fullness.FULL:
            yield (
                f"etcd is full: it takes no changes, and nobody could take over ({_sizes(look)}). Do not stop the "
                "master. Bring candidates back that are away, or take them out of the candidates, as changes are kept "
                "for them; then this is mended by itself. If not: defragment each member, the leader last, and disarm "
                "the alarm, or raise 'quota-backend-bytes'"
            )
        case Fullness.WARN | Fullness.SLOW | Fullness.RESERVED:
            yield (
                f"etcd fills up ({_sizes(look)}): bring candidates back that are away, or raise 'quota-backend-bytes' "
                "of all members"
            )
        case _:
            assert_never(look.fullness)


def _other_words(look: StoreLook) -> Iterator[str]:
    if any(not alarm.is_full for alarm in look.alarms):
        ids = ", ".join(alarm.member_id for alarm in look.alarms if not alarm.is_full)
        yield f"etcd has found corrupt data at the member {ids} and serves nothing; replace this member"
    for endpoint, reason in look.silent.items():
        yield f"the member of etcd at {endpoint} does not reply: {reason}"
    if look.fullness >= Fullness.SLOW and not look.may_spare_one and len(look.members) + len(look.silent) > 1:
        yield "no member of etcd is defragmented, as the others would be no majority meanwhile; start all members"
    for endpoint, status in look.members.items():
        if look.fullness >= Fullness.SLOW and not is_safe_to_defragment(status.release):
            yield (
                f"the member of etcd at {endpoint} is not defragmented while it runs, as a crash then damages its "
                f"data: its release is {status.release}; upgrade it to 3.5.6 or later"
            )


def _sizes(look: StoreLook) -> str:
    return ", ".join(_size(look, each) for each in look.members)


def _size(look: StoreLook, endpoint: Endpoint) -> str:
    status, quota = look.members[endpoint], look.quotas.get(endpoint, 0)
    of = f" of at most {quota / _MIB:.0f}" if quota else ""
    return f"{endpoint} uses {status.used / _MIB:.0f} MiB in a file of {status.size / _MIB:.0f}{of}"
