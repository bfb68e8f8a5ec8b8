"""The sessions of the web page are for rapid alone: who notes one is whom it names."""

from pathlib import Path

import pytest

from common.access import Role
from common.errors import Denied
from daemons.wconfd.core.keptrows import SESSIONS
from daemons.wconfd.filestores import KeptStore
from daemons.wconfd.handlers.keptrows import SessionHandlers
from protocol.peer import Peer
from protocol.wconfd.config import ChangeSessions, FollowSessions

RAPID = 77


def handlers(folder: Path) -> SessionHandlers:
    return SessionHandlers(KeptStore.load(folder / "sessions.data", SESSIONS), RAPID)


def peer(uid: int, role: Role) -> Peer:
    return Peer(1, uid, uid, role=role)


@pytest.mark.trio
@pytest.mark.parametrize("one", [peer(5, Role.READ), peer(5, Role.ADMIN)], ids=["reader", "administrator"])
async def test_others_neither_see_nor_note_sessions_whatever_their_role(tmp_path: Path, one: Peer) -> None:
    with pytest.raises(Denied, match="for rapid alone"):
        await handlers(tmp_path).follow_sessions(FollowSessions(""), one)
    with pytest.raises(Denied, match="for rapid alone"):
        await handlers(tmp_path).change_sessions(ChangeSessions((), ()), one)


@pytest.mark.trio
@pytest.mark.parametrize("one", [peer(RAPID, Role.READ), peer(0, Role.FULL)], ids=["rapid's user", "root"])
async def test_rapid_sees_them_with_a_user_of_its_own_or_with_all_rights(tmp_path: Path, one: Peer) -> None:
    now = await handlers(tmp_path).follow_sessions(FollowSessions(""), one)

    assert now.sessions == ()
