"""DESIGN section 4, "Who is calling"."""

import os
import socket

from common.access import Access, Role
from protocol.peer import Peer, peer_of, with_role


def test_the_role_is_the_highest_by_user_group_or_supplementary_group() -> None:
    access = Access(own_uid=5, uids={10: Role.SUBMIT}, gids={20: Role.READ, 21: Role.OPERATE})

    def role(uid: int, gid: int, groups: frozenset[int] = frozenset()) -> Role:
        return with_role(Peer(1, uid, gid, groups), access).role

    assert (role(0, 9), role(5, 9)) == (Role.FULL, Role.FULL)
    assert (role(10, 9), role(7, 20), role(7, 9, groups=frozenset({20}))) == (Role.SUBMIT, Role.READ, Role.READ)
    assert (role(10, 20), role(10, 20, groups=frozenset({21}))) == (Role.SUBMIT, Role.OPERATE)
    assert {role(7, 9), role(20, 10), role(7, 0, groups=frozenset({10}))} == {Role.NONE}


def test_kernel_names_the_peer() -> None:
    left, right = socket.socketpair()
    with left, right:
        peer = peer_of(left)

    assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
    assert peer.groups == frozenset(os.getgroups())
