"""DESIGN section 4, "Who is calling"."""

import os
import socket

from protocol.peer import Access, Peer, peer_of


def test_access_is_by_user_group_or_supplementary_group() -> None:
    access = Access(uids={10}, gids={20}, own_uid=5)

    for allowed in (Peer(1, 0, 9), Peer(1, 5, 9), Peer(1, 10, 9), Peer(1, 7, 20), Peer(1, 7, 9, frozenset({20}))):
        assert access.allows(allowed)
    for refused in (Peer(1, 7, 9), Peer(1, 20, 10), Peer(1, 7, 0, frozenset({10}))):
        assert not access.allows(refused)


def test_kernel_names_the_peer() -> None:
    left, right = socket.socketpair()
    with left, right:
        peer = peer_of(left)

    assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
    assert peer.groups == frozenset(os.getgroups())
