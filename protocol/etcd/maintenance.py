"""Questions about the members of etcd, and what keeps etcd in order; no I/O.

Source: lease.md 5.
"""

import re
from collections.abc import Sequence
from typing import Final

import attrs
import orjson

from protocol.etcd.kv import Header
from protocol.etcd.questions import Question, header_of
from protocol.etcd.replyfields import Json, flag, needed_text, number, rows, text, texts

_QUOTA: Final = re.compile(rb"^etcd_server_quota_backend_bytes ([0-9.e+]+)$", re.MULTILINE)


@attrs.frozen
class MemberEntry:
    """A member as etcd knows it."""

    member_id: str
    # empty: it was never started
    name: str
    peer_urls: Sequence[str]
    client_urls: Sequence[str]
    # whether it has no vote
    is_learner: bool = False


@attrs.frozen
class MemberStatus:
    """What a member says of itself."""

    header: Header
    # such as 3.4.23
    release: str
    # bytes of its file, and of those what is not free
    size: int
    used: int
    # id of the leader that it follows; empty: none
    leader: str
    is_learner: bool = False
    # such as an alarm
    faults: Sequence[str] = ()
    # bytes, as releases from 3.6 on tell; 0: it does not tell
    quota: int = 0

    @property
    def member_id(self) -> str:
        return self.header.member_id

    @property
    def is_leader(self) -> bool:
        return bool(self.leader) and self.leader == self.member_id


@attrs.frozen
class Alarm:
    member_id: str
    # NOSPACE or CORRUPT, as etcd says it
    kind: str

    @property
    def is_full(self) -> bool:
        return self.kind == "NOSPACE"


def members() -> Question[Sequence[MemberEntry]]:
    def read(reply: Json) -> Sequence[MemberEntry]:
        found = [
            MemberEntry(
                needed_text(each, "ID"),
                text(each, "name"),
                texts(each, "peerURLs"),
                texts(each, "clientURLs"),
                flag(each, "isLearner"),
            )
            for each in rows(reply, "members")
        ]
        if not found:
            raise ValueError("no member is named")
        return found

    return Question("/v3/cluster/member/list", b"{}", read)


def status() -> Question[MemberStatus]:
    def read(reply: Json) -> MemberStatus:
        return MemberStatus(
            header_of(reply),
            needed_text(reply, "version"),
            number(reply, "dbSize"),
            number(reply, "dbSizeInUse"),
            _id(text(reply, "leader")),
            flag(reply, "isLearner"),
            texts(reply, "errors"),
            number(reply, "dbSizeQuota"),
        )

    return Question("/v3/maintenance/status", b"{}", read)


def alarms() -> Question[Sequence[Alarm]]:
    def read(reply: Json) -> Sequence[Alarm]:
        return [Alarm(needed_text(each, "memberID"), needed_text(each, "alarm")) for each in rows(reply, "alarms")]

    return Question("/v3/maintenance/alarm", b'{"action":"GET"}', read)


def disarm(alarm: Alarm) -> Question[None]:
    body = {"action": "DEACTIVATE", "memberID": alarm.member_id, "alarm": alarm.kind}
    return Question("/v3/maintenance/alarm", orjson.dumps(body), _nothing)


def compact(revision: int) -> Question[None]:
    """The reply comes when the member that is asked has removed the old revisions from its file.

    It waits for that also where they were compacted already, and the reply says so; others may lag behind.
    """
    body = {"revision": str(revision), "physical": True}
    return Question("/v3/kv/compaction", orjson.dumps(body), _nothing, takes_long=True)


def defragment() -> Question[None]:
    return Question("/v3/maintenance/defragment", b"{}", _nothing)


def move_leader(member_id: str) -> Question[None]:
    return Question("/v3/maintenance/transfer-leadership", orjson.dumps({"targetID": member_id}), _nothing)


def quota_of(metrics: bytes) -> int:
    """The quota in bytes by a member's metrics; 0: they do not tell it."""
    found = _QUOTA.search(metrics)
    try:
        return int(float(found.group(1))) if found else 0
    except (ValueError, OverflowError):
        return 0


def _nothing(reply: Json) -> None:
    if not isinstance(reply, dict):
        raise ValueError("the reply is not an object")


def _id(number: str) -> str:
    return "" if number == "0" else number
