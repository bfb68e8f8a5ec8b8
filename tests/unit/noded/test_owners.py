"""The owner of a file that noded writes: never another one because users could not be looked up (noded.md 6)."""

import os
from pathlib import Path

import pytest

from common.errors import Unavailable
from daemons.noded.files.places import named_owner
from protocol.noded.files import GROUPS, USERS
from tests.support.accounts.userlookups import without_descriptors

USER, GROUP = min(USERS - {"root"}), min(GROUPS - {"root"})


def test_a_user_who_cannot_be_looked_up_now_is_not_replaced_by_the_owner_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    without_descriptors(monkeypatch)

    with pytest.raises(Unavailable, match="the users of this machine cannot be read now"):
        named_owner(USER, GROUP, tmp_path)
