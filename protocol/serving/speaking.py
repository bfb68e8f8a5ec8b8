"""Calls in the name of others: who may make them, and with which rights.

Theory. A gateway that has checked a caller itself (rapid, over HTTP) says with each call for whom it is. From there on
the call is that user's: the peer that handlers see has the Unix user's number and groups, not the gateway's. A speaker
without a Unix user has a number that no user has, and so owns nothing. A gateway can lend no right that it does not
have, and nobody can lend the daemons' own.

Source: DESIGN sections 4 and 15.
"""

import time
from typing import Final

import attrs

from common.access import Access, Role, caller_text
from common.errors import Denied, InvalidRequest
from common.queue.submitter import NO_UID
from common.system.accounts.users import groups_of, user_named
from common.system.inthread import in_thread
from protocol.peer import Peer
from protocol.speaker import Speaker

# seconds for which a user who was looked up is believed to be the same
KEPT_S: Final = 5.0
_KEPT_AT_MOST: Final = 1000


@attrs.frozen
class _UnixUser:
    uid: int
    gid: int
    groups: frozenset[int]
    # time.monotonic() of the look-up
    found_at: float


class Speakers:
    """Turns a call of a trusted program into one of the user for whom it speaks."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[str, _UnixUser] = {}

    async def speaking(self, peer: Peer, speaker: Speaker) -> Peer:
        """The peer as which the call is carried out.

        Raises: Denied: the caller may not speak for others, or has less rights than the Unix user.
            InvalidRequest: there is no such Unix user. Unavailable: users cannot be read now; nothing is remembered.
        """
        if not self._access.may_speak_for_others(peer.uid):
            raise Denied(
                f"user {peer.uid} may not call in the name of {caller_text(speaker.name)}; 'trusted' in '[access]' of "
                "the settings names those who may"
            )
        role = min(peer.role, speaker.role, Role.ADMIN)
        if speaker.login is None:
            return Peer(peer.pid, NO_UID, NO_UID, role=role, speaker=speaker, by=peer)
        user = await self._user(speaker.login)
        if self._access.role_of(user.uid, user.groups) > max(peer.role, Role.ADMIN):
            raise Denied(f"{speaker.login!r} has all rights; nobody else can call in that name")
        return Peer(peer.pid, user.uid, user.gid, user.groups, role, speaker, peer)

    async def _user(self, login: str) -> _UnixUser:
        found = self._known.get(login)
        if found is None or time.monotonic() - found.found_at > KEPT_S:
            found = await in_thread(_look_up, login)
            if len(self._known) >= _KEPT_AT_MOST:
                self._known.clear()
            self._known[login] = found
        return found


def _look_up(login: str) -> _UnixUser:
    """Raises: InvalidRequest: there is no such user. Unavailable: users cannot be read now."""
    if (found := user_named(login)) is None:
        raise InvalidRequest(f"there is no user {login!r:.80} on this machine")
    return _UnixUser(found.pw_uid, found.pw_gid, frozenset(groups_of(found)), time.monotonic())
