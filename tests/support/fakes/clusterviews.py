"""What a keeperd tells of the members of its cluster, for tests of those who show it."""

from typing import Any

import attrs

from common.lease.records import Role
from protocol.keeperd import MemberView


def member(name: str, role: Role, state: str, epoch: int, **told: Any) -> MemberView:
    """Of release 1 and priority 1, unless told otherwise."""
    plain = MemberView(name=name, role=role, state=state, epoch=epoch, release="1", priority=1)
    return attrs.evolve(plain, **told)


def master(name: str, epoch: int, **told: Any) -> MemberView:
    return member(name, Role.MASTER, "master", epoch, **{"since_s": 0.4} | told)


def replica(name: str, epoch: int, **told: Any) -> MemberView:
    """One that has all copies, unless told otherwise."""
    plain = member(name, Role.REPLICA, "follow", epoch, copies="fresh", lag_files=0, config_behind=False)
    return attrs.evolve(plain, **told)


def barred(name: str, epoch: int, **told: Any) -> MemberView:
    """One whose copies are stale."""
    return member(name, Role.BARRED, "barred", epoch, **{"copies": "stale"} | told)


def silent(name: str) -> MemberView:
    return member(name, Role.SILENT, "", 0, release="")
