"""What operators must know of the members of etcd, and do about it.

Source: lease.md 5.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from common.lease.fullness import Fullness
from protocol.etcd.address import Endpoint
from protocol.etcd.keeping.upkeepplan import StoreLook, is_safe_to_defragment

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
