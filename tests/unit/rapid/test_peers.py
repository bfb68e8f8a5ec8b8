"""Callers over the Unix socket are named by the system's users (DESIGN section 15)."""

import os
import pwd
from typing import Any, cast

import pytest

from common.access import Role
from common.errors import Unavailable
from daemons.rapid.access.authenticator import RequestCallers
from daemons.rapid.calls import Face
from daemons.rapid.page.pages import login_of
from protocol.peer import Peer
from tests.support.accounts.userlookups import without_descriptors

OWN = pwd.getpwuid(os.getuid())


class Http:
    """As much of a request as is asked here."""

    def __init__(self, peer: Peer) -> None:
        self.headers: dict[str, str] = {}
        self.scope = {"state": {"peer": peer}}


def http_of(uid: int) -> Any:
    return Http(Peer(7, uid, uid, role=Role.SUBMIT))


@pytest.mark.trio
async def test_a_caller_without_a_name_goes_by_the_number() -> None:
    found = await RequestCallers(cast(Any, None)).identify(http_of(4_000_001), Face.OURS)

    assert (found.name, found.unix_user) == ("4000001", None)


@pytest.mark.trio
async def test_a_caller_who_cannot_be_looked_up_now_does_not_lose_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    callers = RequestCallers(cast(Any, None))
    with monkeypatch.context() as patch:
        without_descriptors(patch)
        with pytest.raises(Unavailable, match="the users of this machine cannot be read now"):
            await callers.identify(http_of(OWN.pw_uid), Face.OURS)

    assert (await callers.identify(http_of(OWN.pw_uid), Face.OURS)).unix_user == OWN.pw_name


def test_a_page_does_not_remember_that_a_user_could_not_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(user for user in pwd.getpwall() if user.pw_uid not in (0, OWN.pw_uid))
    with monkeypatch.context() as patch:
        without_descriptors(patch)
        assert login_of(other.pw_uid) is None

    assert login_of(other.pw_uid) == pwd.getpwuid(other.pw_uid).pw_name
